package varve

import (
	"context"
	"errors"
	"fmt"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Batch is a record batch as it is stored.
type Batch struct {
	Partition int32
	record.Batch
}

// Sizes of reads: a reader that has just come to a place asks for little, for it
// may want one record; one that reads on asks for more.
const (
	firstRead = 8 << 10
	mostRead  = 256 << 10
)

// cursor is a reader's place in one partition.
type cursor struct {
	p    *Partition
	next Offset // of the next record to hand out
	stop Offset // nothing at or above it is handed out; 0: no such bound

	at   partition.Cursor
	most int        // bytes to read next time
	keep bool       // what is read is the reader's, who reads into buf again and again
	buf  []byte     // nil unless keep
	data []byte     // batches that were read and not opened yet
	pos  record.Pos // behind data, in the file it is of

	open  bool // records of batch are being handed out
	batch record.Batch
	it    record.Iterator
}

// begin goes to where reading starts.
func (c *cursor) begin(ctx context.Context, s Start) (err error) {
	if s.kind == fromTime && c.p.broken == nil && !c.p.log.Closed() {
		c.next, err = c.p.lookUp(ctx, s.time, c.seek)
		return err
	}
	c.next, err = s.resolve(ctx, c.p)
	return err
}

// seek finds a time, and keeps the batch that was read for it.
func (c *cursor) seek(ms int64) (Offset, bool, error) {
	f, err := c.p.log.SeekTime(ms, maxBatchLimit, &c.at)
	c.took(f.Chunk)
	return f.Offset, len(f.Data) > 0, err
}

// record hands out the next record; false at the published end.
func (c *cursor) record(rec *Record) (bool, error) {
	for {
		if c.bounded() {
			return false, nil
		}
		if !c.open {
			if ok, err := c.openBatch(); !ok || err != nil {
				return false, err
			}
		}
		for c.it.Next(rec) {
			if rec.Offset < c.next {
				continue // reading began inside this batch
			}
			if c.stop > 0 && rec.Offset >= c.stop {
				c.next = rec.Offset
				return false, nil
			}
			c.next = rec.Offset + 1
			rec.Partition = c.p.index
			return true, nil
		}
		c.open = false
		c.next = max(c.next, c.batch.NextOffset())
		if err := c.it.Err(); err != nil {
			return false, c.undecodable(c.it.NextOffset(), err)
		}
	}
}

func (c *cursor) bounded() bool { return c.stop > 0 && c.next >= c.stop }

// openBatch gets at the records of the next batch that holds any.
func (c *cursor) openBatch() (bool, error) {
	for {
		if ok, err := c.take(); !ok || err != nil {
			return false, err
		}
		if c.batch.Attributes.Control() {
			c.next = max(c.next, c.batch.NextOffset())
			continue
		}
		payload, err := c.p.topic.engine.cache.payload(c.p.log, &c.batch)
		if err != nil {
			c.next = max(c.next, c.batch.NextOffset())
			return false, c.undecodable(c.batch.BaseOffset, err)
		}
		c.it = c.batch.Records(payload)
		c.open = true
		return true, nil
	}
}

// wholeBatch hands out the next batch.
func (c *cursor) wholeBatch(b *Batch) (bool, error) {
	left := c.inBatch()
	if c.open = false; left { // whole, though some of it was handed out
		*b = Batch{c.p.index, c.batch}
		c.next = c.batch.NextOffset()
		return true, nil
	}
	if c.bounded() {
		return false, nil
	}
	ok, err := c.take()
	if !ok || err != nil {
		return false, err
	}
	*b = Batch{c.p.index, c.batch}
	c.next = max(c.next, c.batch.NextOffset())
	return true, nil
}

// inBatch says that records of the current batch are still to be handed out.
func (c *cursor) inBatch() bool { return c.open && c.next <= c.batch.LastOffset() }

// dry says that nothing is left of what was read: more asks the disk.
func (c *cursor) dry() bool { return len(c.data) == 0 && !c.inBatch() }

// take moves on to the next stored batch, reading more when it must.
func (c *cursor) take() (bool, error) {
	if len(c.data) == 0 {
		if ok, err := c.read(); !ok || err != nil {
			return false, err
		}
	}
	b, err := record.Parse(c.data)
	if err != nil {
		return false, fmt.Errorf("read %s at offset %d: %w", c.p.log.Name(), c.next, err)
	}
	c.batch = b
	c.data = c.data[b.Size():]
	return true, nil
}

// read gets the next batches from the log. What is lost is told once: the cursor
// is behind it when the error is returned.
func (c *cursor) read() (bool, error) {
	if c.p.broken != nil {
		return false, c.p.broken
	}
	c.most = max(c.most, firstRead)
	chunk, err := c.p.log.Read(c.room(), c.most, c.next, &c.at)
	if err == nil {
		c.took(chunk)
		return len(chunk.Data) > 0, nil
	}
	var damage *CorruptError
	var lost *OutOfRangeError
	switch {
	case errors.As(err, &damage):
		c.next = max(c.next, damage.To)
	case errors.As(err, &lost):
		c.next = max(c.next, lost.Start)
	}
	return false, fmt.Errorf("read %s: %w", c.p.log.Name(), err)
}

// room is where to read to: nil has the log make room of its own.
func (c *cursor) room() []byte {
	if c.keep && len(c.buf) < c.most {
		c.buf = make([]byte, c.most)
	}
	return c.buf
}

// took takes over what was read. Who has found as much as he asked for asks for more
// next time; at the end nothing is held that was read before.
func (c *cursor) took(chunk segment.Chunk) {
	c.data, c.pos = chunk.Data, chunk.Pos
	switch n := len(chunk.Data); {
	case n == 0:
		c.next = max(c.next, chunk.Next)
		c.batch, c.it = record.Batch{}, record.Iterator{}
		c.most, c.buf = 0, nil
	case n > c.most/2:
		c.most = min(2*c.most, mostRead)
	}
}

// undecodable is the error of the current batch, whose bytes are as they were
// stored and still make no sense; from is the first offset of it that is lost.
func (c *cursor) undecodable(from Offset, cause error) error {
	return fmt.Errorf("read %s: %w", c.p.log.Name(), &segment.CorruptError{
		Path: c.at.Path(), At: c.pos - record.Pos(len(c.data)+c.batch.Size()), Offset: c.batch.BaseOffset - 1,
		From: from, To: c.batch.NextOffset(), Reason: cause.Error(),
	})
}
