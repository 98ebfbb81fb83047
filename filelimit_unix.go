//go:build unix

package varve

import "golang.org/x/sys/unix"

// fileLimit is how many descriptors this process may have. Go has raised the
// soft limit to the hard one by now.
func fileLimit() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 1024
	}
	return int(min(uint64(r.Cur), 1<<20))
}
