package partition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Stop says how an engine was left.
type Stop uint8

const (
	// Crashed: what the last checkpoint does not cover may be torn.
	Crashed Stop = iota
	// Stopped cleanly, and the checkpoint of that time is lost: nothing is torn.
	Stopped
	// Clean: as the checkpoint says, and nothing was written after it.
	Clean
)

// Open takes up the log in a directory. cp is what the last checkpoint kept of
// it, nil where there is none; replay what the journal put back behind that, nil
// where it had nothing; claimed what Claim returned after a stop that was Clean, nil
// after any other.
//
// After a clean stop it and Claim cost a listing and the reading of three small files.
// After any other it reads what the checkpoint does not cover, cuts a torn end,
// makes what it keeps durable, and raises the leader epoch.
func Open(env Env, name, dir string, cfg Config, cp *Checkpoint, replay *Replay, claimed *Claimed) (*Log, error) {
	l := newLog(env, name, dir)
	l.idle.L = &l.queueMu
	l.config.Store(&cfg)
	l.tree = newTree()
	l.seals = sealFile{fs: env.FS, name: dir + "/" + sealsName}
	o := opening{l: l, replay: replay, cp: cp, clean: claimed != nil && cp != nil}
	if claimed != nil {
		o.claimed = *claimed
	}
	if err := o.run(); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return l, nil
}

func newLog(env Env, name, dir string) *Log {
	return &Log{name: name, dir: dir, env: env, log: env.Logger}
}

// opening is one call of Open.
type opening struct {
	l       *Log
	cp      *Checkpoint
	replay  *Replay
	clean   bool
	claimed Claimed

	bases   []record.Offset // of segments that are not taken yet, in order
	seals   map[record.Offset]segment.Seal
	missing map[record.Offset]bool // of bases, those that are known by their seal alone
	known   segment.State          // where the last checkpoint left the active segment
	given   record.Offset          // what is below was given out, whatever the files say
	durable record.Offset          // what is below was on stable storage
	list    []*segment.Segment

	unnamed bool // names were made or removed, and that may not be durable
	damaged bool // the segments are not whole, and what is known of them now is to be kept
}

func (o *opening) run() error {
	l := o.l
	listed, err := o.look()
	if err != nil {
		return err
	}
	l.tidyListed(listed)
	o.bases = listed.bases
	if err := o.loadMetadata(); err != nil {
		return err
	}
	l.seals.id, l.seals.taken = l.meta.body.ID, l.meta.body.Taken
	if len(listed.swaps) > 0 || l.meta.body.Swapping {
		if err := o.swap(listed.swaps); err != nil {
			return err
		}
	}
	if o.seals, err = l.seals.load(); err != nil {
		return err
	}
	if l.seals.foreign {
		l.log.Warn("seals are those of another log, reading the segments instead", "partition", l.name,
			"path", l.env.FS.Path(l.seals.name))
	}
	o.findEnds()
	if err := o.dropLeftovers(); err != nil {
		return err
	}
	if !o.clean {
		if err := checkNames(l.env.FS, l.dir, o.bases, o.seals, &l.meta.body); err != nil {
			return err
		}
	}
	o.addMissing()
	if err := o.dropEmptyTail(); err != nil {
		return err
	}
	for len(o.bases) > 0 {
		if err := o.next(); err != nil {
			return err
		}
	}
	return o.finish()
}

// look lists the directory and reads the metadata, unless Claim has.
func (o *opening) look() (*listing, error) {
	l := o.l
	if o.claimed.listed != nil {
		l.meta = o.claimed.meta
		return o.claimed.listed, nil
	}
	listed, err := l.listSegments()
	if err == nil {
		err = l.meta.load(l)
	}
	return &listed, err
}

// loadMetadata finds the log start, and whether the checkpoint speaks of these files.
func (o *opening) loadMetadata() error {
	l := o.l
	if l.meta.generation == 0 {
		sealed, err := l.seals.exists()
		if err != nil {
			return err
		}
		if o.cp != nil || sealed {
			return fmt.Errorf("%s and its copy are missing: bring back one of them", l.env.FS.Path(l.dir+"/"+MetadataName))
		}
		if err := l.takeOver(o.bases, nil); err != nil {
			return err
		}
	}
	if l.meta.body.Stopped != 0 {
		if _, err := l.claim(o.bases, o.cp, Left{}, false); err != nil {
			return err
		}
		o.clean = false
	}
	body := &l.meta.body
	l.taken = body.Taken
	l.start.Store(int64(body.LogStart))
	l.sparse.Store(body.Sparse)
	if o.cp != nil && o.cp.Taken == body.Taken {
		o.known = o.cp.Active
		raise(&l.start, int64(o.cp.Start))
	} else {
		o.clean = false
	}
	return nil
}

// findEnds finds what is known of the end, without a look at the files.
func (o *opening) findEnds() {
	o.given = o.known.Next
	if o.cp != nil {
		o.given = o.cp.Active.Next // also of other files
	}
	if o.replay != nil {
		o.given = max(o.given, o.replay.durable)
	}
	o.durable = max(o.given, o.l.meta.body.Durable)
	if o.durable != everything {
		o.given = o.durable
	}
}

// addMissing adds the segments that are known to have been there, and are not:
// reading one says what is missing. A seal that speaks of offsets which a file
// claims as well is out of date; the file counts.
func (o *opening) addMissing() {
	o.missing = make(map[record.Offset]bool)
	files := o.bases
	for _, seal := range o.seals {
		i, there := slices.BinarySearch(files, seal.Base)
		covered := there || i < len(files) && files[i] < seal.Next
		if !covered && seal.Next > o.l.Start() && seal.Size > 0 {
			o.missing[seal.Base] = true
		}
	}
	o.bases = slices.Concat(files, slices.Collect(maps.Keys(o.missing)))
	slices.Sort(o.bases)
}

// reached is the offset up to which the segments taken so far go.
func (o *opening) reached() record.Offset {
	reached := o.l.Start()
	if n := len(o.list); n > 0 {
		reached = max(reached, o.list[n-1].Next())
	}
	return reached
}

// next takes the first of the segments that are left, unless the log ends here.
func (o *opening) next() error {
	if len(o.bases) > 1 && o.bases[1] <= o.l.Start() {
		o.doom(o.bases[0], o.bases[1])
		o.bases = o.bases[1:]
		return nil
	}
	if cut, err := o.cutAtGap(); cut || err != nil {
		return err
	}
	if err := o.take(o.bases[0]); err != nil {
		return err
	}
	o.bases = o.bases[1:]
	return nil
}

// doom has a segment below the log start removed: a deletion was cut short.
func (o *opening) doom(base, next record.Offset) {
	l := o.l
	seal := segment.Seal{Base: base, Next: next}
	l.doomed = append(l.doomed, segment.OpenSealed(l.env.FS, l.env.Files, l.dir, seal, l.segmentOptions()))
}

// take opens the segment that starts at base, the first of those that are left.
func (o *opening) take(base record.Offset) error {
	if seal, ok := o.seals[base]; ok {
		return o.takeSealed(seal)
	}
	l := o.l
	st := segment.State{Base: base}
	if base == o.known.Base && o.known.Size > 0 {
		st = o.known
	}
	if o.clean && base == o.known.Base && st.Size > 0 && o.claimed.whole {
		return o.add(segment.OpenActive(l.env.FS, l.env.Files, l.dir, st, l.segmentOptions()))
	}
	until := record.Offset(0)
	if len(o.bases) > 1 {
		until = o.bases[1]
	}
	s, torn, short, err := segment.Recover(l.env.FS, l.env.Files, l.dir, st, until, l.segmentOptions())
	if err != nil {
		return err
	}
	if short {
		l.log.Error("segment is shorter than it was", "partition", l.name, "path", s.Path(), "expected", st.Size)
		o.damaged = true
		s.Roll()
	} else if torn, err = o.judge(s, torn); err != nil {
		return err
	}
	from := st.Size
	if put := o.replay.restored(base); put != nil {
		from = min(from, put.from)
	}
	if err := s.Settle(from, torn); err != nil {
		return err
	}
	o.unnamed = o.unnamed || st.Size == 0 && s.Size() > 0
	if len(o.bases) > 1 {
		s.Roll()
	}
	if s.Sealed() {
		l.unfinished = append(l.unfinished, s)
	}
	return o.add(s)
}

func (o *opening) takeSealed(seal segment.Seal) error {
	l := o.l
	s := segment.OpenSealed(l.env.FS, l.env.Files, l.dir, seal, l.segmentOptions())
	if o.missing[seal.Base] {
		if seal.Base < o.reached() {
			return nil // out of date, see addMissing
		}
		l.log.Error("segment is missing", "partition", l.name, "path", s.Path(), "from", seal.Base, "to", seal.Next)
	}
	return o.add(s)
}

// add puts a segment into the list. It refuses a directory in which two files
// claim an offset: which of them is right is not for a program to guess.
func (o *opening) add(s *segment.Segment) error {
	if n := len(o.list); n > 0 {
		if prev := o.list[n-1]; prev.Next() > s.Base() {
			return fmt.Errorf("%s and %s both claim offsets from %d to %d: move one of them away",
				prev.Path(), s.Path(), s.Base(), min(prev.Next(), max(s.Next(), s.Base()+1))-1)
		}
	}
	o.list = append(o.list, s)
	return nil
}

// finish sets the offsets, makes sure that there is an active segment, and puts
// the list in place.
func (o *opening) finish() error {
	l := o.l
	end := max(l.Start(), o.given)
	epoch := o.known.LastEpoch
	if o.cp != nil {
		epoch = max(epoch, o.cp.Epoch)
		l.lastTime.Store(o.cp.LastTime)
	}
	for _, s := range o.list {
		end = max(end, s.Next())
		epoch = max(epoch, s.LastEpoch())
		raise(&l.lastTime, s.LastAppend())
		l.appendSegmentLocked(s)
	}
	if l.meta.body.Durable == everything {
		body := l.meta.body
		body.Durable = end
		if err := l.meta.save(l, body); err != nil {
			return err
		}
	}
	l.epoch = epoch
	if l.recovered = !o.clean; l.recovered {
		l.epoch++ // also of an empty log: readers may have seen what is gone
	}
	if o.unnamed || o.replay != nil && o.replay.made { // a killed process may have made a file and not synced its name
		if err := l.env.FS.SyncDir(l.dir); err != nil {
			return err
		}
	}
	if reached := l.meta.body.Gap.past(o.reached()); reached < end {
		o.damaged = true
		l.log.Error("offsets are missing", "partition", l.name, "from", reached, "to", end)
	}
	if err := o.ensureActive(end); err != nil {
		return err
	}
	l.logEnd.Store(int64(end))
	l.durable.Store(int64(end))
	l.held = place{l.active.Base(), l.active.Size()}
	l.published.Store(int64(end))
	l.showListLocked()
	l.removeBelowStart()
	if o.damaged {
		o.keepFound()
	}
	if len(l.unfinished) > 0 {
		l.env.Runner.Tidy(l)
	}
	return nil
}

// keepFound has the seals tell what was found of segments that are not whole. The
// journal, and where the last checkpoint left off, helped to find it, and will not the
// next time; what is served now has to be then.
func (o *opening) keepFound() {
	l := o.l
	err := l.Tidy()
	if err == nil {
		err = l.seals.sync() // and the name of the index, which leads past the damage
	}
	if err != nil {
		l.log.Warn("cannot note what is left of a damaged segment: the next start may find less", "partition", l.name, "err", err)
	}
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
