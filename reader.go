package varve

import (
	"context"
	"fmt"

	"github.com/varvelog/varve/partition"
)

// Reader reads records on from a place, of one partition or of all partitions of
// a topic. It belongs to one goroutine at a time. It holds no file and no
// goroutine between calls, so that any number may be parked.
//
// What it cannot give is told once, and reading then goes on: behind a gap that
// damage left (*CorruptError), or at the log start when retention or a trim went
// past (*OutOfRangeError). Every other error ends it.
type Reader struct {
	cursors []*cursor
	turn    int               // whose records are handed out
	waiter  *partition.Waiter // nil until it waits
	closed  bool
}

// Lend has the reader lend from now on what it hands out: the bytes of a record or a
// batch, keys of headers among them, are the caller's to use until its next call of the
// reader, and who wants to keep them copies them. The reader then reads into the same
// memory again and again. That costs half as much: fresh memory for all that is read, and
// the work of the garbage collector, cost more than to read, check and decode it.
func (r *Reader) Lend() {
	for _, c := range r.cursors {
		c.keep = true
	}
}

// Reader starts reading one partition.
func (p *Partition) Reader(s Start) (*Reader, error) {
	return newReader(context.Background(), []*Partition{p}, s)
}

// Reader starts reading all partitions that the topic has now. Records of one
// partition come in order, those of different ones in any.
func (t *Topic) Reader(s Start) (*Reader, error) {
	return newReader(context.Background(), t.parts(), s)
}

func newReader(ctx context.Context, parts []*Partition, s Start) (*Reader, error) {
	r := &Reader{cursors: make([]*cursor, len(parts))}
	for i, p := range parts {
		c := &cursor{p: p}
		if err := c.begin(ctx, s); err != nil {
			return nil, err
		}
		r.cursors[i] = c
	}
	return r, nil
}

// Next returns the next record; at the end it waits until there is one, or the
// context ends. The record is the caller's to keep; its bytes must not be changed.
func (r *Reader) Next(ctx context.Context) (rec Record, err error) {
	for {
		ok, err := r.record(&rec)
		switch {
		case ok:
			return rec, nil
		case err != nil:
			return Record{}, err
		}
		if err := r.wait(ctx); err != nil {
			return Record{}, err
		}
	}
}

// Poll is Next without waiting: ok is false when there is nothing more now.
func (r *Reader) Poll() (rec Record, ok bool, err error) {
	if ok, err = r.record(&rec); !ok {
		rec = Record{}
	}
	return rec, ok, err
}

// record is Poll. Without a record, what rec holds is of no use.
func (r *Reader) record(rec *Record) (ok bool, err error) {
	if r.closed {
		return false, ErrClosed
	}
	for range r.cursors {
		c := r.cursors[r.turn]
		ok, err = c.record(rec)
		r.pass(c, ok)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// NextBatch returns the next whole batch as it is stored; it waits as Next does.
// The first one may begin with records in front of where reading started. Control
// batches, which hold no data, are among them.
func (r *Reader) NextBatch(ctx context.Context) (Batch, error) {
	for {
		b, ok, err := r.PollBatch()
		if ok || err != nil {
			return b, err
		}
		if err := r.wait(ctx); err != nil {
			return Batch{}, err
		}
	}
}

// PollBatch is NextBatch without waiting.
func (r *Reader) PollBatch() (b Batch, ok bool, err error) {
	if r.closed {
		return Batch{}, false, ErrClosed
	}
	for range r.cursors {
		c := r.cursors[r.turn]
		ok, err = c.wholeBatch(&b)
		r.pass(c, ok)
		if ok || err != nil {
			return b, ok, err
		}
	}
	return Batch{}, false, nil
}

// pass gives the next partition its turn once this one has nothing or what was
// read of it is used up, so that one which grows faster than it is read does not
// hold up the others.
func (r *Reader) pass(c *cursor, ok bool) {
	if !ok || c.dry() {
		r.turn = (r.turn + 1) % len(r.cursors)
	}
}

// Offset is the next offset that the reader will hand out of a partition; -1 for
// one that it does not read.
func (r *Reader) Offset(part int32) Offset {
	for _, c := range r.cursors {
		if c.p.index == part {
			return c.next
		}
	}
	return -1
}

// Close ends the reader: its calls return ErrClosed. It need not be called.
func (r *Reader) Close() { r.closed = true }

// wait parks until there may be something new in one of the partitions.
func (r *Reader) wait(ctx context.Context) error {
	if r.waiter == nil {
		r.waiter = partition.NewWaiter()
	}
	parked := 0
	ready := false
	for _, c := range r.cursors {
		if !c.p.log.Park(r.waiter, c.next) {
			ready = true
			break
		}
		parked++
	}
	defer func() {
		for _, c := range r.cursors[:parked] {
			c.p.log.Unpark(r.waiter)
		}
	}()
	if ready {
		return ctx.Err()
	}
	defer lend(ctx).back()
	select {
	case <-r.waiter.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for records: %w", ctx.Err())
	}
}
