package rows

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// randomRow is reads of single records at random places of a large log of many segments.
func randomRow(e *Env) (*report.Table, error) {
	const segments = 1000
	bytes := e.size(10<<30, 64<<20)
	config := atLevel(varve.OS)
	config["segment.bytes"] = strconv.Itoa(bytes / segments)
	dir, err := os.MkdirTemp(e.Dir, "random")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var first, last time.Time
	err = withTopic(dir, quiet(), varve.TopicConfig{Config: config}, func(t *varve.Topic) error {
		p, err := t.Partition(0)
		if err == nil {
			first, last, err = fillDated(p, bytes/(recordBytes+10))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var s measure.Samples
	held := 0
	// Opened anew, so that what a roll leaves to the background is done.
	err = reopened(dir, func(all []*varve.Partition) error {
		p := all[0]
		held = len(p.Stats().Segments)
		if err := visit(p, 2*held); err != nil {
			return err
		}
		s, err = e.rounds(e.byOffset(p), e.byTime(p, first, last))
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "random", Title: "Random reads by offset and by time, warm cache",
		Text: fmt.Sprintf("Single records at random places of a log of %d MiB in %d segments (segment.bytes set), each by a new Reader and one Poll: by offset, and by time with AtTime. Reads are read system calls; an index is looked up in a mapping, without one.", bytes>>20, held)}
	names := []string{"by offset", "by time"}
	t.Add(s, "rec/s", "k reads/s", 1e-3, names...)
	t.Add(s, "reads", "read calls each", 1, names...)
	for _, name := range names {
		rates := s.Of(name, "rec/s")
		t.AtLeast("/"+name, "reads/s", rates, 100_000)
	}
	// The active segment's index is read from its file, now and then.
	for _, name := range names {
		t.AtMost("/"+name+", calls", "read calls each", s.Of(name, "reads"), 1.01)
	}
	return t, nil
}

// visit reads a record at so many places, evenly spread: so each segment is open, if as
// many as there are may be.
func visit(p *varve.Partition, places int) error {
	for i := range places {
		r, err := p.Reader(varve.At(p.End() * varve.Offset(i) / varve.Offset(places)))
		if err != nil {
			return err
		}
		if _, _, err := r.Poll(); err != nil {
			return err
		}
	}
	return nil
}

// fillDated publishes n records, a second later each batch, and returns the first and the
// last time.
func fillDated(p *varve.Partition, n int) (first, last time.Time, err error) {
	first = time.Now().Add(-time.Duration(n/batchRecords) * time.Second).Truncate(time.Second)
	last = first
	next := turns(each(batches(), recordsOf))
	for done := 0; done < n; done += batchRecords {
		last = first.Add(time.Duration(done/batchRecords) * time.Second)
		recs := next()
		for i := range recs {
			recs[i].Timestamp = last.UnixMilli()
		}
		if _, err := p.Publish(context.Background(), recs...); err != nil {
			return first, last, err
		}
	}
	return first, last, nil
}

func (e *Env) byOffset(p *varve.Partition) measure.Contender {
	end := int64(p.End())
	return e.randomly("by offset", p, func() varve.Start { return varve.At(varve.Offset(rand.Int64N(end))) })
}

func (e *Env) byTime(p *varve.Partition, first, last time.Time) measure.Contender {
	return e.randomly("by time", p, func() varve.Start {
		return varve.AtTime(first.Add(rand.N(last.Sub(first))))
	})
}

// randomly reads one record at a place after the other.
func (e *Env) randomly(name string, p *varve.Partition, place func() varve.Start) measure.Contender {
	return measure.Contender{Name: name, Run: func(string) (measure.Figures, error) {
		one := func() error {
			at := place()
			r, err := p.Reader(at)
			if err != nil {
				return err
			}
			if _, ok, err := r.Poll(); err != nil || !ok {
				return fmt.Errorf("no record at %s: %w", at, err)
			}
			return nil
		}
		before, err := reads()
		if err != nil {
			return nil, err
		}
		n := 0
		f, err := rate(e.span(), 1, func() error {
			n++
			return one()
		})
		if err != nil {
			return nil, err
		}
		after, err := reads()
		f["reads"] = float64(after-before) / float64(n)
		return f, err
	}}
}
