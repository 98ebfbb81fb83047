package rows

import (
	"context"
	"runtime"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// allocationsRow counts allocations a record, once everything is warm.
func allocationsRow(e *Env) (*report.Table, error) {
	ctx := context.Background()
	batch := values(batchRecords, recordBytes)
	recs, raw := recordsOf(batch), encoded(batch)
	calls := e.size(5000, 500)
	publish := func(name string, do func(p *varve.Partition, pub *varve.Publisher) error) measure.Contender {
		return measure.Contender{Name: name, Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
				pub := p.Topic().Publisher(varve.PublisherOptions{})
				f, err = allocations(calls, batchRecords, func() error { return do(p, pub) })
				return err
			})
			return f, err
		}}
	}
	read := func(name string, do func(*varve.Partition) (int, error)) measure.Contender {
		return measure.Contender{Name: name, Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
				if err := fill(p, calls*batchRecords); err != nil {
					return err
				}
				f, err = allocations(3, calls*batchRecords, func() error {
					_, err := do(p)
					return err
				})
				return err
			})
			return f, err
		}}
	}
	all := []measure.Contender{
		publish("Publish of batches", func(p *varve.Partition, _ *varve.Publisher) error {
			_, err := p.Publish(ctx, recs...)
			return err
		}),
		publish("PublishBatch", func(p *varve.Partition, _ *varve.Publisher) error {
			_, err := p.PublishBatch(ctx, raw)
			return err
		}),
		publish("PublishAsync", func(_ *varve.Partition, pub *varve.Publisher) error {
			for _, r := range recs {
				if err := pub.PublishAsync(ctx, r, nil); err != nil {
					return err
				}
			}
			return pub.Flush(ctx)
		}),
		read("read by Records", readRecords),
		read("read by Poll", readPoll),
		read("read by batches", readBatches),
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "allocations", Title: "Allocations a record",
		Text: "Counted by the runtime over the whole process, in steady state: records of 100 bytes in batches of 100. Below 0.02, two a batch, counts as none."}
	t.Add(s, "allocations", "allocations a record", 1, namesOf(all)...)
	t.Add(s, "bytes", "bytes allocated a record", 1, namesOf(all)...)
	for _, c := range all {
		if c.Name != "PublishAsync" { // it is no batch path
			t.AtMost("/"+c.Name, "a record", s.Of(c.Name, "allocations"), 0.02)
		}
	}
	return t, nil
}

// allocations calls do, which handles n records, and counts what was allocated a record.
func allocations(calls, n int, do func() error) (measure.Figures, error) {
	for range min(calls, warmUp) {
		if err := do(); err != nil {
			return nil, err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if err := do(); err != nil {
			return nil, err
		}
	}
	runtime.ReadMemStats(&after)
	records := float64(calls * n)
	return measure.Figures{
		"allocations": float64(after.Mallocs-before.Mallocs) / records,
		"bytes":       float64(after.TotalAlloc-before.TotalAlloc) / records,
	}, nil
}

// goroutinesRow counts the goroutines of an engine with next to nothing in it, and of one
// with many topics, partitions, readers and records under way.
func goroutinesRow(e *Env) (*report.Table, error) {
	all := []measure.Contender{
		{Name: "1 partition, 1 reader", Run: func(dir string) (measure.Figures, error) { return goroutines(dir, 1, 1, 1) }},
		{Name: "5 topics of 40 partitions, 1,000 readers", Run: func(dir string) (measure.Figures, error) { return goroutines(dir, 5, 40, 1000) }},
	}
	once := *e
	once.Rounds = 1 // it is no matter of chance
	s, err := once.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "goroutines", Title: "Goroutines",
		Text: "Those of the process beyond what it had before Open, after publishes to every partition, with readers that have read to the end."}
	t.Add(s, "goroutines", "goroutines", 1, namesOf(all)...)
	t.AtMost("", "times those of an engine with one partition", s.Ratio(all[1].Name, all[0].Name, "goroutines"), 1)
	return t, nil
}

func goroutines(dir string, topics, partitions, readers int) (measure.Figures, error) {
	before := runtime.NumGoroutine()
	eng, err := varve.Open(dir, quiet())
	if err != nil {
		return nil, err
	}
	defer eng.Close()
	var all []*varve.Partition
	for i := range topics {
		t, err := eng.CreateTopic("t"+string(rune('a'+i)), varve.TopicConfig{Partitions: partitions, Config: atLevel(varve.OS)})
		if err != nil {
			return nil, err
		}
		pub := t.Publisher(varve.PublisherOptions{ByPartition: true})
		for n := range partitions {
			p, err := t.Partition(n)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
			rec := varve.Record{Partition: int32(n), Value: []byte("x")}
			if err := pub.PublishAsync(context.Background(), rec, nil); err != nil {
				return nil, err
			}
		}
		if err := pub.Flush(context.Background()); err != nil {
			return nil, err
		}
	}
	var open []*varve.Reader
	for i := range readers {
		r, err := all[i%len(all)].Reader(varve.Earliest())
		if err != nil {
			return nil, err
		}
		for ok := true; ok; {
			if _, ok, err = r.Poll(); err != nil {
				return nil, err
			}
		}
		open = append(open, r)
	}
	n := runtime.NumGoroutine() - before
	for _, r := range open {
		r.Close()
	}
	return measure.Figures{"goroutines": float64(n)}, nil
}
