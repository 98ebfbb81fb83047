//go:build unix

package vfs

import "golang.org/x/sys/unix"

// badMapping is memory without access: each touch is a real fault.
type badMapping struct{ bytes []byte }

func newBadMapping(size int) (Mapping, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	return &badMapping{b}, nil
}

func (m *badMapping) Bytes() []byte { return m.bytes }

func (m *badMapping) Close() error {
	b := m.bytes
	m.bytes = nil
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}
