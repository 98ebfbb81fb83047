package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
	"github.com/varvelog/varve/segment"
)

// Trim drops every record below before and returns the log start, which is
// before or, where more was gone already, above. It is durable when it returns;
// whole segments below are deleted.
func (l *Log) Trim(before record.Offset) (record.Offset, error) {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if l.closed.Load() {
		return 0, ErrClosed
	}
	start, end := l.Start(), l.End()
	if before < 0 || before > end {
		return start, &OutOfRangeError{Asked: before, Start: start, End: end}
	}
	if before > start {
		if err := l.moveStart(before); err != nil {
			return start, err
		}
		l.stats.trims.Add(1)
	}
	if _, err := l.rollAt(before); err != nil {
		return l.Start(), err
	}
	l.removeBelowStart()
	return l.Start(), nil
}

// moveStart makes a new log start durable, then has readers see it.
func (l *Log) moveStart(to record.Offset) error {
	body := l.meta.body
	body.LogStart = to
	if err := l.meta.save(l, body); err != nil {
		return fmt.Errorf("move the log start of %s to %d: %w", l.name, to, err)
	}
	raise(&l.start, int64(to))
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.trimEpochsLocked(to)
	return nil
}

// rollAt rolls the active segment if the log ends at end, so that all there is
// below can go; false when it has grown beyond.
func (l *Log) rollAt(end record.Offset) (bool, error) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.LogEnd() != end || l.Failed() != nil {
		return false, nil
	}
	return true, l.rollLocked(end)
}

// Retain applies the limits of the log: segments that age or size says go, go,
// and whatever lies below the log start. It returns how many segments went.
func (l *Log) Retain() (int, error) {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if l.closed.Load() {
		return 0, nil
	}
	cfg := l.Config()
	if cfg.RetentionAge >= 0 {
		l.noteClock()
	}
	facts := l.factsLocked()
	n := retention.Expired(facts, retention.Limits{
		Age: cfg.RetentionAge, Bytes: cfg.RetentionBytes, LogStart: l.Start(),
	}, l.env.Now())
	return l.removeFirst(facts, n)
}

// RemoveBelow removes the segments in front of an offset, but for the active one:
// for a budget that spans logs. It returns how many went.
func (l *Log) RemoveBelow(end record.Offset) (int, error) {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if l.closed.Load() {
		return 0, nil
	}
	facts, n := l.factsLocked(), 0
	for n < len(facts)-1 && facts[n].Next <= end && !facts[n].Held {
		n++
	}
	return l.removeFirst(facts, n)
}

func (l *Log) removeFirst(facts []retention.Segment, n int) (int, error) {
	// Nothing goes that is not durable: a segment above the durable end may hold
	// what a waiting publisher was not told of yet.
	for n > 0 && facts[n-1].Next > l.End() {
		n--
	}
	if n == len(facts) { // the active one too, unless it has grown meanwhile
		rolled, err := l.rollAt(facts[n-1].Next)
		if err != nil {
			return 0, err
		}
		if !rolled {
			n--
		}
	}
	if n > 0 && facts[n-1].Next > l.Start() {
		if err := l.moveStart(facts[n-1].Next); err != nil {
			return 0, err
		}
	}
	return l.removeBelowStart(), nil
}

// AllowGaps makes the log one whose offsets may have gaps, for good: a jump is
// then no damage.
func (l *Log) AllowGaps() error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	if l.sparse.Load() {
		return nil
	}
	body := l.meta.body
	body.Sparse = true
	if err := l.meta.save(l, body); err != nil {
		return fmt.Errorf("allow gaps in %s: %w", l.name, err)
	}
	l.sparse.Store(true)
	return nil
}

// removeBelowStart takes the segments that lie wholly below the log start out of
// the list and deletes their files. One that cannot be deleted is kept in mind
// and tried again at the next pass; readers do not see it any more.
func (l *Log) removeBelowStart() int {
	start, n := l.Start(), 0
	for _, s := range l.segments() {
		if !s.Sealed() || s.Next() > start {
			break
		}
		n++
	}
	if n > 0 {
		l.listMu.Lock()
		l.doomed = append(l.doomed, l.removeFirstLocked(n)...)
		l.showListLocked()
		l.listMu.Unlock()
		l.stats.removed(l.doomed[len(l.doomed)-n:])
	}
	var kept []*segment.Segment
	var errs []error
	for _, s := range l.doomed {
		if err := s.Remove(); err != nil {
			kept = append(kept, s)
			errs = append(errs, err)
		}
	}
	l.doomed = kept
	if len(errs) > 0 {
		l.log.Warn("cannot delete segments, trying again later", "partition", l.name,
			"segments", len(kept), "err", errors.Join(errs...))
	}
	return n
}

// Facts are the segments as retention sees them, oldest first, the active one
// last.
func (l *Log) Facts() []retention.Segment {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	return l.factsLocked()
}

func (l *Log) factsLocked() []retention.Segment {
	from := record.Offset(math.MaxInt64)
	if l.keep != nil {
		from = l.keep()
	}
	list := l.segments()
	out := make([]retention.Segment, len(list))
	for i, s := range list {
		out[i] = facts(s)
		out[i].Held = out[i].Next > from
	}
	return out
}
