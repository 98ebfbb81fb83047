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
		for {
			if err := ctx.Err(); err != nil {
				yield(Record{}, err)
				return
			}
			rec, ok, err := r.Poll()
			if !ok && err == nil {
				return
			}
			if !yield(rec, err) || (err != nil && !goesOn(err)) {
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
			low := max(start, high-step)
			recs, losses, bytes, err := p.span(ctx, low, high)
			for _, rec := range slices.Backward(recs) {
				if !yield(rec, nil) {
					return
				}
			}
			for _, loss := range losses {
				if !yield(Record{}, loss) {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			high = low
			for _, loss := range losses { // told of: it may begin in front of this span
				var damage *CorruptError
				if errors.As(loss, &damage) {
					high = min(high, damage.From)
				}
			}
			step = nextStep(step, bytes)
		}
	}
}

// backwardBytes is about how much Backward holds in memory.
const backwardBytes = 1 << 20

// nextStep is how many offsets to take at once, after step of them took bytes.
func nextStep(step Offset, bytes int) Offset {
	if bytes > backwardBytes {
		return max(step/2, 1)
	}
	return min(step*2, 1<<20)
}

// span reads the records in [low, high), and what of them is lost.
func (p *Partition) span(ctx context.Context, low, high Offset) (recs []Record, losses []error, bytes int, err error) {
	c := cursor{p: p, next: low, stop: high}
	for {
		if err := ctx.Err(); err != nil {
			return nil, nil, 0, err
		}
		var rec Record
		ok, err := c.record(&rec)
		switch {
		case err != nil && goesOn(err):
			losses = append(losses, err)
		case err != nil:
			return recs, losses, bytes, err
		case !ok:
			return recs, losses, bytes, nil
		default:
			recs = append(recs, rec)
			bytes += weight(&rec) + 64
		}
	}
}
