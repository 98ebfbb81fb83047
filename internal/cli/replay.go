package cli

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/varvelog/varve"
)

// stream reads one partition from the place asked for, past whatever cannot be
// read.
type stream struct {
	part   *varve.Partition
	reader *varve.Reader
	end    varve.Offset // first offset not to print
}

// open places a stream. Where there is a --to, or the stream does not follow, it
// has an end, which stays where it is now.
func (c *consumer) open(ctx context.Context, p *varve.Partition) (*stream, error) {
	s := &stream{part: p, end: math.MaxInt64}
	if !c.follow {
		s.end = p.End()
	}
	if c.to != nil {
		to, err := c.to.offset(ctx, p)
		if err != nil {
			return nil, err
		}
		if c.follow && c.to.kind == placeTime && to == p.End() {
			to = math.MaxInt64 // the record to stop at is still to come
		}
		s.end = min(s.end, to)
	}
	var err error
	if s.reader, err = p.Reader(c.from.start()); err != nil {
		return nil, c.misplaced(p, err)
	}
	return s, nil
}

// next is the offset of the next record; everything below was printed, is lost,
// or was not asked for.
func (s *stream) next() varve.Offset { return s.reader.Offset(s.part.Index()) }

// lost says whether err tells of records that cannot be read, behind which the
// reader goes on, and which these are.
func lost(err error) (from, to varve.Offset, ok bool) {
	var damage *varve.CorruptError
	var gone *varve.OutOfRangeError
	switch {
	case errors.As(err, &damage):
		return damage.From, damage.To, true
	case errors.As(err, &gone) && gone.Asked < gone.Start: // retention was faster
		return gone.Asked, gone.Start, true
	}
	return 0, 0, false
}

// replay prints a stream up to its end.
func (c *consumer) replay(ctx context.Context, s *stream) error {
	for n := 0; s.next() < s.end; n++ {
		if n%1024 == 0 {
			if err := interrupted(ctx); err != nil {
				return err
			}
		}
		r, ok, err := s.reader.Poll()
		if err != nil {
			if err = c.gap(s.part, err); err != nil {
				return err
			}
			continue
		}
		if !ok || r.Offset >= s.end {
			break
		}
		if err := c.emit(&r); err != nil {
			return err
		}
	}
	return nil
}

// backward prints a partition from its newest record to its oldest.
func (c *consumer) backward(ctx context.Context, s *stream) error {
	for r, err := range s.part.Backward(ctx, c.from.start()) {
		if sig := interrupted(ctx); sig != nil {
			return sig
		}
		if err != nil {
			err = c.gap(s.part, err)
		} else {
			err = c.emit(&r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gap reports records that cannot be read; other errors it returns.
func (c *consumer) gap(p *varve.Partition, why error) error {
	from, to, ok := lost(why)
	if !ok {
		return c.misplaced(p, why)
	}
	g := gap{p.Index(), from, to}
	if g == c.last {
		return nil // reading backwards comes upon it in pieces
	}
	c.last = g
	c.gaps++
	c.printer.flush() // so that the two streams stay in order on a terminal
	fmt.Fprintf(c.app.err, "varve: partition %d: offsets %d to %d cannot be read: %s\n", p.Index(), from, to-1, oneLine(why.Error()))
	return nil
}

// gap is a range of offsets that was lost.
type gap struct {
	partition int32
	from, to  varve.Offset
}

// misplaced says which partition an offset is out of the range of.
func (c *consumer) misplaced(p *varve.Partition, err error) error {
	var out *varve.OutOfRangeError
	if !errors.As(err, &out) {
		return err
	}
	return hintf(outOfRange(p, out), "read what there is with --from earliest")
}

// outOfRange says what a partition has in place of an offset, in the words in which
// every range of offsets is given here: first and last.
func outOfRange(p *varve.Partition, out *varve.OutOfRangeError) error {
	there := fmt.Sprintf("it has offsets %d to %d", out.Start, out.End-1)
	if out.Start == out.End {
		there = fmt.Sprintf("it is empty, and its next offset is %d", out.End)
	}
	return fmt.Errorf("partition %d of topic %q has no offset %d: %s", p.Index(), p.Topic().Name(), out.Asked, there)
}
