//go:build linux || darwin

package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// Space leaves out what the file system keeps for root.
func (d *dir) Space() (free, total int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.root, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: d.root, Err: err}
	}
	size := int64(st.Bsize)
	return int64(st.Bavail) * size, int64(st.Blocks) * size, nil
}
