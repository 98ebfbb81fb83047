package partition

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

const sealsName = "seals"

// sealFile is the file of seals of a partition: one fixed-size seal behind the
// other, in the order the segments were finished. It is derived: whatever is
// wrong with it costs a scan of the segments it does not speak of. It is never
// synced, for a seal that did not reach the disk whole has a wrong checksum.
type sealFile struct {
	fs    vfs.FS
	name  string
	count int // places for seals in the file, those that do not check included
	live  int // of segments that were there when it was last written anew
}

// add appends a seal. Once most seals are of segments below the log start, the
// file is written anew without them.
func (f *sealFile) add(s segment.Seal, start record.Offset) error {
	if f.count > 2*f.live+256 {
		if err := f.rewrite(start); err != nil {
			return err
		}
	}
	file, err := f.fs.OpenFile(f.name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteAt(s.Append(nil), int64(f.count)*segment.SealSize); err != nil {
		return err
	}
	f.count++
	return nil
}

func (f *sealFile) rewrite(start record.Offset) error {
	seals, _, err := readSeals(f.fs, f.name)
	if err != nil {
		return err
	}
	var data []byte
	live := 0
	for _, base := range slices.Sorted(maps.Keys(seals)) {
		if s := seals[base]; s.Next > start {
			data = s.Append(data)
			live++
		}
	}
	if err := replaceFile(f.fs, f.name, data); err != nil {
		return err
	}
	f.count, f.live = live, live
	return nil
}

// readSeals returns every seal that checks, by base offset, and for how many there
// is a place; the last one of a base counts. A file that is missing holds none.
func readSeals(fsys vfs.FS, name string) (seals map[record.Offset]segment.Seal, places int, err error) {
	data, err := readFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	places = len(data) / segment.SealSize
	seals = make(map[record.Offset]segment.Seal, len(data)/segment.SealSize)
	for ; len(data) >= segment.SealSize; data = data[segment.SealSize:] {
		if s, err := segment.DecodeSeal(data); err == nil {
			seals[s.Base] = s
		}
	}
	return seals, places, nil
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return data[:n], nil
}
