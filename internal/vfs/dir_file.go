package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/edsrzf/mmap-go"
)

// dirFile is a file of the real file system. System calls that package os lacks
// run inside conn.Control, which keeps the descriptor from being closed, and its
// number from being given to another file, while they are under way.
type dirFile struct {
	f    *os.File
	conn syscall.RawConn
	name string
}

func (f *dirFile) Name() string                             { return f.name }
func (f *dirFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *dirFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *dirFile) Truncate(size int64) error                { return f.f.Truncate(size) }
func (f *dirFile) Close() error                             { return f.f.Close() }

func (f *dirFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *dirFile) WriteVecAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.wrap("write", fs.ErrInvalid)
	}
	return writeVecAt(f, bufs, off)
}

func (f *dirFile) Allocate(size int64) error {
	if size < 0 {
		return f.wrap("allocate", fs.ErrInvalid)
	}
	if size == 0 {
		return nil
	}
	return f.wrap("allocate", f.allocate(size))
}

func (f *dirFile) Sync() error { return f.wrap("sync", f.syncData()) }

// control runs do on the descriptor. That it does not run do can only mean that
// the file is closed.
func (f *dirFile) control(do func(fd int) error) error {
	var err error
	if closed := f.conn.Control(func(fd uintptr) { err = do(int(fd)) }); closed != nil {
		return fs.ErrClosed
	}
	return err
}

func (f *dirFile) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.f.Name(), Err: err}
}

func (f *dirFile) Map(size int64) (Mapping, error) {
	have, err := f.Size()
	if err != nil {
		return nil, err
	}
	if err := checkMap(size, have); err != nil {
		return nil, f.wrap("map", err)
	}
	if size == 0 {
		return new(dirMapping), nil // a mapping of no bytes is an error to the kernel
	}
	m := new(dirMapping)
	err = f.control(func(int) (err error) {
		m.bytes, err = mmap.MapRegion(f.f, int(size), mmap.RDONLY, 0, 0)
		return err
	})
	if err != nil {
		return nil, f.wrap("map", err)
	}
	return m, nil
}

// checkMap refuses to map past the end, where every access would fault, and
// more than the address space can name.
func checkMap(size, have int64) error {
	switch {
	case size < 0 || size > math.MaxInt:
		return fs.ErrInvalid
	case size > have:
		return io.ErrUnexpectedEOF
	}
	return nil
}

type dirMapping struct{ bytes mmap.MMap }

func (m *dirMapping) Bytes() []byte { return m.bytes }

func (m *dirMapping) Close() error {
	if m.bytes == nil {
		return nil
	}
	return m.bytes.Unmap()
}
