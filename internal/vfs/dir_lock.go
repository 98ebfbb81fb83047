package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"
)

// errHeld is what flock returns when another open of the file has the lock.
var errHeld = errors.New("lock is held")

// errReplaced is what Lock ends with where the file at the name never is the one
// that was opened by it, as behind a link that was followed.
var errReplaced = errors.New("another file has its name each time it is locked")

// lockTries is how many times that may happen: once is a rival's bad luck.
const lockTries = 10

// beforeLock is nothing but to a test, which has a rival come in between.
var beforeLock = func() {}

// Lock locks the open file and not the name: the kernel ends it with the
// process, however that dies, and a leftover file means nothing. The file is
// never removed, since a rival may have it open already.
func (d *dir) Lock(name, holder string) (io.Closer, error) {
	for range lockTries {
		f, err := d.open(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		beforeLock()
		if err := f.lock(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if f.isAt(d.Path(name)) {
			f.writeHolder(holder)
			return f, nil
		}
		// Someone removed the file between open and lock. What we hold has no
		// name any more and keeps nobody out.
		f.Close()
	}
	return nil, &fs.PathError{Op: "lock", Path: d.Path(name), Err: errReplaced}
}

func (f *dirFile) lock() error {
	err := f.flock()
	for try := 0; errors.Is(err, errHeld); try++ {
		// Who has just taken it may not have said yet who that is, or be gone again.
		holder := f.readHolder()
		if holder != holderUnknown || try == holderTries {
			return &LockedError{Path: f.f.Name(), Holder: holder}
		}
		time.Sleep(holderPause)
		err = f.flock()
	}
	return f.wrap("lock", err)
}

func (f *dirFile) isAt(path string) bool {
	mine, err := f.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, there)
}

// writeHolder may fail without harm: the text helps a person, the lock itself
// is the kernel's. A full disk must not keep an engine from opening to trim.
func (f *dirFile) writeHolder(holder string) {
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(holder), 0)
	}
}

const (
	holderTries   = 20 // times that a lock without a holder's text is asked for again
	holderPause   = 5 * time.Millisecond
	holderMax     = 256 // bytes of a holder's text that are shown
	holderUnknown = "an unknown process"
)

// readHolder makes one printable line of what the file holds, whatever that is.
func (f *dirFile) readHolder() string {
	buf := make([]byte, holderMax)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return holderUnknown
	}
	return holderText(buf[:n])
}

func holderText(b []byte) string {
	text := strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), " ")))
	if text == "" {
		return holderUnknown
	}
	return text
}
