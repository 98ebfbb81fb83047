package vfs

import (
	"io/fs"
	"math"
	"syscall"
	"time"
)

// maxMemFile bounds one file, so that no offset makes this process run out of
// memory before the file system under test runs out of space.
const maxMemFile = 1 << 30

// Limit sets the space of all files together, in bytes; a negative one lifts it.
// What does not fit fails with ENOSPC, after the part that did. A byte of length
// or of reservation takes a byte of space, holes too; names and directories take
// none. Space is free again when a file has neither a name nor an open handle.
func (m *Mem) Limit(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes < 0 {
		bytes = math.MaxInt64
	}
	m.limit = bytes
}

// Used is the space taken, in bytes.
func (m *Mem) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.used
}

// change runs do, which may change the space ino takes.
func (m *Mem) change(ino *inode, do func(c *content)) {
	before := ino.file.space()
	do(&ino.file)
	m.used += ino.file.space() - before
	ino.changed = time.Now()
}

// release frees the space of an inode that nobody can reach any more.
func (m *Mem) release(ino *inode) {
	if ino.links == 0 && ino.handles == 0 {
		m.used -= ino.file.space()
	}
}

// lack is by how much ino cannot be extended to end.
func (m *Mem) lack(ino *inode, end int64) int64 {
	grow := end - ino.file.space()
	if grow <= 0 {
		return 0
	}
	return max(0, grow-max(0, m.limit-m.used))
}

// write writes what fits and says why the rest did not.
func (m *Mem) write(ino *inode, p []byte, off int64) (n int, err error) {
	if off > maxMemFile-int64(len(p)) {
		return 0, syscall.EFBIG
	}
	if lack := m.lack(ino, off+int64(len(p))); lack > 0 {
		p = p[:max(0, int64(len(p))-lack)]
		err = syscall.ENOSPC
	}
	if len(p) > 0 {
		m.change(ino, func(c *content) { c.write(p, int(off)) })
	}
	return len(p), err
}

func (m *Mem) resize(ino *inode, size int64) error {
	switch {
	case size < 0:
		return fs.ErrInvalid
	case size > maxMemFile:
		return syscall.EFBIG
	case m.lack(ino, size) > 0:
		return syscall.ENOSPC
	}
	m.change(ino, func(c *content) { c.resize(int(size)) })
	return nil
}

func (m *Mem) reserve(ino *inode, size int64) error {
	switch {
	case size < 0:
		return fs.ErrInvalid
	case m.lack(ino, size) > 0:
		return syscall.ENOSPC
	}
	m.change(ino, func(c *content) { c.reserved = max(c.reserved, size) })
	return nil
}
