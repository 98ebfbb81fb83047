package partition

import (
	"fmt"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
	"github.com/varvelog/varve/segment"
)

// rollBefore says whether b has to start a new segment: the active one would
// pass its size, its age, or what its index can hold.
func (w *writer) rollBefore(b *record.Batch) bool {
	more := w.l.tailSizeLocked() + w.bytes
	size := int64(w.seg.Size()) + more
	if size == 0 { // offsets that are kept may begin far above an empty segment
		return !w.seg.Fits(int64(b.Size()), b.LastOffset())
	}
	if size+int64(b.Size()) > w.cfg.SegmentBytes || w.seg.IndexFull() || !w.seg.Fits(more+int64(b.Size()), b.LastOffset()) {
		return true
	}
	facts := activeFacts(w.seg)
	if len(w.entries) > 0 {
		if facts.Next == facts.Base {
			facts.FirstTimestamp, facts.FirstAppend = w.entries[0].MaxTimestamp, w.now
		}
		facts.Next = b.BaseOffset
	}
	facts.MaxTimestamp = max(facts.MaxTimestamp, w.latest, b.MaxTimestamp) // none in the tail has more: it would be in a segment of its own
	return retention.RollDue(facts, w.cfg.SegmentAge, w.now)
}

// roll makes a new active segment for b to start. Where that cannot be done the
// log goes on with the old one, if b can be there at all.
func (w *writer) roll(b *record.Batch) error {
	err := w.l.rollLocked(b.BaseOffset)
	if err != nil && w.l.refusalLocked() == nil && w.seg.Fits(int64(b.Size()), b.LastOffset()) {
		w.l.log.Warn("cannot roll, going on with the segment", "partition", w.l.name, "segment", w.seg.Path(), "err", err)
		return nil
	}
	w.seg = w.l.active
	return err
}

// rollLocked ends the active segment and makes a new one at base, where the log
// ends. It costs the making of one file: syncing and indexing the old segment is
// left to Tidy.
func (l *Log) rollLocked(base record.Offset) error {
	old := l.active
	if old.Size() == 0 && old.Base() >= base { // above it, when a batch with a gap in front is on its way
		return nil
	}
	if err := l.storeLocked(); err != nil {
		return err
	}
	s, err := segment.Create(l.env.FS, l.env.Files, l.dir, base, l.segmentOptions())
	if err != nil {
		return fmt.Errorf("roll %s at offset %d: %w", l.name, base, err)
	}
	old.Roll()
	l.unfinished = append(l.unfinished, old)
	l.active = s
	l.listMu.Lock()
	l.appendSegmentLocked(s)
	l.showListLocked()
	l.listMu.Unlock()
	l.env.Runner.Tidy(l)
	return nil
}

// settleLocked makes everything appended so far durable. appendMu is let go
// meanwhile; the active segment, which is empty, stays what it is.
func (l *Log) settleLocked() error {
	if !l.Unsynced() {
		return l.Failed()
	}
	l.appendMu.Unlock()
	defer l.appendMu.Lock()
	return l.env.Journal.Settle(l)
}

func (l *Log) segmentOptions() segment.Options {
	cfg := l.Config()
	return segment.Options{Index: cfg.Index, Dense: !l.sparse.Load(), Bytes: cfg.SegmentBytes}
}

// RollIfDue rolls the active segment when segment.ms asks for it.
func (l *Log) RollIfDue() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.closed.Load() || l.Failed() != nil {
		return nil
	}
	if !retention.RollDue(activeFacts(l.active), l.Config().SegmentAge, l.env.Now()) {
		return nil
	}
	return l.rollLocked(l.LogEnd())
}

// Tidy finishes rolled segments: each is synced and indexed, and noted as
// needing no recovery. Only one goroutine at a time does it; cut short anywhere,
// the next open does it again.
func (l *Log) Tidy() error {
	l.tidyMu.Lock()
	defer l.tidyMu.Unlock()
	for {
		s, names := l.nextUnfinished()
		if s == nil || l.gone.Load() {
			return nil
		}
		if err := l.syncNames(names); err != nil {
			l.fail(err)
			return err
		}
		seal, err := s.Finish()
		if err != nil && !segment.IsRemoved(err) {
			l.noteFailure(s)
			return fmt.Errorf("finish %s: %w", s.Path(), err)
		}
		if err == nil {
			s.Show(s.Size()) // no round will: the next one may have begun without it
			if err := l.seals.add(seal, l.Start()); err != nil {
				l.log.Warn("cannot note a sealed segment: the next start after a crash reads it again",
					"partition", l.name, "segment", s.Path(), "err", err)
			}
		}
		l.appendMu.Lock()
		l.unfinished = l.unfinished[1:]
		l.appendMu.Unlock()
	}
}

func (l *Log) nextUnfinished() (s *segment.Segment, names int64) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if len(l.unfinished) == 0 {
		return nil, 0
	}
	return l.unfinished[0], l.names
}
