package partition

import (
	"cmp"
	"context"

	"github.com/varvelog/varve/record"
)

// SyncRound makes everything appended so far durable, by way of the files, and
// returns when that is done.
func (l *Log) SyncRound() error {
	l.syncMu.Lock()
	r, err := l.beginLocked()
	if err != nil {
		return err
	}
	if err := r.Sync(); err != nil {
		r.End(err)
		return cmp.Or(l.Failed(), err)
	}
	r.End(nil)
	return nil
}

// WaitDurable returns nil when everything below end is on stable storage, and in its file,
// which it asks for. An end that the log has not reached is an *OutOfRangeError.
func (l *Log) WaitDurable(ctx context.Context, end record.Offset) error {
	if have := l.LogEnd(); end > have {
		return &OutOfRangeError{Asked: end, Start: l.Start(), End: have}
	}
	w := NewWaiter()
	var reason error // of the look that was the last
	settled := func() bool {
		switch {
		case l.DurableEnd() >= end:
			reason = nil
		case l.Failed() != nil:
			reason = l.Failed()
		case l.gone.Load():
			reason = ErrClosed
		case l.LogEnd() < end: // it was taken back
			reason = *l.refused.Load()
		default:
			return false
		}
		return true
	}
	for l.durables.park(w, settled) {
		l.env.Journal.Commit(l)
		select {
		case <-w.C:
		case <-ctx.Done():
			l.durables.unpark(w)
			return ctx.Err()
		}
	}
	return reason
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

// FlushIfDue asks for a round, on level interval, when something has waited for one
// long enough: once an interval.
func (l *Log) FlushIfDue() {
	cfg := l.Config()
	if cfg.Level != Interval || !l.Unsynced() {
		return
	}
	now, last := l.env.Now(), l.lastFlush.Load()
	if now < last || now-last >= cfg.FlushInterval.Milliseconds() {
		l.lastFlush.Store(now)
		l.env.Journal.Commit(l)
	}
}
