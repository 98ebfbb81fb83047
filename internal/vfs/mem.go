package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"sync"
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
//	field  guarded by  written by
//	disk   mu          all methods that change something, and those of memFile
type Mem struct {
	mu   sync.RWMutex
	disk *disk
}

// NewMem returns an empty file system without a limit of space.
func NewMem() *Mem { return &Mem{disk: newDisk()} }

// Path marks the name as one of no real file.
func (m *Mem) Path(name string) string { return memPath(name) }

func (m *Mem) OpenFile(name string, flag int) (File, error) {
	if err := checkFlag(memPath(name), flag); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.disk.open(name, flag)
	if err != nil {
		return nil, err
	}
	return &memFile{mem: m, ino: ino, name: name, flag: flag}, nil
}

func (m *Mem) Mkdir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.mkdir(name)
}

func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.disk.readDir(name)
}

func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.disk.stat(name)
}

func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.rename(from, to)
}

func (m *Mem) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.link(from, to)
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.remove(name)
}

func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.removeAll(name)
}

func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.disk.syncDir(name)
}

// Lock is held by the inode, so it goes with the file through renames.
func (m *Mem) Lock(name, holder string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const flag = os.O_RDWR | os.O_CREATE
	ino, err := m.disk.open(name, flag)
	if err != nil {
		return nil, err
	}
	if ino.locked {
		text := holderText(ino.file.live[:min(len(ino.file.live), holderMax)])
		m.disk.close(ino)
		return nil, &LockedError{Path: memPath(name), Holder: text}
	}
	ino.locked = true
	// As in a real directory, a full disk may cost the text and not the lock.
	m.disk.resize(ino, 0)
	m.disk.write(ino, []byte(holder), 0)
	return &memFile{mem: m, ino: ino, name: name, flag: flag, locks: true}, nil
}

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
	m.disk.limit = bytes
}

// Space is what Limit leaves.
func (m *Mem) Space() (free, total int64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return max(0, m.disk.limit-m.disk.used), m.disk.limit, nil
}

// Used is the space taken, in bytes.
func (m *Mem) Used() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.disk.used
}
