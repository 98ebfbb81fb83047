package vfs

import (
	"io/fs"
	"syscall"
	"time"
)

// maxMemFile bounds one file, so that no offset makes this process run out of
// memory before the file system under test runs out of space.
const maxMemFile = 1 << 30

// change runs do, which may change the space ino takes.
func (d *disk) change(ino *inode, do func(c *content)) {
	before := ino.file.space()
	do(&ino.file)
	d.used += ino.file.space() - before
	ino.changed = time.Now()
}

// release frees the space of an inode that nobody can reach any more.
func (d *disk) release(ino *inode) {
	if ino.links == 0 && ino.handles == 0 {
		d.used -= ino.file.space()
	}
}

// lack is by how much ino cannot be extended to end.
func (d *disk) lack(ino *inode, end int64) int64 {
	grow := end - ino.file.space()
	if grow <= 0 {
		return 0
	}
	return max(0, grow-max(0, d.limit-d.used))
}

// write writes what fits and says why the rest did not.
func (d *disk) write(ino *inode, p []byte, off int64) (n int, err error) {
	if off > maxMemFile-int64(len(p)) {
		return 0, syscall.EFBIG
	}
	if lack := d.lack(ino, off+int64(len(p))); lack > 0 {
		p = p[:max(0, int64(len(p))-lack)]
		err = syscall.ENOSPC
	}
	if len(p) > 0 {
		d.change(ino, func(c *content) { c.write(p, int(off)) })
	}
	return len(p), err
}

func (d *disk) resize(ino *inode, size int64) error {
	switch {
	case size < 0:
		return fs.ErrInvalid
	case size > maxMemFile:
		return syscall.EFBIG
	case d.lack(ino, size) > 0:
		return syscall.ENOSPC
	}
	d.change(ino, func(c *content) { c.resize(int(size)) })
	return nil
}

func (d *disk) reserve(ino *inode, size int64) error {
	switch {
	case size < 0:
		return fs.ErrInvalid
	case d.lack(ino, size) > 0:
		return syscall.ENOSPC
	}
	d.change(ino, func(c *content) { c.reserved = max(c.reserved, size) })
	return nil
}
