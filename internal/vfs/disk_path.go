package vfs

import (
	"io/fs"
	"strings"
	"syscall"
	"time"
)

// slot is a place for a name, bound or not. The root has no directory above it
// and is the slot of the zero value.
type slot struct {
	in   *inode // a directory
	name string
}

// place is a slot as a call named it, and what is bound there, if anything.
type place struct {
	slot
	ino  *inode
	op   string
	full string // the whole name
}

func (p place) fail(err error) error {
	return &fs.PathError{Op: p.op, Path: memPath(p.full), Err: err}
}

func (p place) base() string {
	if p.in == nil {
		return "." // as os.Stat calls it
	}
	return p.name
}

// nameMax is what Linux and darwin file systems take for one element.
const nameMax = 255

// find resolves name. That nothing is bound there is no error, that the
// directory it would be in is missing is one.
func (d *disk) find(op, name string) (place, error) {
	if _, err := localName(op, name); err != nil {
		return place{}, err
	}
	at := place{ino: d.root, op: op, full: name}
	if name == "." {
		return at, nil
	}
	for elem := range strings.SplitSeq(name, "/") {
		switch {
		case at.ino == nil:
			return place{}, at.fail(fs.ErrNotExist)
		case at.ino.dir == nil:
			return place{}, at.fail(syscall.ENOTDIR)
		case len(elem) > nameMax:
			return place{}, at.fail(syscall.ENAMETOOLONG)
		}
		at.slot = slot{at.ino, elem}
		at.ino = at.ino.dir.live[elem]
	}
	return at, nil
}

// findInside is find for what cannot be done to the root.
func (d *disk) findInside(op, name string) (place, error) {
	if _, err := insideName(op, name); err != nil {
		return place{}, err
	}
	return d.find(op, name)
}

func (d *disk) findExisting(op, name string) (place, error) {
	at, err := d.find(op, name)
	if err == nil && at.ino == nil {
		err = at.fail(fs.ErrNotExist)
	}
	return at, err
}

func (d *disk) findDir(op, name string) (place, error) {
	at, err := d.findExisting(op, name)
	if err == nil && at.ino.dir == nil {
		err = at.fail(syscall.ENOTDIR)
	}
	return at, err
}

func (d *disk) findFile(op, name string) (place, error) {
	at, err := d.findExisting(op, name)
	if err == nil && at.ino.dir != nil {
		err = at.fail(syscall.EISDIR)
	}
	return at, err
}

// findTwo is for operations with a source, which must exist, and a target.
func (d *disk) findTwo(op, from, to string) (src, dst place, err error) {
	if src, err = d.findInside(op, from); err != nil {
		return src, dst, err
	}
	if dst, err = d.findInside(op, to); err != nil {
		return src, dst, err
	}
	if src.ino == nil {
		err = src.fail(fs.ErrNotExist)
	}
	return src, dst, err
}

// memPath marks a name as one of no real file.
func memPath(name string) string { return "mem:/" + strings.TrimPrefix(name, ".") }

// slotsAbove are those that lead to the directory of name, outermost first.
func (d *disk) slotsAbove(name string) (above []slot) {
	dir := d.root
	for {
		elem, rest, more := strings.Cut(name, "/")
		if !more {
			return above
		}
		above = append(above, slot{dir, elem})
		dir, name = dir.dir.live[elem], rest
	}
}

// reaches says whether to is the directory ino or somewhere below it.
func (ino *inode) reaches(to *inode) bool {
	if ino == to {
		return true
	}
	for _, below := range ino.dir.live {
		if below.dir != nil && below.reaches(to) {
			return true
		}
	}
	return false
}

// memInfo is what Stat says.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	changed time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.changed }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }

func (ino *inode) info(name string) fs.FileInfo {
	if ino.dir != nil {
		return memInfo{name: name, mode: fs.ModeDir | 0o700, changed: ino.changed}
	}
	return memInfo{name: name, size: int64(len(ino.file.live)), mode: 0o600, changed: ino.changed}
}
