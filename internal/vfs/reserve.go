package vfs

import (
	"fmt"
	"io/fs"
	"syscall"
)

// WithReserve is a file system of which Allocate leaves some bytes free, for what is
// written without: documents, indexes, checkpoints. It is no quota: a Write may take
// them.
func WithReserve(inner FS, keep int64) FS { return &reserved{FS: inner, keep: keep} }

// reserved is immutable.
type reserved struct {
	FS
	keep int64
}

func (r *reserved) OpenFile(name string, flag int) (File, error) {
	f, err := r.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &reservedFile{f, r}, nil
}

type reservedFile struct {
	File
	fs *reserved
}

// Allocate asks before and not after: what was allocated could not be given back
// without a look at what others have written since.
func (f *reservedFile) Allocate(size int64) error {
	now, err := f.File.Size()
	if err != nil {
		return err
	}
	free, _, err := f.fs.Space()
	if err != nil {
		return err
	}
	if free-max(0, size-now) < f.fs.keep {
		return &fs.PathError{Op: "allocate", Path: f.fs.Path(f.Name()), Err: &ReserveError{Free: free, Keep: f.fs.keep}}
	}
	return f.File.Allocate(size)
}

// ReserveError says that the disk is full but for what is kept free. It matches
// syscall.ENOSPC.
type ReserveError struct {
	Free, Keep int64 // bytes
}

func (e *ReserveError) Error() string {
	return fmt.Sprintf("%v: %d bytes are free, and %d are kept so", syscall.ENOSPC, e.Free, e.Keep)
}

func (e *ReserveError) Unwrap() error { return syscall.ENOSPC }
