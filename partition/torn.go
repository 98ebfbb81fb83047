package partition

import (
	"errors"
	"io/fs"
	"os"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// isDamage tells damage from a torn end, for a file that stops making sense
// before its end. It is damage where the file is known to have been on stable
// storage: it was rolled before the last checkpoint, or a segment behind it was
// finished. Above the checkpoint, on a topic that acknowledges before it syncs,
// whatever follows the bad place is as uncertain as the bad place itself: what a
// crash takes is a suffix. On a topic that syncs first, batches in a later file
// say that this one was durable.
func (o *opening) isDamage(base record.Offset) bool {
	if o.clean || (o.cp != nil && base < o.known.Base) {
		return true
	}
	for _, later := range o.bases[1:] {
		if _, sealed := o.seals[later]; sealed {
			return true
		}
	}
	return len(o.bases) > 1 && (o.cp == nil || o.l.Config().Level == Fsync)
}

func (o *opening) nextBase(base record.Offset) record.Offset {
	if len(o.bases) > 1 {
		return o.bases[1]
	}
	return max(o.known.Next, base)
}

// dropEmptyTail removes the last files while they hold no batch at all and are
// not known to have held one: a roll of which only the name reached the disk.
func (o *opening) dropEmptyTail() error {
	for n := len(o.bases); n > 1 && !o.clean; n-- {
		base := o.bases[n-1]
		if _, sealed := o.seals[base]; sealed || base <= o.known.Base {
			return nil
		}
		empty, err := o.holdsNoBatch(base)
		if err != nil || !empty {
			return err
		}
		if err := o.drop(base); err != nil {
			return err
		}
		o.bases = o.bases[:n-1]
	}
	return nil
}

func (o *opening) holdsNoBatch(base record.Offset) (bool, error) {
	f, err := o.l.env.FS.OpenFile(o.logName(base), os.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	sc := segment.NewScanner(f, 0, record.Pos(size))
	if sc.Next() {
		return false, nil
	}
	var d *segment.Damage
	if err := sc.Err(); err != nil && !errors.As(err, &d) {
		return false, err
	}
	return true, nil
}

// dropBehind removes the files behind the one being taken, in which the log is
// cut.
func (o *opening) dropBehind() error {
	for len(o.bases) > 1 {
		last := o.bases[len(o.bases)-1]
		if err := o.drop(last); err != nil {
			return err
		}
		o.bases = o.bases[:len(o.bases)-1]
	}
	return nil
}

func (o *opening) drop(base record.Offset) error {
	o.l.log.Warn("removing a segment behind the end of the log", "partition", o.l.name,
		"path", o.l.env.FS.Path(o.logName(base)))
	name := o.l.dir + "/" + segment.FileName(base)
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.LogSuffix} {
		if err := o.l.env.FS.Remove(name + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (o *opening) logName(base record.Offset) string {
	return o.l.dir + "/" + segment.FileName(base) + segment.LogSuffix
}
