//go:build unix && !aix && !solaris

package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// flock belongs to the open file, so that two opens in one process conflict and
// closing some other descriptor of the file does not end it: POSIX record locks
// fail in both.
func (f *dirFile) flock() error {
	err := f.control(func(fd int) error {
		for {
			if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
				return err
			}
		}
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
