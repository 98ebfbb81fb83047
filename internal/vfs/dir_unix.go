//go:build unix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// openNoFollow adds O_NONBLOCK, which means nothing to a regular file and keeps
// the open of a pipe from waiting for its other end.
func openNoFollow(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
}

// openDir adds it as well, which means nothing to a directory: the runtime, which tries to
// poll what it opens, would set it, fail, and take it back, with four calls.
func openDir(path string, follow bool) (*os.File, error) {
	flag := unix.O_DIRECTORY | unix.O_NONBLOCK
	if !follow {
		flag |= unix.O_NOFOLLOW
	}
	return os.OpenFile(path, flag, 0)
}

// fsync is (*os.File).Sync but to a test, which listens in: whether names were
// made durable shows itself in a power cut only.
var fsync = (*os.File).Sync

// syncDir reports a file system that cannot sync directories as the error it
// is: names that may be lost are not what was promised.
func syncDir(path string, follow bool) error {
	f, err := openDir(path, follow)
	if err != nil {
		return err
	}
	defer closeDir(f)
	return fsync(f)
}
