package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// indexCheck holds the indexes of a segment against its batches while these go
// by. Of each file it tells the first fault only: an index that is wrong once is
// rebuilt as a whole, and the log does not need it.
type indexCheck struct {
	offsets cursor[index.Entry]
	times   cursor[index.TimeEntry]

	// largest timestamp so far; unknown once damage may have hidden a larger
	largest int64
	unsure  bool
}

// newIndexCheck begins with the first entries. kind is what a fault is: a warning where
// the indexes need not have reached the disk.
func newIndexCheck(s *segmentFiles, kind string) *indexCheck {
	dir, name := vfs.Dir(s.dir), segment.FileName(s.base)
	c := &indexCheck{largest: record.NoTimestamp}
	c.offsets = newCursor(index.Entries(dir, name, s.base), s.path(segment.IndexSuffix), s, kind)
	c.times = newCursor(index.Times(dir, name, s.base), s.path(segment.TimeIndexSuffix), s, kind)
	return c
}

// noIndexCheck is for a log file that lacks something: its indexes are as old, and
// the next start makes them anew.
func noIndexCheck() *indexCheck {
	none := func() {}
	c := &indexCheck{unsure: true}
	c.offsets.halt, c.times.halt = none, none
	return c
}

func (c *indexCheck) stop() {
	c.offsets.stop()
	c.times.stop()
}

// skip says that the log itself is damaged up to here.
func (c *indexCheck) skip() { c.unsure = true }

// batch checks what the indexes say about b. The entries it leaves are those
// behind b.
func (c *indexCheck) batch(b *record.Batch, at record.Pos) ([]fault, error) {
	c.largest = max(c.largest, b.MaxTimestamp)
	for c.offsets.more() && c.offsets.entry.Pos <= at {
		switch e := c.offsets.entry; {
		case e.Pos < at && !c.unsure:
			c.offsets.wrong(e.Offset, "entry points to position %d, where no batch begins", e.Pos)
		case e.Pos == at && e.Offset != b.LastOffset():
			c.offsets.wrong(e.Offset, "entry says offset %d for the batch at position %d, which ends with %d", e.Offset, at, b.LastOffset())
		default:
			c.offsets.advance()
		}
	}
	for c.times.more() && c.times.entry.Offset <= b.LastOffset() {
		switch e := c.times.entry; {
		case e.Offset < b.BaseOffset && !c.unsure:
			c.times.wrong(e.Offset, "entry names offset %d, which is in no batch", e.Offset)
		case e.Offset < b.BaseOffset:
			c.times.advance()
		case e.Timestamp != b.MaxTimestamp:
			c.times.wrong(e.Offset, "entry says %d for the batch with offset %d, whose largest timestamp is %d", e.Timestamp, e.Offset, b.MaxTimestamp)
		case e.Timestamp != c.largest && !c.unsure:
			c.times.wrong(e.Offset, "entry says %d at offset %d, where the largest timestamp so far is %d", e.Timestamp, e.Offset, c.largest)
		default:
			c.times.advance()
		}
	}
	return c.found()
}

// pass goes by a batch whose base offset is wrong: what the indexes say of it
// cannot be compared.
func (c *indexCheck) pass(b *record.Batch, at record.Pos) {
	c.unsure = true
	c.largest = max(c.largest, b.MaxTimestamp)
	for c.offsets.more() && c.offsets.entry.Pos <= at {
		c.offsets.advance()
	}
}

// end checks that nothing is left behind the last batch.
func (c *indexCheck) end(size record.Pos) ([]fault, error) {
	if c.offsets.more() && (!c.unsure || c.offsets.entry.Pos >= size) {
		e := c.offsets.entry
		c.offsets.wrong(e.Offset, "entry points to position %d, behind the last batch", e.Pos)
	}
	if c.times.more() && !c.unsure {
		e := c.times.entry
		c.times.wrong(e.Offset, "entry names offset %d, behind the last batch", e.Offset)
	}
	return c.found()
}

// found returns the faults met since it was last called.
func (c *indexCheck) found() ([]fault, error) {
	if c.offsets.quiet() && c.times.quiet() {
		return nil, nil
	}
	var faults []fault
	err := c.offsets.take(&faults)
	if terr := c.times.take(&faults); err == nil {
		err = terr
	}
	return faults, err
}

// cursor stands at one entry of an index file.
type cursor[E any] struct {
	path  string
	kind  string // of what is told: "fault" or "warning"
	next  func() (E, error, bool)
	halt  func()
	entry E
	ok    bool

	fault *fault
	err   error // of the file system
}

// newCursor starts at the first entry. That a file is missing is no fault when
// the segment is active: its index files come with their first full page.
func newCursor[E any](entries iter.Seq2[E, error], path string, s *segmentFiles, kind string) cursor[E] {
	c := cursor[E]{path: path, kind: kind}
	c.next, c.halt = iter.Pull2(entries)
	c.advance()
	if errors.Is(c.err, fs.ErrNotExist) {
		c.err = nil
		if !s.last {
			c.fault = &fault{Type: kind, Path: path, Offset: int64(s.base), Reason: indexMissing}
		}
	}
	return c
}

const indexMissing = "index is missing (opening the partition makes it anew)"

func (c *cursor[E]) stop()       { c.halt() }
func (c *cursor[E]) more() bool  { return c.ok }
func (c *cursor[E]) quiet() bool { return c.fault == nil && c.err == nil }

func (c *cursor[E]) advance() {
	e, err, ok := c.next()
	c.entry, c.ok = e, ok && err == nil
	if err == nil || !ok {
		return
	}
	f, damaged := indexFault(c.path, err)
	switch {
	case damaged:
		f.Type = c.kind
		c.fault = &f
	case errors.Is(err, fs.ErrNotExist):
		c.err = err
	default:
		f = unreadable(c.path, 0, -1, err)
		c.fault = &f
	}
}

// wrong ends the cursor with a fault.
func (c *cursor[E]) wrong(at record.Offset, format string, args ...any) {
	c.ok = false
	c.fault = &fault{Type: c.kind, Path: c.path, Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
}

func (c *cursor[E]) take(faults *[]fault) error {
	if c.fault != nil {
		*faults = append(*faults, *c.fault)
	}
	err := c.err
	c.fault, c.err = nil, nil
	return err
}

// indexFault turns damage to an index file into a fault; false for other errors.
func indexFault(path string, err error) (fault, bool) {
	var d *index.DamageError
	if !errors.As(err, &d) {
		return fault{}, false
	}
	return fault{Type: "fault", Path: path, Position: int64(d.At), Offset: -1, Reason: d.Reason}, true
}
