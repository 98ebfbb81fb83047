//go:build !unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errLink = errors.New("is a symbolic link")

func openNoFollow(path string, flag int) (*os.File, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errLink}
	}
	return os.OpenFile(path, flag, 0o600)
}

func openDir(path string, follow bool) (*os.File, error) {
	if err := checkDir(path, follow); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// syncDir can only check its argument: there is no portable way to sync names
// here, and NTFS writes them through its journal in order.
func syncDir(path string, follow bool) error { return checkDir(path, follow) }

func checkDir(path string, follow bool) error {
	stat := os.Lstat
	if follow {
		stat = os.Stat
	}
	info, err := stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	return nil
}
