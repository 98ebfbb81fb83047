package vfs

import (
	"io"
	"io/fs"
)

// FS is the directory tree one engine lives in. Names are slash-separated and
// relative to its root; "." is the root itself. No name may leave the tree, and
// a symbolic link is never followed: opening one is an error.
//
// All methods may be called from any goroutine. Errors are *fs.PathError (or
// *os.LinkError) that carry Path(name), so that a user can find the file.
type FS interface {
	// OpenFile opens name with the given os.O_* flags, mode 0600.
	OpenFile(name string, flag int) (File, error)
	// Mkdir makes one directory, mode 0700.
	Mkdir(name string) error
	// ReadDir lists a directory, sorted by name, without a stat of each entry.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes name itself, not what a link points at.
	Stat(name string) (fs.FileInfo, error)
	// Rename replaces to by from, atomically for readers. It is durable after
	// SyncDir of the directories concerned.
	Rename(from, to string) error
	// Link makes a second name for a file.
	Link(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes a whole tree; a missing one is no error.
	RemoveAll(name string) error
	// SyncDir makes the names in a directory durable.
	SyncDir(name string) error
	// Lock takes the exclusive lock of the file name, which it creates when
	// missing and fills with holder. It ends with the process or with Close.
	// A lock held elsewhere, in this process or another, is a *LockedError.
	Lock(name, holder string) (io.Closer, error)
	// Space is how many bytes this process may still write, and how many the file
	// system has in all: as the system says, which may not know of every quota.
	Space() (free, total int64, err error)
	// Path is the name as a user of the machine would write it.
	Path(name string) string
}

// File is an open file. Reads and writes may run at the same time; WriteAt,
// WriteVecAt and Truncate are the business of one goroutine at a time.
type File interface {
	io.ReaderAt // a short read at the end of the file is (n, io.EOF)
	io.WriterAt // loops over short writes; n < len(p) comes with an error, and then bytes behind n may be written too
	io.Closer

	// WriteVecAt writes the buffers one behind the other at off, in as few
	// system calls as the platform allows. n < total comes with an error.
	WriteVecAt(bufs [][]byte, off int64) (n int, err error)
	// Size is the current length in bytes.
	Size() (int64, error)
	// Truncate sets the length.
	Truncate(size int64) error
	// Allocate reserves disk space for the first size bytes without changing
	// the length. Where the platform cannot, it does nothing and returns an error
	// that matches errors.ErrUnsupported.
	Allocate(size int64) error
	// Sync makes data and length durable (fdatasync). After it failed once,
	// nothing may be assumed of what was written since the last success.
	Sync() error
	// Map maps the first size bytes for reading. The file must be at least
	// that long and must never change again; it may be closed before the mapping.
	Map(size int64) (Mapping, error)
	// Name is the name it was opened by.
	Name() string
}

// Mapping is a read-only view of a file. Bytes must only be touched inside
// Guard: a disk error or a file cut short surfaces as a memory fault.
type Mapping interface {
	Bytes() []byte
	io.Closer
}

// LockedError says that another engine holds the directory.
type LockedError struct {
	Path   string // the lock file
	Holder string // what its holder wrote there
}

func (e *LockedError) Error() string {
	return "directory is in use: " + e.Path + " is locked by " + e.Holder
}
