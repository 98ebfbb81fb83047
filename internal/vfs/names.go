package vfs

import (
	"io/fs"
	"os"
	"path/filepath"
)

// localName turns name into the platform's spelling, relative to the root. Only
// one spelling of a name is taken (fs.ValidPath: no "..", no empty or "."
// elements, not absolute), because two spellings of one file are one mistake
// away from two locks on it. Whatever the platform would read differently, such
// as NUL, or a backslash and a colon on windows, is refused as well.
func localName(op, name string) (string, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return local, nil
}

// insideName is localName for operations that make no sense on the root itself.
func insideName(op, name string) (string, error) {
	if name == "." {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return localName(op, name)
}

const (
	accessFlags = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
	knownFlags  = accessFlags | os.O_CREATE | os.O_EXCL | os.O_TRUNC
)

// checkFlag refuses what platforms disagree about: appending beside positioned
// writes, truncating through a read-only open, exclusive without create.
func checkFlag(name string, flag int) error {
	access := flag & accessFlags
	switch {
	case flag&^knownFlags != 0,
		access == os.O_WRONLY|os.O_RDWR,
		access == os.O_RDONLY && flag&os.O_TRUNC != 0,
		flag&os.O_EXCL != 0 && flag&os.O_CREATE == 0:
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

func canWrite(flag int) bool { return flag&accessFlags != os.O_RDONLY }
func canRead(flag int) bool  { return flag&accessFlags != os.O_WRONLY }
