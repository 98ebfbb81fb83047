package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// view is what a partition shows to readers, each way of reading held against the
// others.
type view struct {
	refused    error // nothing else is there then
	start, end record.Offset
	records    map[record.Offset]*varve.Record
	epochs     map[record.Offset]record.Epoch
	gaps       []span
	times      []record.Offset // found for lookups; -1: refused because of damage
	faults     []string        // what no reader may meet
}

// span is offsets from, not including to.
type span struct{ from, to record.Offset }

func (s span) has(off record.Offset) bool { return s.from <= off && off < s.to }

// lookups are the times that are looked up: from before the first record to behind the
// last.
var lookups = func() (list []int64) {
	for ms := int64(1_700_000_000_000 - 1000); ms < 1_700_000_100_000; ms += 9_500 {
		list = append(list, ms)
	}
	return list
}()

func (v *view) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

func (v *view) inGap(off record.Offset) bool {
	return slices.ContainsFunc(v.gaps, func(s span) bool { return s.has(off) })
}

// mostOffsets is more than a partition has, whatever is put beside it.
const mostOffsets = 10_000

// lookAt reads a partition in every way there is.
func lookAt(p *varve.Partition) *view {
	v := glanceAt(p)
	if v.refused == nil && v.end-v.start <= mostOffsets {
		v.backward(p)
		v.jumps(p)
		v.lookUp(p)
	}
	return v
}

// glanceAt reads a partition once, record by record and batch by batch.
func glanceAt(p *varve.Partition) *view {
	v := &view{records: map[record.Offset]*varve.Record{}, epochs: map[record.Offset]record.Epoch{}}
	if v.refused = p.Err(); v.refused != nil {
		return v
	}
	v.start, v.end = p.Start(), p.End()
	if p.LogEnd() != v.end || p.DurableEnd() != v.end {
		v.fault("published up to %d, durable up to %d, appended up to %d", v.end, p.DurableEnd(), p.LogEnd())
	}
	if v.end-v.start > mostOffsets {
		v.fault("there are offsets from %d to %d", v.start, v.end)
		return v
	}
	v.forward(p)
	v.batches(p)
	return v
}

// gap takes down a loss that a reader is told of.
func (v *view) gap(err error) (span, bool) {
	var damage *varve.CorruptError
	if !errors.As(err, &damage) {
		v.fault("reading ends: %v", err)
		return span{}, false
	}
	if damage.From >= damage.To || damage.Path == "" || damage.Reason == "" {
		v.fault("damage is not described: %+v", *damage)
	}
	return span{damage.From, damage.To}, true
}

func (v *view) forward(p *varve.Partition) {
	next := v.start
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			s, ok := v.gap(err)
			if !ok {
				return
			}
			v.gaps = append(v.gaps, s)
			next = max(next, s.to)
			continue
		}
		if rec.Offset < next || rec.Offset >= v.end {
			v.fault("offset %d is handed out, where %d to %d were to come", rec.Offset, next, v.end)
		}
		v.records[rec.Offset] = &rec
		next = rec.Offset + 1
	}
	for off := v.start; off < v.end; off++ {
		if _, there := v.records[off]; there == v.inGap(off) {
			v.fault("offset %d is handed out: %v; is in a gap: %v", off, there, v.inGap(off))
		}
	}
}

// batches reads whole batches, which have the leader epochs.
func (v *view) batches(p *varve.Partition) {
	r, err := p.Reader(varve.Earliest())
	if err != nil {
		v.fault("no reader: %v", err)
		return
	}
	for range 10 * (len(v.records) + len(v.gaps) + 1) { // more than enough
		b, ok, err := r.PollBatch()
		if err != nil {
			if _, ok := v.gap(err); !ok {
				return
			}
			continue
		}
		if !ok {
			break
		}
		for off := b.BaseOffset; off < b.NextOffset(); off++ {
			v.epochs[off] = b.LeaderEpoch
		}
	}
	for off := v.start; off < v.end; off++ {
		_, inBatch := v.epochs[off]
		if _, there := v.records[off]; there != inBatch {
			v.fault("offset %d is handed out by itself: %v; in a batch: %v", off, there, inBatch)
		}
	}
}

func (v *view) backward(p *varve.Partition) {
	last, n := v.end, 0
	for rec, err := range p.Backward(context.Background(), varve.Latest()) {
		if err != nil {
			if _, ok := v.gap(err); !ok {
				return
			}
			continue
		}
		if _, there := v.records[rec.Offset]; !there || rec.Offset >= last {
			v.fault("backward, offset %d is handed out behind %d", rec.Offset, last)
		}
		last = rec.Offset
		n++
	}
	if n != len(v.records) {
		v.fault("backward there are %d records, forward %d", n, len(v.records))
	}
}

// jumps begins to read at some offsets.
func (v *view) jumps(p *varve.Partition) {
	for i := range record.Offset(4) {
		off := v.start + (v.end-v.start)*i/4 + i%2
		if off >= v.end {
			return
		}
		r, err := p.Reader(varve.At(off))
		if err != nil {
			v.fault("no reader at %d: %v", off, err)
			return
		}
		rec, ok, err := r.Poll()
		switch {
		case err != nil:
			if s, ok := v.gap(err); ok && !s.has(off) {
				v.fault("reading at %d there is a gap from %d to %d", off, s.from, s.to)
			}
		case !ok || rec.Offset != off:
			v.fault("reading at %d there is %d (%v)", off, rec.Offset, ok)
		}
		if _, there := v.records[off]; there != (err == nil) {
			v.fault("reading at %d: %v; reading from the start it is there: %v", off, err, there)
		}
	}
}

// lookUp looks up times. What it finds is the first of the records that can be read, or
// one that cannot.
func (v *view) lookUp(p *varve.Partition) {
	for _, ms := range lookups {
		off, err := p.OffsetFor(context.Background(), time.UnixMilli(ms))
		if err != nil {
			v.gap(err)
			off = -1
		}
		v.times = append(v.times, off)
		if err != nil {
			continue
		}
		for at, rec := range v.records {
			switch {
			case at < off && rec.Timestamp >= ms:
				v.fault("looking up %d gives offset %d, though %d is dated %d", ms, off, at, rec.Timestamp)
			case at == off && rec.Timestamp < ms:
				v.fault("looking up %d gives offset %d, which is dated %d", ms, off, rec.Timestamp)
			}
		}
	}
}
