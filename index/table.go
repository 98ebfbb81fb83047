package index

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/varvelog/varve/internal/vfs"
)

// table is one growing index file: full pages are in the file, the last page is
// in memory. It holds no descriptor between calls.
//
//	field                      guarded by       written by
//	layout, fs, name           (immutable)      init
//	view                       atomic           add, room, load
//	last, sum, stored, owned   the appender     add, flush, load
type table struct {
	layout
	fs   vfs.FS
	name string

	view atomic.Pointer[view]

	last   slot   // last entry, noSlot when there is none
	sum    uint32 // CRC-32C of all entries
	stored int    // entries that the file holds
	owned  bool   // the file is ours: it is neither created nor emptied again
}

// view is what readers see of a table. It grows in place: count is stored after
// the entry it counts. A view that cannot grow (its page is full, or is too small)
// is replaced, never reused.
type view struct {
	fences []fence // one for each full page
	page   []byte  // last page, as long as it may get
	count  atomic.Int32
}

// fence stands in memory for a page in the file: its first entry, and the
// checksum by which a page that was read is believed.
type fence struct {
	key   int64
	value int32
	sum   uint32
}

func (f fence) first() slot { return slot{f.key, int64(f.value)} }

func (t *table) init(fs vfs.FS, name string, l layout) {
	t.layout, t.fs, t.name, t.last = l, fs, name+l.suffix, noSlot
	t.view.Store(new(view))
}

// entries is how many there are.
func (t *table) entries() int {
	v := t.view.Load()
	return len(v.fences)*t.perPage() + int(v.count.Load())
}

// room makes sure that one more entry can be added. When the page is full it
// goes to the file and readers are sent there; an error leaves all as it was.
func (t *table) room() error {
	v := t.view.Load()
	if int(v.count.Load()) < t.perPage() {
		return nil
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.view.Store(&view{fences: append(v.fences, t.fence(v.page))})
	return nil
}

func (t *table) fence(page []byte) fence {
	first := t.at(page, 0)
	return fence{first.key, int32(first.value), crc32.Checksum(page, castagnoli)}
}

// add appends an entry, for which the caller has made room.
func (t *table) add(s slot) {
	v := t.view.Load()
	n := int(v.count.Load())
	if n*t.width == len(v.page) {
		v = t.grow(v, n+1)
		t.view.Store(v)
	}
	t.put(v.page, n, s)
	t.sum = crc32.Update(t.sum, castagnoli, v.page[n*t.width:(n+1)*t.width])
	t.last = s
	v.count.Store(int32(n + 1))
}

// grow copies v with room for at least want entries: an idle partition shall
// not pay for a whole page.
func (t *table) grow(v *view, want int) *view {
	size := 8
	for size < want {
		size *= 8
	}
	grown := &view{fences: v.fences, page: make([]byte, min(size, t.perPage())*t.width)}
	copy(grown.page, v.page)
	grown.count.Store(v.count.Load())
	return grown
}

// flush writes the entries that the file lacks. After an error they are written
// again by the next call, at the same place.
func (t *table) flush() error {
	n := t.entries()
	if t.stored == n {
		return nil
	}
	f, err := t.open()
	if err != nil {
		return err
	}
	v := t.view.Load()
	onFile := (t.stored - len(v.fences)*t.perPage()) * t.width
	page := v.page[onFile : int(v.count.Load())*t.width]
	_, err = f.WriteAt(page, int64(t.stored)*int64(t.width))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		t.stored = n
	}
	return err
}

// open opens the file for writing. The first time it makes a new one in place of
// whatever an earlier life of the segment left there, which is removed and not
// emptied: somebody may still have it mapped. Later a file that is gone is an
// error, because a new one would lack what the old one held.
func (t *table) open() (vfs.File, error) {
	if t.owned {
		return t.fs.OpenFile(t.name, os.O_RDWR)
	}
	if err := t.fs.Remove(t.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := t.fs.OpenFile(t.name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err == nil {
		t.owned = true
	}
	return f, err
}

// complete flushes and gives the file its exact length, creating it if it must.
func (t *table) complete() error {
	if err := t.flush(); err != nil {
		return err
	}
	f, err := t.open()
	if err != nil {
		return err
	}
	err = t.cut(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// cut removes what follows the stored entries.
func (t *table) cut(f vfs.File) error {
	want := int64(t.stored) * int64(t.width)
	size, err := f.Size()
	if err != nil || size == want {
		return err
	}
	if size < want {
		return damage(t.fs, t.name, size, "file was cut short", nil)
	}
	return f.Truncate(want)
}

// sync makes the file durable, where there is one.
func (t *table) sync() error {
	f, err := t.fs.OpenFile(t.name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
