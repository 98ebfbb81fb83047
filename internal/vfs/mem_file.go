package vfs

import (
	"bytes"
	"io"
	"io/fs"
	"syscall"
)

// memFile is an open handle.
//
//	field            guarded by     written by
//	mem, ino         (immutable)    OpenFile, Lock
//	name, flag       (immutable)    OpenFile, Lock
//	closed, locks    mem.mu         Close, Lock
type memFile struct {
	mem    *Mem
	ino    *inode
	name   string
	flag   int
	closed bool
	locks  bool // holds the lock of ino
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: memPath(f.name), Err: err}
}

// usableLocked refuses a closed handle, and one that was opened for the other access.
func (f *memFile) usableLocked(can func(flag int) bool) error {
	switch {
	case f.closed:
		return fs.ErrClosed
	case can != nil && !can(f.flag):
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if off < 0 {
		return 0, f.fail("read", fs.ErrInvalid)
	}
	if err := f.usableLocked(canRead); err != nil {
		return 0, f.fail("read", err)
	}
	live := f.ino.file.live
	n := copy(p, live[min(off, int64(len(live))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	return f.writeLocked(p, off)
}

func (f *memFile) writeLocked(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.fail("write", fs.ErrInvalid)
	}
	if err := f.usableLocked(canWrite); err != nil {
		return 0, f.fail("write", err)
	}
	n, err := f.mem.disk.write(f.ino, p, off)
	return n, f.fail("write", err)
}

// WriteVecAt is one operation a buffer: a crash may fall between them, as it may
// inside a pwritev.
func (f *memFile) WriteVecAt(bufs [][]byte, off int64) (n int, err error) {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	for _, b := range bufs {
		m, err := f.writeLocked(b, off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (f *memFile) Size() (int64, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if err := f.usableLocked(nil); err != nil {
		return 0, f.fail("stat", err)
	}
	return int64(len(f.ino.file.live)), nil
}

func (f *memFile) Truncate(size int64) error {
	return f.change("truncate", func() error { return f.mem.disk.resize(f.ino, size) })
}

func (f *memFile) Allocate(size int64) error {
	return f.change("allocate", func() error { return f.mem.disk.reserve(f.ino, size) })
}

func (f *memFile) change(op string, do func() error) error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.usableLocked(canWrite); err != nil {
		return f.fail(op, err)
	}
	return f.fail(op, do())
}

func (f *memFile) Sync() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.usableLocked(nil); err != nil {
		return f.fail("sync", err)
	}
	f.ino.file.sync()
	f.mem.disk.markJournaled()
	return nil
}

// failSync is what Faulty calls for a sync that loses its pages.
func (f *memFile) failSync() {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	f.ino.file.failSync()
}

// Map copies: a file that is mapped never changes again, by contract.
func (f *memFile) Map(size int64) (Mapping, error) {
	f.mem.mu.RLock()
	defer f.mem.mu.RUnlock()
	if err := f.usableLocked(nil); err != nil {
		return nil, f.fail("map", err)
	}
	live := f.ino.file.live
	if err := checkMap(size, int64(len(live))); err != nil {
		return nil, f.fail("map", err)
	}
	if err := f.usableLocked(canRead); err != nil && size > 0 {
		return nil, f.fail("map", err)
	}
	return &memMapping{bytes.Clone(live[:size])}, nil
}

func (f *memFile) Close() error {
	f.mem.mu.Lock()
	defer f.mem.mu.Unlock()
	if err := f.usableLocked(nil); err != nil {
		return f.fail("close", err)
	}
	f.closeLocked()
	return nil
}

func (f *memFile) closeLocked() {
	f.closed = true
	if f.locks {
		f.ino.locked = false
	}
	f.mem.disk.close(f.ino)
}

type memMapping struct{ bytes []byte }

func (m *memMapping) Bytes() []byte { return m.bytes }

func (m *memMapping) Close() error {
	m.bytes = nil
	return nil
}
