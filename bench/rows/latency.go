package rows

import (
	"context"
	"errors"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// tailRow is the time from the call of a publish until a follower in the process has the
// record, on a machine that is idle in between.
func tailRow(e *Env) (*report.Table, error) {
	n := e.size(4000, 300)
	all := []measure.Contender{
		{Name: "varve", Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
				f, err = tail(p, n, pause)
				return err
			})
			return f, err
		}},
		{Name: "varve, without a pause", Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
				f, err = tail(p, n, 0)
				return err
			})
			return f, err
		}},
		{Name: "a channel, nothing stored", Run: func(string) (measure.Figures, error) { return channel(n), nil }},
	}
	if e.Quick {
		all = all[:1]
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "tail", Title: "Tail latency, publish to follower, level os",
		Text: "From the call of Publish, of one record of 100 bytes, until Next has returned it in a goroutine that waits at the end; 200 µs between two. Beside it the same without the pause, and a value through a channel of the runtime with the pause, which is what the wake-up of a goroutine costs on this machine."}
	for _, q := range []string{"p50 µs", "p99 µs", "max µs"} {
		t.Add(s, q, q, 1, namesOf(all)...)
	}
	t.AtMost("/p50", "µs", s.Of("varve", "p50 µs"), 20)
	t.AtMost("/p99", "µs", s.Of("varve", "p99 µs"), 200)
	return t, nil
}

// tail publishes n records and takes the time until each is read.
func tail(p *varve.Partition, n int, wait time.Duration) (measure.Figures, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := p.Reader(varve.Latest())
	if err != nil {
		return nil, err
	}
	seen := make(chan time.Time, 1)
	ended := make(chan error, 1)
	go func() {
		for {
			if _, err := r.Next(ctx); err != nil {
				ended <- err
				return
			}
			seen <- time.Now()
		}
	}()
	rec := recordsOf(values(1, recordBytes))[0]
	var l measure.Latencies
	for range n + warmUp {
		begin := time.Now()
		if _, err := p.Publish(ctx, rec); err != nil {
			return nil, err
		}
		l = append(l, (<-seen).Sub(begin))
		time.Sleep(wait)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return l[warmUp:].Figures(), nil
}

// channel is tail with nothing but the wake-up.
func channel(n int) measure.Figures {
	queue, seen := make(chan struct{}), make(chan time.Time, 1)
	go func() {
		for range queue {
			seen <- time.Now()
		}
	}()
	defer close(queue)
	var l measure.Latencies
	for range n {
		begin := time.Now()
		queue <- struct{}{}
		l = append(l, (<-seen).Sub(begin))
		time.Sleep(pause)
	}
	return l.Figures()
}

// durableLatencyRow is durable publishes of one caller against bare fdatasyncs. Blocks of
// each take turns, with an engine of its own for every block: what a checkpoint of one
// block still has to write must not fall into the next.
func durableLatencyRow(e *Env) (*report.Table, error) {
	span := time.Duration(e.Scale * float64(12*time.Second)) // two checkpoints
	if e.Quick {
		span = 400 * time.Millisecond
	}
	batch := values(1, recordBytes)
	all := []measure.Contender{
		{Name: "bare fdatasync", Run: func(dir string) (measure.Figures, error) {
			l, err := openFloor(dir, floorBytes)
			if err != nil {
				return nil, err
			}
			defer l.File.Close()
			return latencies(span, func() error { return l.Append(batch[0]) })
		}},
		{Name: "varve", Run: func(dir string) (f measure.Figures, err error) {
			rec := recordsOf(batch)[0]
			err = withPartition(dir, varve.Fsync, func(p *varve.Partition) error {
				f, err = latencies(span, func() error {
					_, err := p.Publish(context.Background(), rec)
					return err
				})
				return err
			})
			return f, err
		}},
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "durable-latency", Title: "Durable publish latency",
		Text: "One caller publishes single records of 100 bytes and waits until each is on stable storage, checkpoints running; beside it a write of the same bytes and one fdatasync of a file that was preallocated and written before."}
	for _, q := range []string{"p50 µs", "p90 µs", "p99 µs", "max µs"} {
		t.Add(s, q, q, 1, namesOf(all)...)
	}
	t.AtMost("/p50", "times a bare fdatasync", s.Ratio("varve", "bare fdatasync", "p50 µs"), 1.3)
	t.AtMost("/p99", "times a bare fdatasync", s.Ratio("varve", "bare fdatasync", "p99 µs"), 1.5)
	return t, nil
}

// latencies calls do for a time and returns how long the calls took.
func latencies(span time.Duration, do func() error) (measure.Figures, error) {
	var l measure.Latencies
	for end := time.Now().Add(span); time.Now().Before(end); {
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		l = append(l, time.Since(begin))
	}
	return l[min(warmUp, len(l)/2):].Figures(), nil
}
