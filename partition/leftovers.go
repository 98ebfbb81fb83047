package partition

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// outline is what is known of where the segments of a log begin and end, by which an empty
// log file is told from one that was emptied.
//
// A roll may fail when its file is there already, and so may the removal of that file. The
// log goes on in the segment it has, up to offsets that the empty file's name claims as
// well. Such a file holds nothing and never did: no seal and no checkpoint speaks of its
// base, and another segment has the offset. One that had records begins where the segment
// in front of it ends, however little is left of it.
type outline struct {
	fs     vfs.FS
	dir    string
	seals  map[record.Offset]segment.Seal
	known  segment.State // where the last checkpoint left the active segment
	sparse bool
}

// leftovers are those of bases, which are in order, whose files hold nothing and lie within
// another segment. Files with a seal are not looked at.
func (o *outline) leftovers(bases []record.Offset) (found []record.Offset, err error) {
	var sealed []segment.Seal // sorted once it is asked for
	front := record.Offset(-1)
	for _, base := range bases {
		if _, ok := o.seals[base]; ok || base == o.known.Base {
			front = base
			continue
		}
		empty, err := isEmpty(o.fs, o.logName(base))
		if err != nil {
			return nil, err
		}
		if !empty {
			front = base
			continue
		}
		if sealed == nil {
			sealed = sortedSeals(o.seals)
		}
		within := isWithin(sealed, base) || o.known.Base < base && base < o.known.Next
		if _, ok := o.seals[front]; !within && !ok && front >= 0 {
			within, err = o.reaches(front, base)
		}
		if err != nil {
			return nil, err
		}
		if within {
			found = append(found, base)
		}
	}
	return found, nil
}

// reaches says whether the batches of a file go on past an offset. What the checkpoint
// covers is not read.
func (o *outline) reaches(base, past record.Offset) (bool, error) {
	f, err := o.fs.OpenFile(o.logName(base), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	next, from := base, record.Pos(0)
	if base == o.known.Base {
		next, from = max(base, o.known.Next), o.known.Size
	}
	sc := segment.NewScanner(f, from, record.Pos(size))
	for next <= past && sc.Next() {
		if b := sc.Batch(); b.BaseOffset == next || o.sparse && b.BaseOffset > next {
			next = b.NextOffset()
		}
	}
	var d *segment.Damage
	if err := sc.Err(); err != nil && !errors.As(err, &d) {
		return false, err
	}
	return next > past, nil
}

func (o *outline) logName(base record.Offset) string {
	return path.Join(o.dir, segment.FileName(base)+segment.LogSuffix)
}

func sortedSeals(seals map[record.Offset]segment.Seal) []segment.Seal {
	return slices.SortedFunc(maps.Values(seals), func(a, b segment.Seal) int { return cmp.Compare(a.Base, b.Base) })
}

// isWithin says whether a segment that begins in front of an offset ends behind it.
func isWithin(sealed []segment.Seal, off record.Offset) bool {
	i, _ := slices.BinarySearchFunc(sealed, off, func(s segment.Seal, off record.Offset) int { return cmp.Compare(s.Base, off) })
	return i > 0 && sealed[i-1].Next > off
}

// isEmpty says whether a file is there and has no bytes.
func isEmpty(fsys vfs.FS, name string) (bool, error) {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode().IsRegular() && info.Size() == 0, err
}

// dropLeftovers leaves the files out that a failed roll has left, and removes them. One
// that the disk does not let go of is in nobody's way, and is met again by the next start.
func (o *opening) dropLeftovers() error {
	l := o.l
	out := outline{fs: l.env.FS, dir: l.dir, seals: o.seals, known: o.known, sparse: l.sparse.Load()}
	found, err := out.leftovers(o.bases)
	if err != nil || len(found) == 0 {
		return err
	}
	for _, base := range found {
		attrs := []any{"partition", l.name, "path", l.env.FS.Path(o.logName(base))}
		if err := o.remove(base); err != nil {
			attrs = append(attrs, "err", err)
		}
		l.log.Warn("removing an empty segment that a failed roll has left", attrs...)
	}
	// Not those of the listing, which Claim has a part in.
	o.bases = slices.DeleteFunc(slices.Clone(o.bases), func(base record.Offset) bool {
		return slices.Contains(found, base)
	})
	return nil
}
