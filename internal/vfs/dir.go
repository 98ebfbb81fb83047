package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Dir is the real file system below the directory root, which need not exist
// yet: Mkdir(".") makes it. A relative root is fixed to the working directory
// of this moment. The root may be reached through symbolic links; below it the
// last element of a name never is one.
//
// On windows an open or mapped file can neither be removed nor replaced, names
// cannot be synced, and the check for links is not atomic with the open.
func Dir(root string) FS {
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	return &dir{root: root}
}

// dir is immutable: all state is the kernel's.
type dir struct{ root string }

func (d *dir) Path(name string) string {
	return filepath.Join(d.root, filepath.FromSlash(name))
}

// path is Path for a name that was checked.
func (d *dir) path(op, name string) (string, error) {
	local, err := localName(op, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(d.root, local), nil
}

func (d *dir) pathInside(op, name string) (string, error) {
	local, err := insideName(op, name)
	if err != nil {
		return "", err
	}
	return filepath.Join(d.root, local), nil
}

func (d *dir) OpenFile(name string, flag int) (File, error) {
	f, err := d.open(name, flag)
	if err != nil {
		return nil, err // not f: a nil *dirFile in a File is not nil
	}
	return f, nil
}

func (d *dir) open(name string, flag int) (*dirFile, error) {
	path, err := d.path("open", name)
	if err != nil {
		return nil, err
	}
	if err := checkFlag(path, flag); err != nil {
		return nil, err
	}
	f, err := openNoFollow(path, flag)
	if err != nil {
		return nil, err
	}
	if err := regular(f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: path, Err: err}, f.Close())
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &dirFile{f: f, conn: conn, name: name}, nil
}

var errNotRegular = errors.New("not a regular file")

// regular refuses pipes, devices and directories. A pipe left in a data
// directory must not hang the engine that opens it.
func regular(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return errNotRegular
	}
	return nil
}

// Mkdir of "." makes the root, and makes that durable, since no name of this
// file system reaches the directory above.
func (d *dir) Mkdir(name string) error {
	path, err := d.path("mkdir", name)
	if err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil || name != "." {
		return err
	}
	return syncDir(filepath.Dir(path), true)
}

// closeDir closes a directory. Nothing hangs on its error: nothing was written by way of
// it, and its names were synced, or the sync has said that they were not.
var closeDir = (*os.File).Close

func (d *dir) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := d.path("readdir", name)
	if err != nil {
		return nil, err
	}
	f, err := openDir(path, name == ".")
	if err != nil {
		return nil, err
	}
	defer closeDir(f)
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

func (d *dir) Stat(name string) (fs.FileInfo, error) {
	path, err := d.path("stat", name)
	if err != nil {
		return nil, err
	}
	if name == "." {
		return os.Stat(path)
	}
	return os.Lstat(path)
}

func (d *dir) Rename(from, to string) error { return d.two("rename", from, to, os.Rename) }
func (d *dir) Link(from, to string) error   { return d.two("link", from, to, os.Link) }

func (d *dir) two(op, from, to string, do func(from, to string) error) error {
	fromPath, err := d.pathInside(op, from)
	if err != nil {
		return err
	}
	toPath, err := d.pathInside(op, to)
	if err != nil {
		return err
	}
	return do(fromPath, toPath)
}

func (d *dir) Remove(name string) error    { return d.one("remove", name, os.Remove) }
func (d *dir) RemoveAll(name string) error { return d.one("removeall", name, os.RemoveAll) }

func (d *dir) one(op, name string, do func(path string) error) error {
	path, err := d.pathInside(op, name)
	if err != nil {
		return err
	}
	return do(path)
}

func (d *dir) SyncDir(name string) error {
	path, err := d.path("syncdir", name)
	if err != nil {
		return err
	}
	return syncDir(path, name == ".")
}
