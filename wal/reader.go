package wal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/vfs"
)

// Old is what an earlier life of the journal left, for Open.
type Old struct {
	path   string // of the directory, for messages
	files  []*file
	first  uint64 // the first round there is
	round  uint64 // the last
	number uint64 // of the last life of a file
	serial uint64 // of the last file

	released uint64 // rounds up to here were not needed, say files and rounds
	unread   bool   // by List: the files are of no interest
	gaps     []gap  // in the numbers of rounds
	// Damaged are files that could not be read at all or that were cut. What is missing
	// beside is not in it, see Missing.
	Damaged []error
	// Unreadable are the names of those files.
	Unreadable []string
}

// Round is the last round there is; 0: none.
func (o *Old) Round() uint64 { return o.round }

// Released is the round up to which the rounds were not needed any more.
func (o *Old) Released() uint64 { return o.released }

// Round is one round that was read back.
type Round struct {
	Number uint64 // 0: its header does not check
	Path   string
	Pos    int64
	Frames []Frame // those of which the header checks; valid until the next round
	// Damaged says what of the round does not check: "" when all does.
	Damaged string
	// Last says that no round follows: it may be unfinished, where every other one
	// was on stable storage.
	Last bool
}

// Read lists the files of a journal and calls visit for each round, oldest first.
// Memory is one round. What is left over is handed to Open.
//
// A round of which the header does not check is told from none at all by a later
// round: its frames are found one by one then.
func Read(fsys vfs.FS, dir string, visit func(Round) error) (*Old, error) {
	old, err := List(fsys, dir)
	if err != nil {
		return nil, err
	}
	old.unread = false
	r := reading{fs: fsys, visit: visit, old: old}
	for _, f := range old.files {
		if err := r.file(f); err != nil {
			return nil, err
		}
	}
	old.noteCuts(fsys)
	return old, r.flush(true)
}

// missing is the error for a gap, nil where its rounds were not needed any more.
func (o *Old) missing(g gap, covered uint64) error {
	if covered = max(covered, o.released); g.to <= covered {
		return nil
	}
	return fmt.Errorf("%s: rounds %d to %d are missing", o.path, max(g.from, covered+1), g.to)
}

// Missing is what is missing of a journal of which all files were read: what Damaged
// says, rounds between others, and in front of the first one. Those up to covered are not missed: the
// caller knows that they were not needed, which the journal learns with its next round.
func (o *Old) Missing(covered uint64) []error {
	missing := o.MissingBetween(covered)
	if o.first > 1 {
		if err := o.missing(gap{1, o.first - 1}, covered); err != nil {
			missing = append(missing, err)
		}
	}
	return missing
}

// MissingBetween is Missing for who may have left out the first files.
func (o *Old) MissingBetween(covered uint64) []error {
	missing := slices.Clone(o.Damaged)
	for _, g := range o.gaps {
		if err := o.missing(g, covered); err != nil {
			missing = append(missing, err)
		}
	}
	return missing
}

// noteCuts tells of files that were cut, where nothing else tells what they had: rounds
// that others follow are missed by their numbers.
func (o *Old) noteCuts(fsys vfs.FS) {
	for _, f := range slices.Backward(o.files) {
		if f.lost > 0 {
			o.Damaged = append(o.Damaged, fmt.Errorf("%s: its last %d bytes are missing", fsys.Path(f.name), f.lost))
		}
		if f.last > 0 {
			return
		}
	}
}

// List is Read for who knows that the rounds, if any, are not needed.
func List(fsys vfs.FS, dir string) (*Old, error) {
	old := &Old{unread: true, path: fsys.Path(dir)}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return old, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := old.take(fsys, dir+"/"+e.Name(), e.Type().IsRegular()); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(old.files, func(a, b *file) int { return cmp.Compare(a.head.number, b.head.number) })
	return old, nil
}

// take adds a file of the directory, if it is one of the journal's. One of which
// the header is damaged is of no use: its id is lost, and with it the seed of every
// checksum in it.
func (o *Old) take(fsys vfs.FS, name string, regular bool) error {
	base := name[strings.LastIndexByte(name, '/')+1:]
	digits, isFile := strings.CutSuffix(base, Suffix)
	serial, err := strconv.ParseUint(digits, 10, 64)
	switch {
	case regular && strings.HasSuffix(base, Suffix+tmpSuffix):
		return fsys.Remove(name)
	case !regular || !isFile || err != nil:
		return nil
	}
	o.serial = max(o.serial, serial)
	head, size, err := readHead(fsys, name)
	var fe *formatError
	switch {
	case errors.As(err, &fe):
		o.Damaged = append(o.Damaged, fmt.Errorf("%s: %w", fsys.Path(name), err))
		o.Unreadable = append(o.Unreadable, name)
		return nil
	case err != nil:
		return err
	}
	o.number, o.released = max(o.number, head.number), max(o.released, head.released)
	f := &file{name: name, head: head, old: true}
	if size < head.size { // every file had its size before it was used
		f.lost, f.head.size = head.size-size, max(size/page*page, page)
	}
	o.files = append(o.files, f)
	return nil
}

// readHead reads the header of a file, and how long the file is.
func readHead(fsys vfs.FS, name string) (head fileHead, size int64, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return head, 0, err
	}
	defer f.Close()
	b := make([]byte, page)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return head, 0, err
	}
	if head, err = decodeFileHead(b[:n]); err == nil {
		size, err = f.Size()
	}
	return head, size, err
}

// reading is one call of Read. A round is held back until it is known whether
// another follows.
type reading struct {
	fs    vfs.FS
	visit func(Round) error
	old   *Old

	held    *Round
	orphans Round // frames behind held of rounds whose headers do not check
}

// gap is rounds that are not there, both included.
type gap struct{ from, to uint64 }

func (r *reading) file(f *file) error {
	in, err := r.fs.OpenFile(f.name, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return err
	}
	b := make([]byte, page+frameHeader) // a header may go on in the next page
	for pos := int64(page); pos+roundHeader <= size; {
		if b, err = readAt(in, b[:page+frameHeader], pos); err != nil {
			return err
		}
		h, ok := decodeRoundHead(b, f.head.id, pos)
		if !ok || h.number <= r.old.round {
			if err := r.scanPage(in, b, f, pos, size); err != nil {
				return err
			}
			pos += page
			continue
		}
		data, err := readAt(in, make([]byte, min(h.bytes, size-pos)), pos)
		if err != nil {
			return err
		}
		if err := r.round(f, h, pos, data); err != nil {
			return err
		}
		pos += align(h.bytes, page)
	}
	return nil
}

// readAt reads as much of b as there is.
func readAt(in io.ReaderAt, b []byte, pos int64) ([]byte, error) {
	n, err := in.ReadAt(b, pos)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// round takes a round in, and hands on the one before it.
func (r *reading) round(f *file, h roundHead, pos int64, data []byte) error {
	next := &Round{Number: h.number, Path: r.fs.Path(f.name), Pos: pos}
	missing := h.frames
	for at := int64(roundHeader); at < int64(len(data)); {
		frame, size, whole := decodeFrame(data[at:], f.head.id, pos+at)
		if size == 0 {
			at += 8 // its header is lost: the next one checks by its own position
			continue
		}
		next.Frames = append(next.Frames, frame)
		if at += size; whole {
			missing--
		}
	}
	if missing != 0 {
		next.Damaged = fmt.Sprintf("%d of %d frames do not check", missing, h.frames)
	}
	for i := range r.orphans.Frames {
		r.takeBack(r.orphans.Frames[i:i+1], i)
	}
	r.takeBack(next.Frames, len(r.orphans.Frames))
	if err := r.flush(false); err != nil {
		return err
	}
	if r.old.first == 0 {
		r.old.first = h.number
	} else if h.number > r.old.round+1 {
		r.old.gaps = append(r.old.gaps, gap{r.old.round + 1, h.number - 1})
	}
	r.old.released = max(r.old.released, h.released)
	r.held, r.old.round, f.last = next, h.number, h.number
	return nil
}

// takeBack has what is held back be what the cuts among some frames leave of it, and of the
// first of the orphans.
func (r *reading) takeBack(behind []Frame, orphans int) {
	for i := range behind {
		cut := &behind[i]
		if cut.Kind != Cut {
			continue
		}
		if r.held != nil {
			takenBack(r.held.Frames, cut)
		}
		takenBack(r.orphans.Frames[:orphans], cut)
	}
}

// flush hands on the round that was held back, and the frames found behind it if a
// later round proves that they belong to one that was on stable storage.
func (r *reading) flush(last bool) error {
	if r.held != nil {
		r.held.Last = last
		if err := r.visit(*r.held); err != nil {
			return err
		}
	}
	if len(r.orphans.Frames) > 0 && !last {
		if err := r.visit(r.orphans); err != nil {
			return err
		}
	}
	r.held, r.orphans = nil, Round{}
	return nil
}

// scanPage looks for frames in a page at which no round starts.
func (r *reading) scanPage(in io.ReaderAt, b []byte, f *file, pos, fileSize int64) error {
	for at := int64(0); at < page && at+frameHeader <= int64(len(b)); at += 8 {
		if k := Kind(b[at+4]); k < Data || k > Cut {
			continue
		}
		frame, size, whole := decodeFrame(b[at:], f.head.id, pos+at)
		if size == 0 {
			continue
		}
		if !whole && at+size > int64(len(b)) && pos+at+size <= fileSize { // it goes on in the next page
			data, err := readAt(in, make([]byte, size), pos+at)
			if err != nil {
				return err
			}
			frame, _, _ = decodeFrame(data, f.head.id, pos+at)
		}
		if len(r.orphans.Frames) == 0 {
			r.orphans = Round{Path: r.fs.Path(f.name), Pos: pos, Damaged: "header of the round does not check"}
		}
		frame.Payload = slices.Clone(frame.Payload)
		r.orphans.Frames = append(r.orphans.Frames, frame)
	}
	return nil
}
