package partition

import (
	"errors"
	"fmt"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Round is what one round makes durable of a log: everything that was appended
// when it began. Appends go on meanwhile and are the next round's. One at a time is
// under way, from BeginRound to End, and the next one is the same value; either the journal writes the bytes of its
// ranges down, or Sync has the segment files take them to the disk.
type Round struct {
	Ranges []Range // bytes that were not durable before, in order
	Next   record.Offset

	l        *Log
	names    int64
	segments []*segment.Segment // in order: the durable end is a contiguous one
	ends     []record.Pos
	cut      bool // the file has refused the end of it, which the journal takes back
}

// Range is a piece of a segment.
type Range struct {
	Base     record.Offset // of the segment
	From, To record.Pos
	log      *Log
	seg      *segment.Segment
}

// Read reads the range, as it stands in the file or will stand there. Nothing is checked:
// the bytes are the appender's, and whoever replays them finds out.
func (g *Range) Read(buf []byte) error { return g.log.read(g.seg, buf[:g.To-g.From], g.From) }

// place is a byte of the log: everything in front of it is durable.
type place struct {
	base record.Offset
	pos  record.Pos
}

// BeginRound begins a round. It returns nil where there is nothing to do: the log
// has failed or is gone, and who waits was told; or another round is under way,
// and Commit is called again when that has ended.
func (l *Log) BeginRound() *Round {
	l.roundWanted.Store(true)
	if !l.syncMu.TryLock() {
		return nil
	}
	r, _ := l.beginLocked()
	return r
}

// beginLocked begins a round under syncMu, which the end of the round unlocks.
func (l *Log) beginLocked() (*Round, error) {
	l.roundWanted.Store(false)
	err := l.Failed()
	if err == nil && l.gone.Load() {
		err = ErrClosed
	}
	if err != nil {
		l.giveUpLocked(err)
		return nil, err
	}
	if err := l.refusal(); err != nil { // no round had it
		if failed := l.Failed(); failed != nil { // meanwhile: bytes of it were left behind
			l.giveUpLocked(failed)
			return nil, failed
		}
		l.takeBack()
		return nil, err
	}
	r := &l.round
	r.l, r.Ranges, r.segments, r.ends = l, r.Ranges[:0], r.segments[:0], r.ends[:0]
	r.cut = false
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	r.Next, r.names = l.LogEnd(), l.names
	for _, s := range l.unfinished {
		r.add(s, s.Size())
	}
	r.add(l.active, l.active.Size()+record.Pos(l.tailSizeLocked()))
	l.lendLocked()
	return r, nil
}

func (r *Round) add(s *segment.Segment, size record.Pos) {
	r.segments, r.ends = append(r.segments, s), append(r.ends, size)
	g := Range{Base: s.Base(), To: size, log: r.l, seg: s}
	switch held := r.l.held; {
	case s.Base() < held.base:
		return
	case s.Base() == held.base:
		g.From = held.pos
	}
	if g.From < g.To {
		r.Ranges = append(r.Ranges, g)
	}
}

// Bytes is the length of all ranges.
func (r *Round) Bytes() int64 {
	var n int64
	for _, g := range r.Ranges {
		n += int64(g.To - g.From)
	}
	return n
}

// Sync has the files take the round to the disk: rolled segments, the active one,
// and the names of new files. It is what a round costs without the journal.
func (r *Round) Sync() error {
	if err := r.store(); err != nil {
		return &unstoredError{err}
	}
	for _, s := range r.segments {
		if err := s.Sync(); err != nil && !segment.IsRemoved(err) {
			return fmt.Errorf("%s: %w", s.Path(), err)
		}
	}
	return r.l.syncNames(r.names)
}

// store makes sure that the files have what the round has.
func (r *Round) store() error {
	last := len(r.segments) - 1
	if r.segments[last].Size() >= r.ends[last] {
		return nil
	}
	return r.l.Store()
}

// unstoredError says that the file of the active segment did not take the tail. That is
// no failed sync: nothing was told to be durable.
type unstoredError struct{ cause error }

func (e *unstoredError) Error() string { return e.cause.Error() }
func (e *unstoredError) Unwrap() error { return e.cause }

// End ends the round. Without an error the durable end rises, readers of a topic of
// level fsync see it, and appends that wait are acknowledged. With one the log is
// read-only from then on: a round is not tried again. But where only a file refused what
// was to be written to it, that is told to who waits, and the log goes on.
//
// False says that the round is not over: the journal has what a file refused. It has to
// write, before anything else, that the log ends where Ranges and Next say now, and to
// call End again.
func (r *Round) End(err error) bool {
	l := r.l
	if err == nil && !r.cut {
		if refused := r.store(); refused != nil {
			err = &unstoredError{refused}
		}
		if err != nil && l.Failed() == nil && !l.gone.Load() {
			r.cutShort()
			return false
		}
	}
	var unstored *unstoredError
	switch {
	case err == nil:
		r.done()
	case !errors.As(err, &unstored) || l.Failed() != nil:
		defer func() { l.giveUpLocked(l.Failed()) }() // also when the Logger panics
		l.fail(err)
	case l.gone.Load():
		l.giveUpLocked(ErrClosed)
	default:
		l.takeBack()
	}
	return true
}

// cutShort has the round end where the file of the active segment does. That stays so until
// the round is over: nothing is appended behind a tail that was refused, and no segment
// rolled.
func (r *Round) cutShort() {
	l, last := r.l, len(r.segments)-1
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	s := r.segments[last]
	r.cut, r.ends[last], r.Next = true, s.Size(), s.Next()
	r.Ranges = append(r.Ranges[:0], Range{Base: s.Base(), From: s.Size(), To: s.Size(), log: l, seg: s})
}

// done ends a round that is durable, and in the files.
func (r *Round) done() {
	l := r.l
	for i, s := range r.segments {
		s.Show(r.ends[i])
	}
	last := len(r.segments) - 1
	l.held = place{r.segments[last].Base(), r.ends[last]}
	raise(&l.durable, int64(r.Next))
	var behind []ack
	if r.cut {
		behind = l.dropTail()
	}
	l.publish(r.Next)
	l.stats.syncRounds.Add(1)
	next := r.Next // r is the next round's when this one has ended
	l.endLocked()
	l.durables.wake()
	l.acks.reached(next) // last: it calls others
	tellAll(behind)
}

// giveUpLocked ends a round that could not be done, or not begun, and tells who waits.
func (l *Log) giveUpLocked(err error) {
	l.endLocked()
	l.durables.wake()
	l.acks.fail(err)
}

// endLocked unlocks syncMu, and asks for the round that could not begin meanwhile.
func (l *Log) endLocked() {
	l.syncMu.Unlock()
	if l.roundWanted.Swap(false) {
		l.env.Journal.Commit(l)
	}
}
