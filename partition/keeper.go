package partition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// QuarantineName is the folder of a data directory for damage that was set aside.
const QuarantineName = "quarantine"

// Keeper keeps damaged bytes in a folder, which it makes: each range in a file of its own,
// whose name says where it comes from, with one beside it that says more.
//
//	orders-0-00000000000000004096-position-1234-to-1300-offsets-4100-to-4119.bytes
//	orders-0-00000000000000004096-position-1234-to-1300-offsets-4100-to-4119.json
//
// Both ends of a range are inclusive, as they are in the JSON.
type Keeper struct {
	Dir string    // in a directory that is there
	Now time.Time // for the description
}

// keptDoc describes bytes that are kept.
type keptDoc struct {
	Partition string        `json:"partition"`
	Segment   string        `json:"segment"`
	Position  record.Pos    `json:"position"`
	Bytes     int64         `json:"bytes"`
	First     record.Offset `json:"firstOffset"`
	Last      record.Offset `json:"lastOffset"` // below the first where there are no offsets
	Reason    string        `json:"reason"`
	Time      time.Time     `json:"time"`
}

// keep makes r durable and returns the name of its file. What an earlier call kept of it serves.
func (k Keeper) keep(fsys vfs.FS, partition string, d *Damage, r *io.SectionReader) (string, error) {
	if err := fsys.Mkdir(k.Dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	stem := fmt.Sprintf("%s/%s-%s-position-%d-to-%d", k.Dir,
		strings.ReplaceAll(partition, "/", "-"), segment.FileName(d.Base), d.At, d.End-1)
	if d.From < d.To {
		stem += fmt.Sprintf("-offsets-%d-to-%d", d.From, d.To-1)
	}
	name := stem
	for n := 2; ; n++ {
		switch same, err := holds(fsys, name+".bytes", r); {
		case errors.Is(err, fs.ErrNotExist):
			if err := k.write(fsys, name+".bytes", r); err != nil {
				return "", err
			}
		case err != nil:
			return "", err
		case !same: // of another topic of that name, or of another time
			name = fmt.Sprintf("%s-%d", stem, n)
			continue
		}
		break
	}
	if err := k.describe(fsys, name+".json", partition, d); err != nil {
		return "", err
	}
	parent := "."
	if i := strings.LastIndexByte(k.Dir, '/'); i >= 0 {
		parent = k.Dir[:i]
	}
	return name + ".bytes", errors.Join(fsys.SyncDir(k.Dir), fsys.SyncDir(parent))
}

// write writes a file that has its name when all of it is on stable storage.
func (k Keeper) write(fsys vfs.FS, name string, r *io.SectionReader) error {
	f, err := fsys.OpenFile(name+tmpSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err = copyRange(f, 0, io.NewSectionReader(r, 0, r.Size())); err == nil {
		err = f.Sync()
	}
	f.Close() // of no consequence: the sync has said what there is to say
	if err != nil {
		fsys.Remove(name + tmpSuffix)
		return err
	}
	return fsys.Rename(name+tmpSuffix, name)
}

func (k Keeper) describe(fsys vfs.FS, name, partition string, d *Damage) error {
	if _, err := fsys.Stat(name); err == nil {
		return nil
	}
	data, err := json.MarshalIndent(keptDoc{
		Partition: partition, Segment: segment.FileName(d.Base) + segment.LogSuffix,
		Position: d.At, Bytes: int64(d.End - d.At), First: d.From, Last: d.To - 1, Reason: d.Reason, Time: k.Now.UTC(),
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := vfs.WriteSynced(fsys, name+tmpSuffix, append(data, '\n')); err != nil {
		return err
	}
	return fsys.Rename(name+tmpSuffix, name)
}

// holds says whether a file has the bytes of r.
func holds(fsys vfs.FS, name string, r *io.SectionReader) (bool, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil || size != r.Size() {
		return false, err
	}
	a, b := make([]byte, min(copyWindow, size)), make([]byte, min(copyWindow, size))
	for at := int64(0); at < size; at += int64(len(a)) {
		a, b = a[:min(int64(len(a)), size-at)], b[:min(int64(len(b)), size-at)]
		_, err := f.ReadAt(a, at)
		_, rerr := r.ReadAt(b, at)
		if err := errors.Join(ignoreEOF(err), ignoreEOF(rerr)); err != nil {
			return false, err
		}
		if !bytes.Equal(a, b) {
			return false, nil
		}
	}
	return true, nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
