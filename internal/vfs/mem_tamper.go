package vfs

import (
	"io/fs"
	"maps"
	"path"
	"slices"
)

// What follows is for tests: it changes the disk behind the engine's back.
// Whatever it touches is durable at once, and what was pending of that file too.

// Files lists the names of all files, sorted.
func (m *Mem) Files() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := m.disk.root.files(nil, "")
	slices.Sort(list) // "a.b" comes before "a/b"
	return list
}

func (ino *inode) files(list []string, name string) []string {
	if ino.dir == nil {
		return append(list, name)
	}
	for _, elem := range slices.Sorted(maps.Keys(ino.dir.live)) {
		list = ino.dir.live[elem].files(list, path.Join(name, elem))
	}
	return list
}

// ReadFile returns a copy of a file's content.
func (m *Mem) ReadFile(name string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	at, err := m.disk.findFile("read", name)
	if err != nil {
		return nil, err
	}
	return append([]byte{}, at.ino.file.live...), nil
}

// WriteFile sets the whole content of a file, which it creates when missing, as
// well as the directories above it. The limit of space does not apply.
func (m *Mem) WriteFile(name string, b []byte) error {
	if _, err := insideName("write", name); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.disk.makeDirs(path.Dir(name)); err != nil {
		return err
	}
	at, err := m.disk.find("write", name)
	if err != nil {
		return err
	}
	if at.ino == nil {
		at.ino = m.disk.newFile()
		m.disk.bind(at.slot, at.ino)
	}
	if at.ino.dir != nil {
		return at.fail(fs.ErrExist)
	}
	m.disk.change(at.ino, func(c *content) { c.replace(b) })
	m.disk.commitSlot(at.slot)
	return nil
}

// makeDirs makes what is missing of a directory and those above it, durable.
func (d *disk) makeDirs(name string) error {
	if name == "." {
		return nil
	}
	if err := d.makeDirs(path.Dir(name)); err != nil {
		return err
	}
	at, err := d.find("write", name)
	if err != nil {
		return err
	}
	if at.ino == nil {
		d.bind(at.slot, d.newDir())
	}
	d.commitSlot(at.slot)
	return nil
}

func (d *disk) commitSlot(at slot) {
	d.commit(func(e edit) bool { return e.slot == at })
}

// FlipBit flips one bit of a file: bit 0 is the lowest of the first byte.
func (m *Mem) FlipBit(name string, bit int64) error {
	return m.tamper("flip", name, func(c *content) bool {
		i := bit / 8
		if bit < 0 || i >= int64(len(c.live)) {
			return false
		}
		c.live[i] ^= 1 << (bit % 8)
		return true
	})
}

// Truncate cuts a file, or lengthens it with zeros.
func (m *Mem) Truncate(name string, size int64) error {
	return m.tamper("truncate", name, func(c *content) bool {
		if size < 0 || size > maxMemFile {
			return false
		}
		c.resize(int(size))
		return true
	})
}

func (m *Mem) tamper(op, name string, do func(c *content) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.disk.findFile(op, name)
	if err != nil {
		return err
	}
	ok := false
	m.disk.change(at.ino, func(c *content) {
		if ok = do(c); ok {
			c.replace(c.live)
		}
	})
	if !ok {
		return at.fail(fs.ErrInvalid)
	}
	return nil
}

// FailSync does to a file what a failed fsync does on Linux: its unsynced writes
// stay visible and never reach the disk, unless their page is written again,
// and every later Sync succeeds. See content.failSync.
func (m *Mem) FailSync(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, err := m.disk.findFile("sync", name)
	if err != nil {
		return err
	}
	at.ino.file.failSync()
	return nil
}
