package index

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/varvelog/varve/internal/vfs"
)

// fakeFS is a disk in memory that counts what is done to it and fails on demand.
// It has the operations an index uses; any other panics.
type fakeFS struct {
	vfs.FS

	mu    sync.Mutex
	files map[string]*[]byte
	fail  func(op string) error // nil: nothing fails
	ops   []string              // what was done, in order
	read  int                   // bytes read
	open  int                   // descriptors open now
	maps  int                   // mappings there are now
}

func newFake() *fakeFS { return &fakeFS{files: map[string]*[]byte{}} }

// do counts an operation and fails it if the test says so.
func (d *fakeFS) do(op, name string) error {
	d.ops = append(d.ops, op)
	if d.fail == nil {
		return nil
	}
	if err := d.fail(op); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (d *fakeFS) Path(name string) string { return "/data/" + name }

func (d *fakeFS) OpenFile(name string, flag int) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("open", name); err != nil {
		return nil, err
	}
	f, ok := d.files[name]
	switch {
	case ok && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case !ok && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case !ok:
		f = new([]byte)
		d.files[name] = f
	}
	d.open++
	return &fakeFile{d: d, b: f, name: name, before: *f}, nil
}

func (d *fakeFS) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do("remove", name); err != nil {
		return err
	}
	if _, ok := d.files[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(d.files, name)
	return nil
}

func (d *fakeFS) Stat(name string) (fs.FileInfo, error) { return nil, fs.ErrInvalid }

// put and get are the test's own hands on the disk.
func (d *fakeFS) put(name string, b []byte) { b = slices.Clone(b); d.files[name] = &b }

func (d *fakeFS) get(name string) []byte {
	if f, ok := d.files[name]; ok {
		return slices.Clone(*f)
	}
	return nil
}

func (d *fakeFS) has(name string) bool { _, ok := d.files[name]; return ok }

type fakeFile struct {
	d      *fakeFS
	b      *[]byte
	name   string
	before []byte // content when it was opened
}

func (f *fakeFile) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("read", f.name); err != nil {
		return 0, err
	}
	n := copy(p, (*f.b)[min(off, int64(len(*f.b))):])
	f.d.read += n
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt does half of what it is asked for before it fails.
func (f *fakeFile) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.do("write", f.name)
	if err != nil {
		p = p[:len(p)/2]
	}
	*f.b = append(slices.Clone(*f.b), make([]byte, max(int(off)+len(p)-len(*f.b), 0))...)
	return copy((*f.b)[off:], p), err
}

func (f *fakeFile) WriteVecAt(bufs [][]byte, off int64) (int, error) { panic("not used by an index") }
func (f *fakeFile) Allocate(int64) error                             { panic("not used by an index") }
func (f *fakeFile) Name() string                                     { return f.name }

func (f *fakeFile) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(*f.b)), f.d.do("size", f.name)
}

func (f *fakeFile) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("truncate", f.name); err != nil {
		return err
	}
	if int(size) < len(*f.b) {
		*f.b = (*f.b)[:size:size]
	}
	return nil
}

func (f *fakeFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.d.do("sync", f.name)
}

func (f *fakeFile) Map(size int64) (vfs.Mapping, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.do("map", f.name); err != nil {
		return nil, err
	}
	f.d.maps++
	return &fakeMapping{f.d, slices.Clone((*f.b)[:size])}, nil
}

// Close loses what was written when it fails, as on a network file system.
func (f *fakeFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.open--
	err := f.d.do("close", f.name)
	if err != nil {
		*f.b = f.before
	}
	return err
}

type fakeMapping struct {
	d *fakeFS
	b []byte
}

func (m *fakeMapping) Bytes() []byte { return m.b }

func (m *fakeMapping) Close() error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.d.maps--
	return nil
}
