package vfs

import "golang.org/x/sys/unix"

// vecMax is IOV_MAX, which the kernel has fixed in its interface (UIO_MAXIOV).
const vecMax = 1024

func (f *dirFile) writeVec(bufs [][]byte, off int64) (n int, err error) {
	err = f.control(func(fd int) error {
		return untilDone(func() (err error) {
			n, err = unix.Pwritev(fd, bufs, off)
			return err
		})
	})
	return max(n, 0), f.wrap("write", err) // a failed call counts -1
}

// allocate keeps the length: a tail of zeros is no valid log to other tools.
func (f *dirFile) allocate(size int64) error {
	return f.control(func(fd int) error {
		return untilDone(func() error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, size) })
	})
}

// fdatasync is the system call but to a test, which listens in as with fsync.
var fdatasync = unix.Fdatasync

// syncData is fdatasync, which writes the length when it has changed and leaves
// out the times: half the journal traffic for a file that grows, all of it for
// one that does not.
func (f *dirFile) syncData() error {
	return f.control(func(fd int) error {
		return untilDone(func() error { return fdatasync(fd) })
	})
}

// untilDone repeats a call that a signal interrupted. The runtime sends signals
// of its own to preempt goroutines, and not every driver restarts a call.
func untilDone(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
