package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"syscall"
	"time"
)

// disk is the state of a Mem: plain data, without a lock.
type disk struct {
	root   *inode
	lastID int64    // of the newest inode
	names  []nameOp // not durable, oldest first
	limit  int64    // bytes of space
	used   int64    // bytes of space taken by inodes that have a name or a handle
}

func newDisk() *disk {
	d := &disk{limit: math.MaxInt64}
	d.root = d.newDir()
	d.root.links = 1
	return d
}

// inode is a file or a directory. Its id orders inodes by age.
type inode struct {
	id      int64
	dir     *directory // nil for a file
	file    content    // of a file
	links   int        // live names
	handles int        // open handles of a file
	locked  bool
	changed time.Time
}

// directory binds names to inodes: as callers see them, and as they would be
// found if every name operation still in disk.names were lost.
type directory struct{ live, durable map[string]*inode }

func (d *disk) newDir() *inode {
	ino := d.newFile()
	ino.dir = &directory{live: map[string]*inode{}, durable: map[string]*inode{}}
	return ino
}

func (d *disk) newFile() *inode {
	d.lastID++
	return &inode{id: d.lastID, changed: time.Now()}
}

// open counts one more handle of the inode, until close.
func (d *disk) open(name string, flag int) (*inode, error) {
	at, err := d.find("open", name)
	if err != nil {
		return nil, err
	}
	switch {
	case at.ino == nil && flag&os.O_CREATE == 0:
		return nil, at.fail(fs.ErrNotExist)
	case at.ino != nil && flag&os.O_EXCL != 0:
		return nil, at.fail(fs.ErrExist)
	case at.ino == nil:
		at.ino = d.newFile()
		d.bind(at.slot, at.ino)
	case at.ino.dir != nil:
		return nil, at.fail(syscall.EISDIR)
	case flag&os.O_TRUNC != 0:
		d.resize(at.ino, 0)
	}
	at.ino.handles++
	return at.ino, nil
}

func (d *disk) close(ino *inode) {
	ino.handles--
	d.release(ino)
}

func (d *disk) mkdir(name string) error {
	at, err := d.find("mkdir", name)
	if err != nil {
		return err
	}
	if at.ino != nil {
		return at.fail(fs.ErrExist)
	}
	d.bind(at.slot, d.newDir())
	return nil
}

func (d *disk) readDir(name string) ([]fs.DirEntry, error) {
	at, err := d.findDir("readdir", name)
	if err != nil {
		return nil, err
	}
	live := at.ino.dir.live
	entries := make([]fs.DirEntry, 0, len(live))
	for _, name := range slices.Sorted(maps.Keys(live)) {
		entries = append(entries, fs.FileInfoToDirEntry(live[name].info(name)))
	}
	return entries, nil
}

func (d *disk) stat(name string) (fs.FileInfo, error) {
	at, err := d.findExisting("stat", name)
	if err != nil {
		return nil, err
	}
	return at.ino.info(at.base()), nil
}

// rename follows os.Rename in what it refuses: a directory as the target.
func (d *disk) rename(from, to string) error {
	src, dst, err := d.findTwo("rename", from, to)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: memPath(from), New: memPath(to), Err: err}
	}
	switch {
	case dst.ino != nil && dst.ino.dir != nil:
		return fail(fs.ErrExist)
	case src.ino.dir != nil && src.ino.reaches(dst.in):
		return fail(syscall.EINVAL)
	case src.ino == dst.ino:
		return nil // two names of one file: POSIX keeps both
	case src.ino.dir != nil && dst.ino != nil:
		return fail(syscall.ENOTDIR)
	}
	d.move(src, dst)
	return nil
}

func (d *disk) link(from, to string) error {
	src, dst, err := d.findTwo("link", from, to)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return &os.LinkError{Op: "link", Old: memPath(from), New: memPath(to), Err: err}
	}
	switch {
	case dst.ino != nil:
		return fail(fs.ErrExist)
	case src.ino.dir != nil:
		return fail(syscall.EPERM)
	}
	d.bind(dst.slot, src.ino)
	return nil
}

func (d *disk) remove(name string) error {
	at, err := d.findInside("remove", name)
	switch {
	case err != nil:
		return err
	case at.ino == nil:
		return at.fail(fs.ErrNotExist)
	case at.ino.dir != nil && len(at.ino.dir.live) > 0:
		return at.fail(syscall.ENOTEMPTY)
	}
	d.unbind(at.slot, at.ino)
	return nil
}

func (d *disk) removeAll(name string) error {
	at, err := d.findInside("removeall", name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case at.ino != nil:
		d.removeTree(at.slot, at.ino)
	}
	return nil
}

func (d *disk) removeTree(at slot, ino *inode) {
	if ino.dir != nil {
		for _, name := range slices.Sorted(maps.Keys(ino.dir.live)) {
			d.removeTree(slot{ino, name}, ino.dir.live[name])
		}
	}
	d.unbind(at, ino)
}

func (d *disk) syncDir(name string) error {
	at, err := d.findDir("syncdir", name)
	if err != nil {
		return err
	}
	d.commit(func(e edit) bool { return e.in == at.ino })
	d.markJournaled()
	return nil
}
