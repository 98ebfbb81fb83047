package varve

import (
	"context"
	"errors"
	"iter"
	"slices"
)

// Records iterates over the records from s up to the end as it stands when the
// iteration begins. What is lost comes as an error, once; a loop that goes on is
// given the records behind it.
func (p *Partition) Records(ctx context.Context, s Start) iter.Seq2[Record, error] {
	return upToEnd(ctx, []*Partition{p}, s)
}

// Records iterates over the records of all partitions, each up to its end as it
// stands when the iteration begins. Those of one partition come in order.
func (t *Topic) Records(ctx context.Context, s Start) iter.Seq2[Record, error] {
	return upToEnd(ctx, t.parts(), s)
}

// Follow iterates as Records does and goes on with what is published, until the
// context ends, which ends the iteration without an error.
func (p *Partition) Follow(ctx context.Context, s Start) iter.Seq2[Record, error] {
	return follow(ctx, []*Partition{p}, s)
}

// Follow iterates as Records does and goes on with what is published, until the
// context ends, which ends the iteration without an error.
func (t *Topic) Follow(ctx context.Context, s Start) iter.Seq2[Record, error] {
	return follow(ctx, t.parts(), s)
}

func upToEnd(ctx context.Context, parts []*Partition, s Start) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r, err := newReader(ctx, parts, s)
		if err != nil {
			yield(Record{}, err)
			return
		}
		kept := r.cursors[:0]
		for _, c := range r.cursors {
			if c.stop = c.p.End(); c.next < c.stop {
				kept = append(kept, c)
			}
		}
		r.cursors = kept
		var rec Record
		for {
			if err := ctx.Err(); err != nil {
				yield(Record{}, err)
				return
			}
			ok, err := r.record(&rec)
			switch {
			case err != nil:
				if !yield(Record{}, err) || !goesOn(err) {
					return
				}
			case !ok || !yield(rec, nil):
				return
			}
		}
	}
}

func follow(ctx context.Context, parts []*Partition, s Start) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		r, err := newReader(ctx, parts, s)
		for err == nil {
			var rec Record
			rec, err = r.Next(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if !yield(rec, err) {
				return
			}
			if goesOn(err) {
				err = nil
			}
		}
		if r == nil {
			yield(Record{}, err)
		}
	}
}

// goesOn says whether a reader goes on behind an error: it tells of a loss, and
// the place behind it is known.
func goesOn(err error) bool {
	var damage *CorruptError
	var lost *OutOfRangeError
	return errors.As(err, &damage) || errors.As(err, &lost)
}

// Backward iterates over the records in front of s, newest first: from Latest it
// begins with the last record, At(10) with offset 9.
func (p *Partition) Backward(ctx context.Context, s Start) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		high, err := s.resolve(ctx, p)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for step := Offset(64); ; {
			start := p.Start()
			if high <= start {
				return
			}
			read := span{low: max(start, high-step)}
			err := read.fill(ctx, p, high)
			read.forget(p.Start())
			if !read.yield(yield) {
				return
			}
			step = nextStep(high-read.low, read.bytes)
			high = read.low
			for _, l := range read.losses {
				high = min(high, l.from) // it may begin in front of this span
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
		}
	}
}

// backwardBytes is about how much Backward holds in memory, or one record.
const backwardBytes = 1 << 20

// nextStep is how many offsets to take at once, after step of them took bytes.
func nextStep(step Offset, bytes int) Offset {
	if bytes > backwardBytes/2 {
		return max(step/2, 1)
	}
	return min(step*2, 1<<20)
}

// span is a run of records that Backward takes at once.
type span struct {
	low    Offset
	recs   []Record
	losses []loss
	bytes  int // about what recs take in memory
}

// loss is an error behind which reading went on.
type loss struct {
	err      error
	from, to Offset
}

// yield hands out records and losses, the one that is nearer to the end first. It says
// whether to go on.
func (s *span) yield(yield func(Record, error) bool) bool {
	left := len(s.losses)
	tell := func(above Offset) bool {
		for ; left > 0 && s.losses[left-1].to > above; left-- {
			if !yield(Record{}, s.losses[left-1].err) {
				return false
			}
		}
		return true
	}
	for _, rec := range slices.Backward(s.recs) {
		if !tell(rec.Offset) || !yield(rec, nil) {
			return false
		}
	}
	return tell(-1)
}

// fill reads the records from low up to high, and what of them is lost. Where
// that is too much, the newest are kept and low rises to the first of them.
func (s *span) fill(ctx context.Context, p *Partition, high Offset) error {
	c := cursor{p: p, next: s.low, stop: high}
	for {
		if err := ctx.Err(); err != nil {
			s.recs, s.losses = nil, nil
			return err
		}
		var rec Record
		ok, err := c.record(&rec)
		switch {
		case err != nil && goesOn(err):
			l := loss{err, s.low, c.next}
			var damage *CorruptError
			if errors.As(err, &damage) {
				l.from = damage.From
			} else {
				l.from = c.next
			}
			s.losses = append(s.losses, l)
		case err != nil:
			return err
		case !ok:
			return nil
		default:
			s.add(rec)
		}
	}
}

// forget drops the records that were deleted while they were read.
func (s *span) forget(start Offset) {
	n := 0
	for n < len(s.recs) && s.recs[n].Offset < start {
		n++
	}
	s.recs, s.low = s.recs[n:], max(s.low, start)
}

func (s *span) add(rec Record) {
	s.recs = append(s.recs, rec)
	s.bytes += s.cost(&rec)
	for s.bytes > backwardBytes && len(s.recs) > 1 {
		s.bytes -= s.cost(&s.recs[0])
		s.recs[0] = Record{} // the rest of the slice keeps its array
		s.recs = s.recs[1:]
		s.low = s.recs[0].Offset
		s.losses = slices.DeleteFunc(s.losses, func(l loss) bool { return l.to <= s.low })
	}
}

func (s *span) cost(rec *Record) int { return weight(rec) + 64 }
