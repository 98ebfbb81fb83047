package partition

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/twin"
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

// listSegments finds the log files, and names what does not belong here.
func (l *Log) listSegments() ([]record.Offset, error) {
	entries, err := l.env.FS.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		l.log.Error("partition directory is missing, making it anew", "partition", l.name, "dir", l.env.FS.Path(l.dir))
		return nil, l.env.FS.Mkdir(l.dir)
	}
	if err != nil {
		return nil, err
	}
	var bases []record.Offset
	for _, e := range entries {
		base, ok := parseLogName(e.Name())
		switch {
		case ok && e.Type().IsRegular():
			bases = append(bases, base)
		case ok || !ours(e.Name()):
			l.log.Warn("ignoring what does not belong into a partition", "partition", l.name,
				"path", l.env.FS.Path(l.dir+"/"+e.Name()))
		case strings.HasSuffix(e.Name(), tmpSuffix):
			l.env.FS.Remove(l.dir + "/" + e.Name())
		}
	}
	return bases, nil // names of 20 digits are sorted as numbers
}

// parseLogName reads the base offset out of the name of a log file.
func parseLogName(name string) (record.Offset, bool) {
	digits, ok := strings.CutSuffix(name, segment.LogSuffix)
	if !ok || len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return record.Offset(n), err == nil
}

// ours says whether a name is one that varve, or Kafka, gives to a file of a
// partition that is not a log file.
func ours(name string) bool {
	switch strings.TrimSuffix(strings.TrimSuffix(name, tmpSuffix), twin.CopySuffix) {
	case sealsName, metadataName, epochsName, "partition.metadata":
		return true
	}
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, ".snapshot", ".txnindex"} {
		if _, ok := parseLogName(strings.TrimSuffix(name, suffix) + segment.LogSuffix); ok && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
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
	if !o.clean && (end > 0 || o.cp != nil) {
		l.epoch++
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

// load reads the metadata; a log that was never trimmed has none.
func (m *metadata) load(l *Log) error {
	name := l.dir + "/" + metadataName
	doc, err := twin.Load(l.env.FS, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if doc.Mended != "" {
		l.log.Error("damaged metadata was restored from its copy", "partition", l.name, "what", doc.Mended)
	}
	body, err := decodeMetadata(doc.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", l.env.FS.Path(name), err)
	}
	m.generation, m.body = doc.Generation, body
	return nil
}
