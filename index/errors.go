package index

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// ErrIncomplete is returned by Seal when entries are missing, because they could
// not be stored at their time or were refused. The index is to be rebuilt.
var ErrIncomplete = errors.New("index is incomplete")

// DamageError says that an index file is not what it should be. The log does not
// need it: it is to be rebuilt.
type DamageError struct {
	Path   string     // file as opened
	At     record.Pos // first byte that is wrong, as far as it can be told
	Reason string     // "checksum mismatch", "file is missing"
	Err    error      // what the file system said, or nil
}

func (e *DamageError) Error() string {
	text := fmt.Sprintf("index %s: damaged at position %d: %s", e.Path, e.At, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap gives the error of the file system, for instance fs.ErrNotExist.
func (e *DamageError) Unwrap() error { return e.Err }

func damage(fs vfs.FS, name string, at int64, reason string, err error) *DamageError {
	return &DamageError{Path: fs.Path(name), At: record.Pos(at), Reason: reason, Err: err}
}

// openExisting opens an index file; one that is missing, or something else than
// a file, is damage.
func openExisting(fsys vfs.FS, name string, flag int) (vfs.File, error) {
	f, err := fsys.OpenFile(name, flag)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damage(fsys, name, 0, "file is missing", err)
	}
	if info, serr := fsys.Stat(name); serr == nil && !info.Mode().IsRegular() {
		return nil, damage(fsys, name, 0, "not a regular file", err)
	}
	return nil, err
}
