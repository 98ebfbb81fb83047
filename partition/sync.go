package partition

import (
	"fmt"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// SyncRound makes everything appended so far durable: rolled segments, the
// active one, and the names of new files. Then the durable end rises, readers of
// a topic of level fsync see it, and waiting appends are acknowledged. Appends go
// on meanwhile and are the next round's.
//
// A failed round is not tried again: the log is read-only from then on.
func (l *Log) SyncRound() error {
	end, err := l.round()
	if err != nil {
		l.acks.fail(err)
		return err
	}
	l.acks.reached(end)
	return nil
}

// round is SyncRound but for the acknowledgements, for which no lock may be held.
func (l *Log) round() (end record.Offset, err error) {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	switch {
	case l.Failed() != nil:
		return 0, l.Failed()
	case l.gone.Load():
		return 0, ErrClosed
	}
	r := l.beginRound()
	for _, s := range r.segments {
		if err := s.Sync(); err != nil && !segment.IsRemoved(err) {
			l.fail(fmt.Errorf("%s: %w", s.Path(), err))
			return 0, l.Failed()
		}
	}
	if err := l.syncNames(r.names); err != nil {
		l.fail(err)
		return 0, l.Failed()
	}
	for i, s := range r.segments {
		s.Show(r.ends[i])
	}
	raise(&l.durable, int64(r.end))
	l.publish(r.end)
	l.stats.syncRounds.Add(1)
	return r.end, nil
}

// round is what one SyncRound covers.
type round struct {
	end      record.Offset
	segments []*segment.Segment // in order: the durable end is a contiguous one
	ends     []record.Pos
	names    int64
}

func (l *Log) beginRound() round {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	r := round{end: l.LogEnd(), names: l.names}
	for _, s := range l.unfinished {
		r.segments = append(r.segments, s)
		r.ends = append(r.ends, s.Size())
	}
	r.segments = append(r.segments, l.active)
	r.ends = append(r.ends, l.active.Size())
	return r
}

// syncNames makes the names of the first n files durable, unless they are. Only
// who has seen that happen may count on it: another goroutine that is about to
// do it is not enough.
func (l *Log) syncNames(n int64) error {
	if l.durableNames.Load() >= n {
		return nil
	}
	if err := l.env.FS.SyncDir(l.dir); err != nil {
		return err
	}
	raise(&l.durableNames, n)
	return nil
}

// Unsynced says whether a power cut could take something.
func (l *Log) Unsynced() bool { return l.DurableEnd() < l.LogEnd() }

// FlushDue says, on level interval, that something has waited for a sync long
// enough. The answer is given once an interval.
func (l *Log) FlushDue() bool {
	cfg := l.Config()
	if cfg.Level != Interval || !l.Unsynced() {
		return false
	}
	now, last := l.env.Now(), l.lastFlush.Load()
	if now >= last && now-last < cfg.FlushInterval.Milliseconds() {
		return false
	}
	l.lastFlush.Store(now)
	return true
}
