package vfs

import (
	"errors"

	"golang.org/x/sys/windows"
)

// flock locks one byte far behind the text: locks are mandatory here, and a
// rival must still be able to read who holds it.
func (f *dirFile) flock() error {
	err := f.control(func(fd int) error {
		at := &windows.Overlapped{OffsetHigh: 1 << 30}
		const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		return windows.LockFileEx(windows.Handle(fd), how, 0, 1, 0, at)
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return errHeld
	}
	return err
}
