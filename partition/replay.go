package partition

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Replay puts back into the files of a log what the journal has of it, before Open,
// which is told what came of it. Everything is written, also where the file has the
// same bytes: that they can be read proves only that the page cache has them. Open
// takes it to the disk.
type Replay struct {
	fs    vfs.FS
	dir   string
	start record.Offset // what is below was deleted
	seals map[record.Offset]segment.Seal

	durable record.Offset          // everything below was on stable storage
	there   map[record.Offset]bool // of segments: there is a file, or it begins here
	put     map[record.Offset]*restored
	made    bool // there are new files, whose names are not durable

	base    record.Offset // of pending
	pos     record.Pos
	pending []byte // to be written in one piece
}

// restored is what was put back into a segment.
type restored struct {
	from   record.Pos    // the lowest position
	places []index.Entry // of the first batch of each piece: such a batch is beyond doubt
}

// note notes a piece. What an older one has said of places behind its beginning is out
// of date.
func (p *restored) note(pos record.Pos, data []byte) {
	p.from = min(p.from, pos)
	at, _ := slices.BinarySearchFunc(p.places, pos, func(e index.Entry, pos record.Pos) int { return cmp.Compare(e.Pos, pos) })
	p.places = p.places[:at]
	if b, err := record.Parse(data); err == nil {
		p.places = append(p.places, index.Entry{Offset: b.LastOffset(), Pos: pos})
	}
}

// restored is what was put back into the segment with a base offset, nil where nothing
// was.
func (r *Replay) restored(base record.Offset) *restored {
	if r == nil {
		return nil
	}
	return r.put[base]
}

// NewReplay begins with the log in a directory. An error means that Open would
// fail as well; nothing was changed.
func NewReplay(fsys vfs.FS, dir string) (*Replay, error) {
	r := &Replay{fs: fsys, dir: dir, there: make(map[record.Offset]bool), put: make(map[record.Offset]*restored)}
	body, err := readMetadata(fsys, dir)
	if err != nil {
		return nil, err
	}
	r.start = body.LogStart
	seals := sealFile{fs: fsys, name: dir + "/" + sealsName, id: body.ID, taken: body.Taken}
	if r.seals, _, err = seals.read(); err != nil {
		return nil, err
	}
	bases, err := listLogs(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = checkNames(fsys, dir, bases, r.seals, &body)
	}
	return r, err
}

// Durable says that everything below an offset was on stable storage, so that what
// is missing of it is damage.
func (r *Replay) Durable(next record.Offset) { r.durable = max(r.durable, next) }

// Data puts back bytes of the segment with a base offset, up to the offset next. A
// sealed segment has them all, and one that was deleted since stays so.
func (r *Replay) Data(base record.Offset, pos record.Pos, data []byte, next record.Offset) error {
	if _, sealed := r.seals[base]; sealed || len(data) == 0 {
		return nil
	}
	if deleted, err := r.isDeleted(base, pos, next); deleted || err != nil {
		return err
	}
	if base != r.base || pos != r.pos+record.Pos(len(r.pending)) {
		if err := r.Flush(); err != nil {
			return err
		}
		r.base, r.pos = base, pos
	}
	r.pending = append(r.pending, data...)
	p := r.put[base]
	if p == nil {
		p = &restored{from: pos}
		r.put[base] = p
	}
	p.note(pos, data)
	return nil
}

// isDeleted says that bytes belong to a segment below the log start whose file is
// gone. One that begins here is made anew: its name may be what was lost, and if it
// is not, Open removes it again.
func (r *Replay) isDeleted(base record.Offset, pos record.Pos, next record.Offset) (bool, error) {
	if next > r.start || pos == 0 || r.there[base] {
		r.there[base] = true
		return false, nil
	}
	_, err := r.fs.Stat(r.logName(base))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err == nil:
		r.there[base] = true
	}
	return false, err
}

func (r *Replay) logName(base record.Offset) string {
	return r.dir + "/" + segment.FileName(base) + segment.LogSuffix
}

// Pending is how many bytes wait for Flush.
func (r *Replay) Pending() int { return len(r.pending) }

// Flush writes what Data has gathered.
func (r *Replay) Flush() error {
	if len(r.pending) == 0 {
		return nil
	}
	name := r.logName(r.base)
	f, err := r.fs.OpenFile(name, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		r.made = true
		f, err = r.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
	}
	if errors.Is(err, fs.ErrNotExist) { // Open has to say that the directory is gone
		err = errors.Join(Create(r.fs, r.dir), r.fs.SyncDir(path.Dir(r.dir)))
		if err == nil {
			f, err = r.fs.OpenFile(name, os.O_RDWR|os.O_CREATE)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(r.pending, int64(r.pos))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("put back %d bytes at position %d of %s: %w", len(r.pending), r.pos, r.fs.Path(name), err)
	}
	r.pos += record.Pos(len(r.pending))
	r.pending = r.pending[:0]
	return nil
}
