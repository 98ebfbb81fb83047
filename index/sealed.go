package index

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Sealed is the index pair of a sealed segment, mapped for reading. Any number
// of goroutines may look up at the same time; Close waits for nobody, so the
// caller keeps it until the last lookup is over.
type Sealed struct {
	base           record.Offset
	offsets, times mapped // immutable, and so are the files
}

// mapped is one mapped file. Touch it inside vfs.Guard only.
type mapped struct {
	layout
	data    []byte
	mapping vfs.Mapping // nil when the file is empty
}

// OpenSealed maps the index of the segment that starts at base. Both files must
// be exactly what m says, every byte of them is checked; they are closed again
// at once, the two mappings stay.
//
// A *DamageError says that a file is missing or wrong: the caller rebuilds it
// from the log. Other errors are the file system's.
func OpenSealed(fs vfs.FS, name string, base record.Offset, m Mark) (*Sealed, error) {
	s := &Sealed{base: base}
	err := s.offsets.open(fs, name, offsetLayout, m.Entries, m.Sum)
	if err == nil {
		err = s.times.open(fs, name, timeLayout, m.TimeEntries, m.TimeSum)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Lookup gives the last entry whose offset is not above off. An error means that
// the mapping could not be read: do without the index, or rebuild it.
func (s *Sealed) Lookup(off record.Offset) (Entry, error) {
	st, err := s.Around(off)
	return st.Entry, err
}

// LookupTime gives the place to start scanning for the first batch whose largest
// timestamp is ts or later, as Active.LookupTime. Errors are as of Lookup.
func (s *Sealed) LookupTime(ts int64) (Entry, error) {
	st, err := s.AroundTime(ts)
	return st.Entry, err
}

// Around is Lookup with what follows.
func (s *Sealed) Around(off record.Offset) (Stretch, error) {
	var st Stretch
	err := vfs.Guard(func() { st, _ = lookup(&s.offsets, s.base, off) })
	return st, err
}

// AroundTime is LookupTime with what follows.
func (s *Sealed) AroundTime(ts int64) (Stretch, error) {
	var st Stretch
	err := vfs.Guard(func() { st, _ = lookupTime(&s.offsets, &s.times, s.base, ts) })
	return st, err
}

// Close gives the mappings back. No lookup may be running or follow.
func (s *Sealed) Close() error {
	return errors.Join(s.offsets.close(), s.times.close())
}

func (x *mapped) open(fsys vfs.FS, name string, l layout, n int, sum uint32) error {
	x.layout = l
	name += l.suffix
	f, err := openExisting(fsys, name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if width := int64(l.width); size%width != 0 || size/width != int64(n) {
		return damage(fsys, name, 0, fmt.Sprintf("file has %d bytes and should have %d entries", size, n), nil)
	}
	if n == 0 {
		return nil
	}
	if x.mapping, err = f.Map(size); err != nil {
		return err
	}
	x.data = x.mapping.Bytes()
	return x.verify(fsys, name, sum)
}

func (x *mapped) verify(fsys vfs.FS, name string, sum uint32) error {
	var got uint32
	bad := -1
	fault := vfs.Guard(func() {
		got = crc32.Checksum(x.data, castagnoli)
		bad = x.disorder(x.data, noSlot)
	})
	switch {
	case fault != nil:
		return damage(fsys, name, 0, "file cannot be read", fault)
	case got != sum:
		return damage(fsys, name, 0, "checksum mismatch", nil)
	case bad >= 0:
		return damage(fsys, name, int64(bad)*int64(x.width), "entry out of order", nil)
	}
	return nil
}

// snapshot implements source: a file that never changes is its own snapshot.
func (x *mapped) snapshot() *mapped { return x }

// around implements finder.
func (x *mapped) around(key int64) (near, error) {
	i := x.floor(x.data, key)
	n := near{noSlot, x.next(i + 1), x.next(i + 2)}
	if i >= 0 {
		n.below = x.at(x.data, i)
	}
	return n, nil
}

// next is entry i, if there is one.
func (x *mapped) next(i int) slot {
	if i*x.width >= len(x.data) {
		return endSlot
	}
	return x.at(x.data, i)
}

func (x *mapped) close() error {
	if x.mapping == nil {
		return nil
	}
	m := x.mapping
	x.mapping, x.data = nil, nil
	return m.Close()
}
