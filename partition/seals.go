package partition

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

const sealsName = "seals"

// sealFile is the file of seals of a partition: a head that says of which log, then
// one fixed-size seal behind the other, in the order the segments were finished. It
// is derived: whatever is wrong with it costs a scan of the segments it does not
// speak of. It is synced at a stop, for by it the log's own files are known after one,
// and not before: a seal that did not reach the disk whole has a wrong checksum.
//
// The head takes the place of a seal; integers are big-endian:
//
//	 0   4  CRC-32C of bytes 4 to 79
//	 4   4  "vslh"
//	 8  16  id of the log
//	24   1  how often the log was taken over, see metadataBody
//	25  55  0
//
// A log without an id, see metadataBody, has no head.
type sealFile struct {
	fs      vfs.FS
	name    string
	id      string // of the log, "" for none
	taken   uint8  // how often it was taken over
	places  int    // in the file, of the head and of seals that do not check included
	live    int    // seals of segments that were there when it was last written anew
	foreign bool   // it is that of another log, or of the files before they were taken over

	unsynced bool // a seal was added
}

const sealHeadMagic = "vslh"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is the file without a seal.
func (f *sealFile) head() []byte {
	if f.id == "" {
		return nil
	}
	b := make([]byte, segment.SealSize)
	copy(b[4:], sealHeadMagic)
	hex.Decode(b[8:24], []byte(f.id))
	b[24] = f.taken
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	return b
}

// headID is the id in the head of a file, "" where there is no head that checks.
func headID(data []byte) string {
	if len(data) < segment.SealSize {
		return ""
	}
	first := data[:segment.SealSize]
	if string(first[4:8]) != sealHeadMagic || crc32.Checksum(first[4:], castagnoli) != binary.BigEndian.Uint32(first) {
		return ""
	}
	return hex.EncodeToString(first[8:24])
}

// sealedID is the id of the log that the file of seals in a directory is of, "" where
// that cannot be told.
func sealedID(fsys vfs.FS, dir string) string {
	data, _ := vfs.ReadFile(fsys, dir+"/"+sealsName, math.MaxInt64)
	return headID(data)
}

// exists says whether there is such a file.
func (f *sealFile) exists() (bool, error) {
	_, err := f.fs.Stat(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// load reads the file to go on behind it.
func (f *sealFile) load() (map[record.Offset]segment.Seal, error) {
	seals, places, err := f.read()
	f.places, f.live = places, len(seals)
	return seals, err
}

// read returns every seal that checks, by base offset, and how many places there
// are; the last seal of a base counts. A file that is missing holds none, nor does
// that of another log.
func (f *sealFile) read() (seals map[record.Offset]segment.Seal, places int, err error) {
	data, err := vfs.ReadFile(f.fs, f.name, math.MaxInt64)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	if f.foreign = f.isForeign(data); f.foreign {
		return nil, 0, nil
	}
	return decodeSeals(data), len(data) / segment.SealSize, nil
}

// decodeSeals returns every seal that checks, whosever they are.
func decodeSeals(data []byte) map[record.Offset]segment.Seal {
	seals := make(map[record.Offset]segment.Seal, len(data)/segment.SealSize)
	for ; len(data) >= segment.SealSize; data = data[segment.SealSize:] {
		if s, err := segment.DecodeSeal(data); err == nil {
			seals[s.Base] = s
		}
	}
	return seals
}

// isForeign says whether a file has another head than this one's. A damaged head is
// not held against the seals.
func (f *sealFile) isForeign(data []byte) bool {
	if len(data) < segment.SealSize {
		return false
	}
	first := data[:segment.SealSize]
	if crc32.Checksum(first[4:], castagnoli) != binary.BigEndian.Uint32(first) {
		return false
	}
	if f.id == "" {
		return string(first[4:8]) == sealHeadMagic
	}
	return !bytes.Equal(first, f.head())
}

// add appends a seal. Once most seals are of segments below the log start, the
// file is written anew without them; so it is when it has no head yet, or another's.
func (f *sealFile) add(s segment.Seal, start record.Offset) error {
	if f.places == 0 || f.places > 2*f.live+256 {
		if err := f.rewrite(start); err != nil {
			return err
		}
	}
	file, err := f.fs.OpenFile(f.name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.WriteAt(s.Append(nil), int64(f.places)*segment.SealSize); err != nil {
		return err
	}
	f.places++
	f.unsynced = true
	return nil
}

// sync has what was added survive a power cut, and every name in the directory.
func (f *sealFile) sync() error {
	file, err := f.fs.OpenFile(f.name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer file.Close() // its error is of no consequence behind that of the sync
	err = errors.Join(file.Sync(), f.fs.SyncDir(path.Dir(f.name)))
	f.unsynced = f.unsynced && err != nil
	return err
}

func (f *sealFile) rewrite(start record.Offset) error {
	seals, _, err := f.read()
	if err != nil {
		return err
	}
	data := f.head()
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
	f.places, f.live, f.foreign = len(data)/segment.SealSize, live, false
	return nil
}
