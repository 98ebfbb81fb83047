//go:build !linux

package vfs

import "errors"

const vecMax = 1

func (f *dirFile) writeVec(bufs [][]byte, off int64) (int, error) {
	return f.f.WriteAt(bufs[0], off)
}

// allocate has no call here that keeps the length and is worth its difference.
func (f *dirFile) allocate(int64) error { return errors.ErrUnsupported }

// syncData is os.File.Sync: F_FULLFSYNC on darwin, where fsync stops at the
// drive's cache, and FlushFileBuffers on windows.
func (f *dirFile) syncData() error { return f.f.Sync() }
