package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// ReadFile reads a whole file of at most max bytes. A longer one is an error, and
// no *fs.PathError: it can be read, and holds what nobody wrote there.
func ReadFile(fsys FS, name string, max int64) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > max {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d it may have", fsys.Path(name), size, max)
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}

// WriteSynced makes data the durable content of a file, which it creates where
// there is none. The name is durable after SyncDir. When it fails the file is
// removed: it is for files that get their real name later, or need not be there.
func WriteSynced(fsys FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	f.Close() // of no consequence: the sync has said what there is to say
	if err != nil {
		fsys.Remove(name)
	}
	return err
}
