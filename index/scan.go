package index

import (
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Entries walks the offset index of a segment, also one that Kafka wrote, in a
// page of memory. name is the path without the suffix.
//
// Zeros behind the last entry are the preallocated rest of a file that was never
// cut to length, and no entries. An entry that is out of order comes with a
// *DamageError, and so do the bytes of half an entry at the end: the caller may
// stop there or go on. An error of the file system ends the walk.
func Entries(fs vfs.FS, name string, base record.Offset) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for s, err := range slots(fs, name, offsetLayout) {
			if !yield(Entry{base + record.Offset(s.key), record.Pos(s.value)}, err) {
				return
			}
		}
	}
}

// Times walks the time index of a segment, as Entries does the offset index. A
// single zero entry is one: timestamp 0 in the first batch of a segment.
func Times(fs vfs.FS, name string, base record.Offset) iter.Seq2[TimeEntry, error] {
	return func(yield func(TimeEntry, error) bool) {
		for s, err := range slots(fs, name, timeLayout) {
			if !yield(TimeEntry{s.key, base + record.Offset(s.value)}, err) {
				return
			}
		}
	}
}

// slots walks the entries of a file as it stores them.
func slots(fs vfs.FS, name string, l layout) iter.Seq2[slot, error] {
	return func(yield func(slot, error) bool) {
		w := walker{layout: l, fs: fs, name: name + l.suffix, prev: noSlot, yield: yield}
		if err := w.walk(); err != nil {
			yield(slot{}, err)
		}
	}
}

// walker is the state of one walk.
type walker struct {
	layout
	fs    vfs.FS
	name  string
	yield func(slot, error) bool

	index int  // of the next entry
	prev  slot // last entry given out
	zeros int  // zero entries held back: padding, unless an entry follows
}

// walk returns errors of the file system; nil when the consumer had enough.
func (w *walker) walk() error {
	f, err := w.fs.OpenFile(w.name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	page := make([]byte, w.pageBytes())
	for pos := int64(0); pos < size; pos += int64(len(page)) {
		page = page[:min(int64(len(page)), size-pos)]
		if n, err := f.ReadAt(page, pos); n < len(page) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read index %s: %w", w.fs.Path(w.name), err)
		}
		for i := range len(page) / w.width {
			if !w.entry(w.at(page, i)) {
				return nil
			}
		}
	}
	w.end(size)
	return nil
}

// entry gives out s, or holds it back when it may be padding; false when the
// consumer had enough.
func (w *walker) entry(s slot) bool {
	w.index++
	if s == (slot{}) {
		w.zeros++
		return true
	}
	if w.zeros > 0 && !w.giveZeros(w.index-1-w.zeros) {
		return false
	}
	return w.give(s, w.index-1)
}

// giveZeros gives out zero entries, the first of them being entry i, that turned
// out to be no padding. One at the start of a file is an entry.
func (w *walker) giveZeros(i int) bool {
	n := w.zeros
	w.zeros = 0
	if i == 0 && n == 1 {
		return w.give(slot{}, 0)
	}
	return w.yield(slot{}, damage(w.fs, w.name, int64(i)*int64(w.width), fmt.Sprintf("%d zero entries between entries", n), nil))
}

func (w *walker) give(s slot, i int) bool {
	if !s.above(w.prev) {
		w.prev = s
		return w.yield(s, damage(w.fs, w.name, int64(i)*int64(w.width), "entry out of order", nil))
	}
	w.prev = s
	return w.yield(s, nil)
}

// end gives out what the end of the file decides.
func (w *walker) end(size int64) {
	if w.index == 1 && w.zeros == 1 && !w.give(slot{}, 0) {
		return
	}
	if rest := size % int64(w.width); rest != 0 {
		w.yield(slot{}, damage(w.fs, w.name, size-rest, fmt.Sprintf("%d bytes are no entry", rest), nil))
	}
}
