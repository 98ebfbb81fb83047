package partition

import (
	"errors"
	"io/fs"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// isDamage tells damage from what a crash took, for a log that stops making sense
// at an offset, in front of the segments that are left behind that place. It is
// damage where the offset is known to have been on stable storage: by the last
// checkpoint or the journal, because a segment behind it was finished, or because
// nothing was torn when the log was taken up at a clean stop. Above those, on a topic
// that acknowledges before it syncs, what is behind the place is as uncertain as
// the place itself: a crash takes a suffix. On a topic that syncs first, batches
// in a later file say that everything before was durable: see writer.flush.
func (o *opening) isDamage(at record.Offset, behind []record.Offset) bool {
	if at < o.durable {
		return true
	}
	for _, later := range behind {
		if _, sealed := o.seals[later]; sealed {
			return true
		}
	}
	return len(behind) > 0 && o.l.Config().Level == Fsync
}

// cutAtGap looks at the offsets between what was taken so far and the next
// segment. Where there are any and it is no damage, a crash has taken the name of
// a file: the log is cut there.
func (o *opening) cutAtGap() (cut bool, err error) {
	l, from, to := o.l, o.reached(), o.bases[0]
	if to <= from || l.sparse.Load() {
		return false, nil
	}
	if o.isDamage(from, o.bases) {
		o.damaged = true
		l.log.Error("offsets are missing", "partition", l.name, "from", from, "to", to)
		return false, nil
	}
	return true, o.dropBehind(0)
}

// judge says what becomes of a segment that was read to a torn place, or to the
// end of its file: damage is kept for readers to be told of, a torn end is to be
// cut, and with it go the segments behind.
func (o *opening) judge(s *segment.Segment, torn *segment.Torn) (*segment.Torn, error) {
	l, behind := o.l, o.bases[1:]
	early := len(behind) > 0 && s.Next() < behind[0] && !l.sparse.Load()
	switch {
	case torn == nil && !early:
		return nil, nil
	case o.isDamage(s.Next(), behind):
		if torn == nil {
			o.damaged = true
			return nil, nil // the gap in front of the next segment says it
		}
		next := o.nextBase(s.Base(), behind)
		if next < 0 || next > l.Start() { // or it was removed, and a power cut has brought it back
			l.log.Error("segment is damaged", "partition", l.name, "path", s.Path(), "position", torn.At, "reason", torn.Reason)
		}
		s.Roll()
		o.damaged = true
		var places []index.Entry
		if put := o.replay.restored(s.Base()); put != nil {
			places = put.places
		}
		return nil, s.Adopt(next, places)
	case torn != nil:
		l.log.Warn("cut the torn end of a segment", "partition", l.name, "path", s.Path(),
			"position", torn.At, "bytes", torn.Bytes, "next offset", s.Next(), "reason", torn.Reason)
	}
	return torn, o.dropBehind(1)
}

// nextBase is where a damaged segment ends: where the next one starts; negative when
// nothing tells.
func (o *opening) nextBase(base record.Offset, behind []record.Offset) record.Offset {
	switch {
	case len(behind) > 0:
		return behind[0]
	case base < o.known.Base:
		return o.known.Base
	case o.durable == everything:
		return -1
	}
	return o.durable
}

// dropEmptyTail removes the last files while they hold no batch at all and are
// not known to have held one: a roll of which only the name reached the disk.
func (o *opening) dropEmptyTail() error {
	for n := len(o.bases); n > 0; n-- {
		base := o.bases[n-1]
		_, sealed := o.seals[base]
		if sealed || base < o.durable || base <= o.known.Base || (n == 1 && base <= o.reached()) {
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
	heads, err := firstBatches(o.l.env.FS, o.logName(base), 1)
	return len(heads) == 0, err
}

// dropBehind removes the files of all segments that are left but the first keep:
// the log is cut in front of them.
func (o *opening) dropBehind(keep int) error {
	for len(o.bases) > keep {
		last := len(o.bases) - 1
		if err := o.drop(o.bases[last]); err != nil {
			return err
		}
		o.bases = o.bases[:last]
	}
	return nil
}

func (o *opening) drop(base record.Offset) error {
	if info, err := o.l.env.FS.Stat(o.logName(base)); err == nil && info.Size() > 0 {
		o.l.log.Warn("removing a segment behind the end of the log", "partition", o.l.name,
			"path", o.l.env.FS.Path(o.logName(base)), "bytes", info.Size())
	}
	o.unnamed = true // it must not come back when its offsets are in another file
	return o.remove(base)
}

// remove removes the files of a segment.
func (o *opening) remove(base record.Offset) error {
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
