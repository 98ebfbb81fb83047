package vfs

import (
	"io/fs"

	"golang.org/x/sys/windows"
)

func (d *dir) Space() (free, total int64, err error) {
	path, err := windows.UTF16PtrFromString(d.root)
	if err != nil {
		return 0, 0, err
	}
	var mine, all uint64
	if err := windows.GetDiskFreeSpaceEx(path, &mine, &all, nil); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: d.root, Err: err}
	}
	return int64(mine), int64(all), nil
}
