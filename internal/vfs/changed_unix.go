//go:build linux || darwin

package vfs

import (
	"io/fs"
	"syscall"
	"time"
)

// Changed is when a file, or the names in a directory, last changed by the clock of
// the file system: also when the time of its content was set to an older one, as by
// who copies it with its times.
func Changed(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return changed(st)
	}
	return info.ModTime()
}
