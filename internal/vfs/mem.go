package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that knows what a power cut may take: for each
// file what is durable and which writes are not, for each directory the same of
// its names. Crash makes what one such cut leaves; Clone what a killed process
// leaves, which is everything, still not synced.
//
// A file is an inode, as on a real disk: names are bindings to it, a removed
// file stays readable through its open handles, and syncing a file says nothing
// about its name.
//
// Locking. One mutex guards the whole tree, inodes and handles included;
// exported methods and those of memFile take it, everything else expects it.
type Mem struct {
	mu     sync.RWMutex
	root   *inode
	lastID int64    // of the newest inode
	names  []nameOp // not durable, oldest first
	limit  int64    // bytes of space
	used   int64    // bytes of space taken by inodes that have a name or a handle
}

// NewMem returns an empty file system without a limit of space.
func NewMem() *Mem {
	m := &Mem{limit: math.MaxInt64}
	m.root = m.newDir()
	m.root.links = 1
	return m
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
// found if every name operation still in Mem.names were lost.
type directory struct{ live, durable map[string]*inode }

func (m *Mem) newDir() *inode {
	ino := m.newFile()
	ino.dir = &directory{live: map[string]*inode{}, durable: map[string]*inode{}}
	return ino
}

func (m *Mem) newFile() *inode {
	m.lastID++
	return &inode{id: m.lastID, changed: time.Now()}
}

// Path marks the name as one of no real file.
func (m *Mem) Path(name string) string { return "mem:/" + strings.TrimPrefix(name, ".") }

func (m *Mem) OpenFile(name string, flag int) (File, error) {
	if err := checkFlag(m.Path(name), flag); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.open(name, flag)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mem) open(name string, flag int) (*memFile, error) {
	at, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	switch {
	case at.ino == nil && flag&os.O_CREATE == 0:
		return nil, at.fail(fs.ErrNotExist)
	case at.ino != nil && flag&os.O_EXCL != 0:
		return nil, at.fail(fs.ErrExist)
	case at.ino == nil:
		at.ino = m.newFile()
		m.bind(at.slot, at.ino)
	case at.ino.dir != nil:
		return nil, at.fail(syscall.EISDIR)
	case flag&os.O_TRUNC != 0:
		m.resize(at.ino, 0)
	}
	at.ino.handles++
	return &memFile{mem: m, ino: at.ino, name: name, flag: flag}, nil
}

func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.find("mkdir", name)
	if err != nil {
		return err
	}
	if at.ino != nil {
		return at.fail(fs.ErrExist)
	}
	m.bind(at.slot, m.newDir())
	return nil
}

func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, err := m.findDir("readdir", name)
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

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, err := m.findExisting("stat", name)
	if err != nil {
		return nil, err
	}
	return at.ino.info(at.base()), nil
}

// Rename follows os.Rename in what it refuses: a directory as the target.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, dst, err := m.findTwo("rename", from, to)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return &os.LinkError{Op: "rename", Old: m.Path(from), New: m.Path(to), Err: err}
	}
	switch {
	case dst.ino != nil && dst.ino.dir != nil:
		return fail(fs.ErrExist)
	case src.ino.dir != nil && src.ino.reaches(dst.dir):
		return fail(syscall.EINVAL)
	case src.ino == dst.ino:
		return nil // two names of one file: POSIX keeps both
	case src.ino.dir != nil && dst.ino != nil:
		return fail(syscall.ENOTDIR)
	}
	m.move(src, dst)
	return nil
}

func (m *Mem) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	src, dst, err := m.findTwo("link", from, to)
	if err != nil {
		return err
	}
	fail := func(err error) error { return &os.LinkError{Op: "link", Old: m.Path(from), New: m.Path(to), Err: err} }
	switch {
	case dst.ino != nil:
		return fail(fs.ErrExist)
	case src.ino.dir != nil:
		return fail(syscall.EPERM)
	}
	m.bind(dst.slot, src.ino)
	return nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.findInside("remove", name)
	switch {
	case err != nil:
		return err
	case at.ino == nil:
		return at.fail(fs.ErrNotExist)
	case at.ino.dir != nil && len(at.ino.dir.live) > 0:
		return at.fail(syscall.ENOTEMPTY)
	}
	m.unbind(at.slot, at.ino)
	return nil
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.findInside("removeall", name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case at.ino != nil:
		m.removeTree(at.slot, at.ino)
	}
	return nil
}

func (m *Mem) removeTree(at slot, ino *inode) {
	if ino.dir != nil {
		for _, name := range slices.Sorted(maps.Keys(ino.dir.live)) {
			m.removeTree(slot{ino, name}, ino.dir.live[name])
		}
	}
	m.unbind(at, ino)
}

func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.findDir("syncdir", name)
	if err != nil {
		return err
	}
	m.commit(func(e edit) bool { return e.dir == at.ino })
	m.markJournaled()
	return nil
}

// Lock is held by an inode, so it goes with the file through renames.
func (m *Mem) Lock(name, holder string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, err := m.open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if f.ino.locked {
		text := holderText(f.ino.file.live[:min(len(f.ino.file.live), holderMax)])
		f.close()
		return nil, &LockedError{Path: m.Path(name), Holder: text}
	}
	f.ino.locked, f.locks = true, true
	m.resize(f.ino, 0)
	m.write(f.ino, []byte(holder), 0)
	return f, nil
}
