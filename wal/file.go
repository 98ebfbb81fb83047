package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/varvelog/varve/internal/vfs"
)

// Suffix ends the names of journal files.
const Suffix = ".wal"

const tmpSuffix = ".tmp"

// file is one journal file.
type file struct {
	name string
	head fileHead
	f    vfs.File // nil: not opened yet
	pos  int64    // where the next round goes
	last uint64   // last round in it, 0: none
	old  bool     // as Read found it
	lost int64    // bytes that it was cut by; head.size is that of the pages that are left
}

// create makes a file of zeros that are on the disk, under a durable name.
func create(fsys vfs.FS, name string, head fileHead) (*file, error) {
	f, err := fsys.OpenFile(name+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, err
	}
	c := &file{name: name, f: f}
	if err = f.Allocate(head.size); err == nil || errors.Is(err, errors.ErrUnsupported) {
		err = zero(f, head.size)
	}
	if err == nil {
		err = c.begin(head)
	}
	if err == nil {
		err = fsys.Rename(name+tmpSuffix, name)
	}
	if err == nil {
		err = fsys.SyncDir(path.Dir(name))
	}
	f.Close() // of no consequence: the sync has said what there is to say
	if err == nil {
		c.f = nil
		err = c.open(fsys) // by its name, for messages
	}
	if err != nil {
		fsys.Remove(name + tmpSuffix)
		return nil, err
	}
	return c, nil
}

func zero(f vfs.File, size int64) error {
	chunk := make([]byte, min(size, 1<<20))
	for pos := int64(0); pos < size; pos += int64(len(chunk)) {
		if _, err := f.WriteAt(chunk[:min(int64(len(chunk)), size-pos)], pos); err != nil {
			return err
		}
	}
	return nil
}

// begin starts a life of the file: with a new id nothing it holds parses any more.
// That is durable when it returns.
func (c *file) begin(head fileHead) error {
	if _, err := c.f.WriteAt(head.encode(), 0); err != nil {
		return err
	}
	if err := c.f.Sync(); err != nil {
		return err
	}
	c.head, c.pos, c.last, c.old, c.lost = head, page, 0, false, 0
	return nil
}

// open opens a file that was only read so far.
func (c *file) open(fsys vfs.FS) (err error) {
	if c.f == nil {
		c.f, err = fsys.OpenFile(c.name, os.O_RDWR)
	}
	return err
}

// discard removes the file.
func (c *file) discard(fsys vfs.FS) error {
	c.close()
	return fsys.Remove(c.name)
}

// close closes the file. Its error is of no consequence: every write is followed by a sync,
// which says what there is to say.
func (c *file) close() {
	if c.f != nil {
		c.f.Close()
	}
}

func fileName(dir string, serial uint64) string {
	return fmt.Sprintf("%s/%010d%s", dir, serial, Suffix)
}

func newID() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}
