package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/varvelog/varve"
)

// replay is one way to read the topic, and what it must find: from which offset
// of each partition on, every record there is.
type replay struct {
	name  string
	start func(partition int) varve.Start
	first func(partition int) varve.Offset
}

func replays(l *ledger) []replay {
	middle := func(p int) varve.Offset { return varve.Offset(len(l.partitions[p]) / 2) }
	at := l.middleTime()
	return []replay{
		{"from start", func(int) varve.Start { return varve.Earliest() }, func(int) varve.Offset { return 0 }},
		{"from offset", func(p int) varve.Start { return varve.At(middle(p)) }, middle},
		{"from time", func(int) varve.Start { return varve.AtTime(time.UnixMilli(at)) }, func(p int) varve.Offset { return l.firstAt(p, at) }},
	}
}

// middleTime is half way between the first and the last event.
func (l *ledger) middleTime() int64 {
	low, high := int64(0), int64(0)
	for _, p := range l.partitions {
		for _, e := range p {
			if low == 0 || e.time < low {
				low = e.time
			}
			high = max(high, e.time)
		}
	}
	return low + (high-low)/2
}

// run replays all partitions at once and checks each.
func (r *replay) run(ctx context.Context, w io.Writer, topic *varve.Topic, l *ledger) error {
	started := time.Now()
	found := make([]result, topic.Partitions())
	var running sync.WaitGroup
	for i := range found {
		running.Go(func() { found[i] = r.partition(ctx, topic, i, l) })
	}
	running.Wait()
	var sum result
	for _, f := range found {
		sum.records += f.records
		sum.bytes += f.bytes
		sum.err = errors.Join(sum.err, f.err)
	}
	if sum.err != nil {
		return fmt.Errorf("%s: %w", r.name, sum.err)
	}
	fmt.Fprintf(w, "%-11s %s: checksums equal\n", r.name, rate(sum.records, sum.bytes, time.Since(started)))
	return nil
}

type result struct {
	records, bytes int64
	err            error
}

// partition replays one partition and holds it against the ledger.
func (r *replay) partition(ctx context.Context, topic *varve.Topic, i int, l *ledger) (res result) {
	p, err := topic.Partition(i)
	if err != nil {
		return result{err: err}
	}
	var got checksum
	last := map[string]int64{} // by user: the event before
	next := r.first(i)
	for rec, err := range p.Records(ctx, r.start(i)) {
		if err != nil {
			res.err = err
			return res
		}
		if rec.Offset != next {
			res.err = fmt.Errorf("partition %d: offset %d came where %d was due: %w", i, rec.Offset, next, errMismatch)
			return res
		}
		next++
		if res.err = inOrder(last, &rec); res.err != nil {
			return res
		}
		got.add(l.hash(rec.Timestamp, rec.Key, rec.Value))
		res.bytes += int64(len(rec.Value))
	}
	res.records = got.records
	if want := l.sum(i, r.first(i)); got != want {
		res.err = fmt.Errorf("partition %d: %d records with checksum %x, published were %d with %x: %w",
			i, got.records, got.value, want.records, want.value, errMismatch)
	}
	return res
}

// inOrder checks that a user's events follow on: the number in each is one more
// than in the event before. A replay from the middle begins with any.
func inOrder(last map[string]int64, rec *varve.Record) error {
	_, rest, _ := bytes.Cut(rec.Value, []byte(`"seq":`))
	number, _, _ := bytes.Cut(rest, []byte(","))
	seq, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return fmt.Errorf("offset %d: no sequence number: %w", rec.Offset, errMismatch)
	}
	before, seen := last[string(rec.Key)]
	if seen && seq != before+1 {
		return fmt.Errorf("offset %d: event %d of %s came after event %d: %w", rec.Offset, seq, rec.Key, before, errMismatch)
	}
	last[string(rec.Key)] = seq
	return nil
}
