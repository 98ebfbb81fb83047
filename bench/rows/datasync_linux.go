package rows

import (
	"os"
	"syscall"
)

// datasync is fdatasync.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
