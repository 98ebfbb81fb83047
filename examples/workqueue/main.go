// Command workqueue has three workers share the jobs of a topic. The key of a job is its
// customer: those of one customer are done in order, one after the other, and those of
// several beside each other, also within a partition.
//
// The workers are subscriptions of a group; each partition is one's. What is finished past
// a job that takes long is committed as well, and not done again. What a worker has begun when it
// dies, whoever has the partition next does again. The program plays that, too.
//
//	go run ./examples/workqueue
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve"
)

func main() {
	dir := flag.String("dir", "", "data directory to use and keep (default: a temporary one)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir); err != nil {
		log.Fatalf("workqueue: %v", err)
	}
}

const customers, jobs = 10, 30 // of each

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-workqueue-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	engine, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer engine.Close()
	topic, err := engine.EnsureTopic("jobs", varve.TopicConfig{Partitions: 6})
	if err != nil {
		return err
	}
	var list []varve.Record
	for n := range jobs * customers {
		list = append(list, varve.Record{Key: fmt.Append(nil, "customer-", n%customers), Value: fmt.Append(nil, n/customers)})
	}
	if _, err := topic.PublishAll(ctx, list); err != nil {
		return err
	}

	working, finish := context.WithCancel(ctx)
	defer finish()
	l := &ledger{last: map[string]int{}, finish: finish}
	if err := work(working, engine, l, true); err != nil {
		return err
	}
	var workers sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		workers.Go(func() { errs[i] = work(working, engine, l, false) })
	}
	workers.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	d, err := engine.DescribeGroup("workers")
	fmt.Fprintf(w, "%d jobs of %d customers: %d done, %d of them twice, %d out of order, %d left\n",
		customers*jobs, customers, l.done, l.twice, l.wrong, d.Lag)
	return errors.Join(err, engine.Close())
}

// work does jobs until working ends. A worker that dies has done the first job of each
// customer by then, and told nobody.
func work(working context.Context, engine *varve.Engine, l *ledger, dies bool) error {
	dead, die := context.WithCancel(working)
	defer die()
	var begun atomic.Int32
	handler := func(ctx context.Context, job varve.Delivery) error {
		l.do(&job.Record)
		if !dies {
			return nil
		}
		if begun.Add(1) == customers {
			die()
		}
		<-ctx.Done() // it does not return before its end
		return ctx.Err()
	}
	unending := context.WithoutCancel(working)
	s, err := engine.Consume(unending, "workers", []string{"jobs"}, handler, varve.ConsumeOptions{ByKey: true})
	if err != nil {
		return err
	}
	<-dead.Done()
	if !dies {
		return s.Stop(unending) // what is begun ends, and is committed
	}
	if err := s.Stop(dead); !errors.As(err, new(*varve.UnfinishedError)) {
		return fmt.Errorf("a worker was to die at work: %w", err)
	}
	return nil
}

// ledger is what was done. Its mutex guards all of it.
type ledger struct {
	mu                 sync.Mutex
	last               map[string]int // jobs done of each customer
	done, twice, wrong int
	finish             func() // is called when there are no more, or one is out of order
}

// do does a job, of which the value is how many its customer had before.
func (l *ledger) do(job *varve.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _ := strconv.Atoi(string(job.Value))
	if last := l.last[string(job.Key)]; n < last {
		l.twice++
	} else if n > last {
		l.wrong++
		l.finish() // what this example is about does not hold
	} else {
		l.last[string(job.Key)]++
		if l.done++; l.done == customers*jobs {
			l.finish()
		}
	}
}
