package index

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Resume goes on with an index where a Flush left it. The entries that m counts
// are read and checked, what follows them in the files is cut, and the next
// Append is the batch behind those that were appended before the Flush.
//
// Any error means that this index is of no use, a *DamageError that the files
// are at fault: the caller rebuilds by Create and Append.
func Resume(fs vfs.FS, name string, base record.Offset, o Options, m Mark) (*Active, error) {
	a := Create(fs, name, base, o)
	err := m.check(base)
	if err == nil {
		err = a.offsets.load(m.Entries, m.Sum)
	}
	if err == nil {
		err = a.times.load(m.TimeEntries, m.TimeSum)
	}
	if err == nil {
		err = a.adopt(m.Tail)
	}
	if err != nil {
		return nil, fmt.Errorf("resume index %s: %w", fs.Path(name), err)
	}
	return a, nil
}

// adopt takes over a tail, which must agree with the entries.
func (a *Active) adopt(tail Tail) error {
	newest := slot{tail.MaxTimestamp, int64(tail.MaxOffset - a.base)}
	if tail.MaxTimestamp == record.NoTimestamp {
		newest = noSlot
	}
	if last := a.times.last; newest != last && !newest.above(last) {
		return damage(a.fs, a.times.name, int64(a.times.stored-1)*int64(timeLayout.width),
			"last entry is beyond the largest timestamp", nil)
	}
	a.tail = tail
	a.seen = max(a.offsets.last.key, newest.value)
	return nil
}

// load takes the first n entries of the file for the table's own.
func (t *table) load(n int, sum uint32) error {
	f, err := openExisting(t.fs, t.name, os.O_RDWR)
	if n == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = t.read(f, n)
	if err == nil && t.sum != sum {
		err = damage(t.fs, t.name, 0, "checksum mismatch", nil)
	}
	if err == nil {
		err = t.cut(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// read builds the fences and the last page of the first n entries of f. Nothing
// is allocated for entries that the file does not have.
func (t *table) read(f vfs.File, n int) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size/int64(t.width) < int64(n) {
		return damage(t.fs, t.name, size, fmt.Sprintf("file was cut short: %d bytes of %d entries", size, n), nil)
	}
	var v view
	buf := make([]byte, min(n, t.perPage())*t.width)
	for t.stored < n {
		page := buf[:min(n-t.stored, t.perPage())*t.width]
		if err := t.readEntries(f, page); err != nil {
			return err
		}
		if len(page) == t.pageBytes() {
			v.fences = append(v.fences, t.fence(page))
			continue
		}
		v.page = page
		v.count.Store(int32(len(page) / t.width))
	}
	t.view.Store(&v)
	t.owned = true
	return nil
}

// readEntries fills page with the entries behind those that are stored already.
func (t *table) readEntries(f vfs.File, page []byte) error {
	pos := int64(t.stored) * int64(t.width)
	if got, err := f.ReadAt(page, pos); got < len(page) {
		if err == io.EOF {
			return damage(t.fs, t.name, pos+int64(got), "file was cut short", nil)
		}
		return err
	}
	if i := t.disorder(page, t.last); i >= 0 {
		return damage(t.fs, t.name, pos+int64(i*t.width), "entry out of order", nil)
	}
	n := len(page) / t.width
	t.last = t.at(page, n-1)
	t.sum = crc32.Update(t.sum, castagnoli, page)
	t.stored += n
	return nil
}
