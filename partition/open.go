package partition

import (
	"fmt"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Open takes up the log in a directory. cp is what the last checkpoint kept of
// it, nil where there is none; clean says that nothing was written after it.
//
// After a clean stop this costs a listing and the reading of one small file.
// After any other it reads what the checkpoint does not cover, cuts a torn end,
// makes what it keeps durable, and raises the leader epoch.
func Open(env Env, name, dir string, cfg Config, cp *Checkpoint, clean bool) (*Log, error) {
	l := &Log{name: name, dir: dir, env: env, log: env.Logger}
	l.idle.L = &l.queueMu
	l.config.Store(&cfg)
	l.tree = newTree()
	l.seals = sealFile{fs: env.FS, name: dir + "/" + sealsName}
	o := opening{l: l, cp: cp, clean: clean && cp != nil}
	if err := o.run(); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return l, nil
}

// opening is one call of Open.
type opening struct {
	l     *Log
	cp    *Checkpoint
	clean bool

	bases []record.Offset
	seals map[record.Offset]segment.Seal
	known segment.State // where the last checkpoint left the active segment
	list  []*segment.Segment
}

func (o *opening) run() error {
	l := o.l
	var err error
	if o.bases, err = l.listSegments(); err != nil {
		return err
	}
	if err := o.loadStart(); err != nil {
		return err
	}
	if o.seals, err = readSeals(l.env.FS, l.seals.name); err != nil {
		return err
	}
	l.seals.count = len(o.seals)
	l.seals.live = len(o.seals)
	if o.cp != nil {
		o.known = o.cp.Active
	}
	o.addMissing()
	if err := o.dropEmptyTail(); err != nil {
		return err
	}
	for len(o.bases) > 0 {
		if err := o.take(o.bases[0]); err != nil {
			return err
		}
		o.bases = o.bases[1:]
	}
	if err := o.checkOverlap(); err != nil {
		return err
	}
	return o.finish()
}

// loadStart finds the log start: in the checkpoint after a clean stop, in the
// metadata else.
func (o *opening) loadStart() error {
	l := o.l
	if o.clean {
		l.start.Store(int64(o.cp.Start))
		l.sparse.Store(o.cp.Sparse)
		return nil
	}
	if err := l.meta.load(l); err != nil {
		return err
	}
	l.start.Store(int64(l.meta.body.LogStart))
	l.sparse.Store(l.meta.body.Sparse)
	return nil
}

// addMissing puts a segment that is known to have been there, and is not, into
// the list all the same: reading it says what is missing.
func (o *opening) addMissing() {
	have := make(map[record.Offset]bool, len(o.bases))
	for _, b := range o.bases {
		have[b] = true
	}
	for base, seal := range o.seals {
		if have[base] || seal.Next <= o.l.Start() || seal.Size == 0 {
			continue
		}
		s := segment.OpenSealed(o.l.env.FS, o.l.env.Files, o.l.dir, seal, o.l.segmentOptions())
		o.l.log.Error("segment is missing", "partition", o.l.name, "path", s.Path(), "from", seal.Base, "to", seal.Next)
		o.list = append(o.list, s)
	}
}

// take opens the log file that starts at base, the first of those that are left.
func (o *opening) take(base record.Offset) error {
	l, last := o.l, len(o.bases) == 1
	if seal, ok := o.seals[base]; ok {
		o.list = append(o.list, segment.OpenSealed(l.env.FS, l.env.Files, l.dir, seal, l.segmentOptions()))
		return nil
	}
	st := segment.State{Base: base}
	if base == o.known.Base && o.cp != nil {
		st = o.known
	}
	if o.clean && base == o.known.Base && st.Size > 0 && o.activeIsWhole() {
		o.list = append(o.list, segment.OpenActive(l.env.FS, l.env.Files, l.dir, st, l.segmentOptions()))
		return nil
	}
	s, torn, short, err := segment.Recover(l.env.FS, l.env.Files, l.dir, st, l.segmentOptions())
	if err != nil {
		return err
	}
	switch {
	case short:
		l.log.Error("segment is shorter than it was", "partition", l.name, "path", s.Path(), "expected", st.Size)
		s.Roll()
	case torn != nil && o.isDamage(base):
		l.log.Error("segment is damaged", "partition", l.name, "path", s.Path(), "position", torn.At, "reason", torn.Reason)
		if err := s.Adopt(o.nextBase(base)); err != nil {
			return err
		}
		torn = nil
	case torn != nil:
		l.log.Warn("cut the torn end of a segment", "partition", l.name, "path", s.Path(),
			"position", torn.At, "bytes", torn.Bytes, "next offset", s.Next(), "reason", torn.Reason)
		if err := o.dropBehind(); err != nil {
			return err
		}
		last = true
	}
	if !short {
		if err := s.Settle(st.Size, torn); err != nil {
			return err
		}
	}
	if !last && !s.Sealed() {
		s.Roll()
	}
	if s.Sealed() {
		l.unfinished = append(l.unfinished, s)
	}
	o.list = append(o.list, s)
	return nil
}

// activeIsWhole says whether the file of the active segment has the length that
// it was left with at the clean stop.
func (o *opening) activeIsWhole() bool {
	info, err := o.l.env.FS.Stat(o.l.dir + "/" + segment.FileName(o.known.Base) + segment.LogSuffix)
	return err == nil && info.Size() == int64(o.known.Size)
}

// checkOverlap refuses a directory in which two files claim an offset: which of
// them is right is not for a program to guess.
func (o *opening) checkOverlap() error {
	tree := newTree()
	for _, s := range o.list {
		tree.ReplaceOrInsert(item{base: s.Base(), seg: s})
	}
	var prev *segment.Segment
	var err error
	tree.Ascend(func(it item) bool {
		if prev != nil && prev.Next() > it.base {
			err = fmt.Errorf("%s and %s both claim offsets from %d to %d: move one of them away",
				prev.Path(), it.seg.Path(), it.base, min(prev.Next(), max(it.seg.Next(), it.base+1))-1)
			return false
		}
		prev = it.seg
		return true
	})
	o.list = o.list[:0]
	tree.Ascend(func(it item) bool {
		o.list = append(o.list, it.seg)
		return true
	})
	return err
}

// finish sets the offsets, makes sure that there is an active segment, and puts
// the list in place.
func (o *opening) finish() error {
	l := o.l
	end := max(l.Start(), o.known.Next)
	epoch := o.known.LastEpoch
	if o.cp != nil {
		epoch = max(epoch, o.cp.Epoch)
		l.lastTime = o.cp.LastTime
	}
	for _, s := range o.list {
		end = max(end, s.Next())
		epoch = max(epoch, s.LastEpoch())
		l.lastTime = max(l.lastTime, s.LastAppend())
		l.appendSegmentLocked(s)
	}
	l.start.Store(int64(max(l.Start(), o.firstAbove())))
	l.epoch = epoch
	if !o.clean {
		l.epoch++ // also of an empty log: readers may have seen what is gone
	}
	if err := o.ensureActive(end); err != nil {
		return err
	}
	l.newName = l.active.Size() == 0
	l.logEnd.Store(int64(end))
	l.durable.Store(int64(end))
	l.published.Store(int64(end))
	l.showListLocked()
	if len(l.unfinished) > 0 {
		l.env.Runner.Tidy(l)
	}
	return nil
}

// firstAbove is the log start that the files tell where no metadata does: a
// directory that was copied from a Kafka broker has none.
func (o *opening) firstAbove() record.Offset {
	if o.l.meta.generation > 0 || o.cp != nil || len(o.list) == 0 {
		return 0
	}
	return o.list[0].Base()
}

// ensureActive makes the last segment the active one, or a new one at end where
// the last may not be appended to.
func (o *opening) ensureActive(end record.Offset) error {
	l := o.l
	if n := len(o.list); n > 0 {
		if s := o.list[n-1]; !s.Sealed() && s.Next() == end {
			l.active = s
			return nil
		} else if !s.Sealed() {
			s.Roll()
			l.unfinished = append(l.unfinished, s)
		}
	}
	l.active = segment.OpenActive(l.env.FS, l.env.Files, l.dir, segment.State{Base: end}, l.segmentOptions())
	l.appendSegmentLocked(l.active)
	return nil
}
