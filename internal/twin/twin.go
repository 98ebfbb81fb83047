package twin

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"

	"github.com/varvelog/varve/internal/vfs"
)

// CopySuffix is added to the name for the second file.
const CopySuffix = ".copy"

// maxSize bounds what is read of a file that may hold anything.
const maxSize = 16 << 20

const sector = 512

// ErrDamaged is returned by Load when a document was there once and neither
// file can be read as one.
var ErrDamaged = errors.New("both copies are damaged")

// ErrForeign is returned by Load when the two files speak of different things, and
// nothing says which is the one that belongs here.
var ErrForeign = errors.New("are of different things")

// Identity tells documents of different things apart, so that one which was put in the
// place of another's file is not taken for a newer one. The zero Identity is for a
// document of which there is one only.
type Identity struct {
	// ID is what a body says of whose it is, "" for nothing.
	ID func(body json.RawMessage) string
	// Own says whether a body belongs here, by something that is not in the two files.
	// Nil: nothing tells.
	Own func(body json.RawMessage) bool
}

type envelope struct {
	Generation uint64          `json:"generation"`
	CRC32C     string          `json:"crc32c"`
	Body       json.RawMessage `json:"body"`
}

// Doc is a document as it was loaded.
type Doc struct {
	Generation uint64 // rises by one with every save
	Body       json.RawMessage
	// Mended says what was wrong with the file that had to be written anew,
	// "" when nothing was.
	Mended string
}

// Save writes body, a JSON value, as the given generation to both files of
// name. While one is written over the other is whole, on the disk: a process that was
// killed may have left either as it liked.
func Save(fsys vfs.FS, name string, generation uint64, body json.RawMessage) error {
	data, err := encode(generation, body)
	if err != nil {
		return err
	}
	first := older(fsys, name)
	second := otherOf(name, first)
	if err := settle(fsys, second, len(data)); err != nil {
		return fmt.Errorf("save %s: %w", fsys.Path(name), err)
	}
	for _, file := range []string{first, second} {
		if err := write(fsys, file, data); err != nil {
			return fmt.Errorf("save %s: %w", fsys.Path(file), err)
		}
	}
	return nil
}

// Load reads the newest of the two documents that checks. It is fs.ErrNotExist
// when there is no file of either name.
func Load(fsys vfs.FS, name string, of Identity) (Doc, error) {
	doc, stale, err := Read(fsys, name, of)
	if err != nil || stale == "" {
		return doc, err
	}
	data, err := encode(doc.Generation, doc.Body)
	if err == nil {
		err = settle(fsys, otherOf(name, stale), len(data))
	}
	if err == nil {
		err = write(fsys, stale, data)
	}
	if err != nil {
		doc.Mended += fmt.Sprintf("; writing it anew failed: %v", err)
	}
	return doc, nil
}

// Read is Load for who must change nothing: it names the file that ought to be
// written anew, "" when both agree.
func Read(fsys vfs.FS, name string, of Identity) (doc Doc, stale string, err error) {
	a, b, aerr, berr := readBoth(fsys, name)
	switch {
	case aerr == nil && berr == nil && a.Generation == b.Generation && bytes.Equal(a.Body, b.Body):
		return a, "", nil
	case errors.Is(aerr, fs.ErrNotExist) && errors.Is(berr, fs.ErrNotExist):
		return Doc{}, "", aerr
	case unreadable(aerr) && berr != nil:
		return Doc{}, "", aerr
	case unreadable(berr) && aerr != nil:
		return Doc{}, "", berr
	case aerr != nil && berr != nil:
		return Doc{}, "", fmt.Errorf("%s: %w: %v; its copy: %v", fsys.Path(name), ErrDamaged, aerr, berr)
	case aerr != nil:
		b.Mended = fmt.Sprintf("%s: %v", fsys.Path(name), aerr)
		return b, name, nil
	case berr != nil:
		a.Mended = fmt.Sprintf("%s: %v", fsys.Path(name+CopySuffix), berr)
		return a, name + CopySuffix, nil
	case of.differ(a, b):
		return of.choose(fsys, name, a, b)
	case a.Generation < b.Generation:
		b.Mended = fmt.Sprintf("%s: is generation %d, its copy %d", fsys.Path(name), a.Generation, b.Generation)
		return b, name, nil
	case a.Generation > b.Generation:
		a.Mended = fmt.Sprintf("%s: is generation %d, the other %d", fsys.Path(name+CopySuffix), b.Generation, a.Generation)
		return a, name + CopySuffix, nil
	}
	a.Mended = fmt.Sprintf("%s: differs from %s in the same generation", fsys.Path(name+CopySuffix), fsys.Path(name))
	return a, name + CopySuffix, nil
}

// readBoth reads the two files. When they are the same, as they are but after a crash,
// one is decoded.
func readBoth(fsys vfs.FS, name string) (a, b Doc, aerr, berr error) {
	first, aerr := vfs.ReadFile(fsys, name, maxSize)
	second, berr := vfs.ReadFile(fsys, name+CopySuffix, maxSize)
	if aerr == nil {
		a, aerr = decode(first)
	}
	switch {
	case berr != nil:
	case aerr == nil && bytes.Equal(first, second):
		b = a
	default:
		b, berr = decode(second)
	}
	return a, b, aerr, berr
}

// older is the one of the two files that costs less to lose.
func older(fsys vfs.FS, name string) string {
	a, b, aerr, berr := readBoth(fsys, name)
	if aerr == nil && (berr != nil || b.Generation < a.Generation) {
		return name + CopySuffix
	}
	return name
}

func otherOf(name, file string) string {
	if file == name {
		return name + CopySuffix
	}
	return name
}

// settle has the disk take what can be read of a file, if there is one, before the
// other is written over with n bytes. Where that may be torn, because either has more than
// a sector, their names have to be there too: who was killed while it mended has not
// synced them.
func settle(fsys vfs.FS, name string, n int) error {
	f, err := fsys.OpenFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = f.Sync()
	}
	f.Close() // of no consequence: the sync has said what there is to say
	if err == nil && max(size, int64(n)) > sector {
		err = fsys.SyncDir(path.Dir(name))
	}
	return err
}

// differ says whether two documents are of different things.
func (of Identity) differ(a, b Doc) bool {
	if of.ID == nil {
		return false
	}
	x, y := of.ID(a.Body), of.ID(b.Body)
	return x != "" && y != "" && x != y
}

// choose is the rest of Read for documents that differ: generations of different things
// say nothing.
func (of Identity) choose(fsys vfs.FS, name string, a, b Doc) (doc Doc, stale string, err error) {
	x, y := of.ID(a.Body), of.ID(b.Body)
	var first, second bool
	if of.Own != nil {
		first, second = of.Own(a.Body), of.Own(b.Body)
	}
	if first == second {
		return Doc{}, "", fmt.Errorf("%s and its copy %w, %s and %s: move away the one that does not belong there",
			fsys.Path(name), ErrForeign, x, y)
	}
	if doc, stale = a, name+CopySuffix; second {
		doc, stale, x, y = b, name, y, x
	}
	doc.Mended = fmt.Sprintf("%s: is that of something else, %s, not %s", fsys.Path(stale), y, x)
	return doc, stale, nil
}

// unreadable says that a file may be whole, but cannot be read: not our user's, or
// on a disk that fails.
func unreadable(err error) bool {
	var perr *fs.PathError
	return errors.As(err, &perr) && !errors.Is(err, fs.ErrNotExist)
}

func checksum(generation uint64, body []byte) uint32 {
	var g [8]byte
	binary.BigEndian.PutUint64(g[:], generation)
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(g[:], table), table, body)
}

func encode(generation uint64, body json.RawMessage) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, err
	}
	body = compact.Bytes()
	data, err := json.Marshal(envelope{generation, fmt.Sprintf("%08x", checksum(generation, body)), body})
	if err != nil {
		return nil, err
	}
	pad := sector - (len(data)+1)%sector
	data = append(data, bytes.Repeat([]byte{' '}, pad%sector)...)
	return append(data, '\n'), nil
}

func decode(data []byte) (Doc, error) {
	var e envelope
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&e); err != nil {
		return Doc{}, fmt.Errorf("is not a document: %w", err)
	}
	if want := fmt.Sprintf("%08x", checksum(e.Generation, e.Body)); want != e.CRC32C {
		return Doc{}, fmt.Errorf("has checksum %q, its content %s", e.CRC32C, want)
	}
	// The checksum covers the content; this covers the rest of the file.
	if canon, err := encode(e.Generation, e.Body); err != nil || !bytes.Equal(canon, data) {
		return Doc{}, errors.New("is not as it was written")
	}
	return Doc{Generation: e.Generation, Body: e.Body}, nil
}

// write writes over the file, so that a full disk is no obstacle.
func write(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return create(fsys, name, data)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err == nil {
		err = f.Sync()
	}
	f.Close() // see settle
	return err
}

// TmpSuffix is added to the name of a file while it is made. One that a crash
// left behind may be removed.
const TmpSuffix = ".tmp"

// create makes the file whole before it gets its name: the first of the two is
// for a moment all there is of the document.
func create(fsys vfs.FS, name string, data []byte) error {
	tmp := name + TmpSuffix
	if err := vfs.WriteSynced(fsys, tmp, data); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}
