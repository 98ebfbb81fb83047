// Command workqueue has three workers share the jobs of a topic. The key of a job is its
// customer: those of one customer are done in order, one after the other, and those of
// several beside each other, also within a partition.
//
// The workers are members of a group; each partition is one's. A worker deals the records
// of a poll to lanes by their keys, waits for all lanes, and commits. Should it die
// before that, whoever has the partition next does them again. The program plays that, too.
//
//	go run ./examples/workqueue
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync"

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
	if err := work(ctx, working, engine, l, 1); err != nil { // dies with what it has done of one poll
		return err
	}
	var workers sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		workers.Go(func() { errs[i] = work(ctx, working, engine, l, -1) })
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

// work does jobs until working ends, or it dies with what a poll of a number has brought.
func work(ctx, working context.Context, engine *varve.Engine, l *ledger, diesAt int) error {
	m, err := engine.Join(ctx, "workers", []string{"jobs"}, varve.JoinOptions{MaxRecords: 20})
	if err != nil {
		return err
	}
	defer m.Leave(ctx)
	for poll := 1; ; poll++ {
		polled, err := m.Poll(working)
		if working.Err() != nil {
			return nil // there is nothing left
		}
		if err != nil {
			return err
		}
		byKey(polled.Records, 4, l.do)
		if poll == diesAt {
			return nil
		}
		if err := m.Commit(ctx); err != nil { // also when working has ended: it is done
			return err
		}
	}
}

// byKey calls do for each record, in so many lanes. What has one key is in one lane, in
// order. It returns when all are done, so that they can be committed.
func byKey(records []varve.Record, lanes uint64, do func(*varve.Record)) {
	var all sync.WaitGroup
	seed := maphash.MakeSeed()
	for lane := range lanes {
		all.Go(func() {
			for i := range records {
				if maphash.Bytes(seed, records[i].Key)%lanes == lane {
					do(&records[i])
				}
			}
		})
	}
	all.Wait()
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
