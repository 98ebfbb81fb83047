package varve

import (
	"fmt"
	"time"
)

// returnedLocked is what comes of a record whose handler has returned. Whoever calls it
// calls what it returns, without mu.
func (l *lane) returnedLocked(s *strand, seq uint64, err error) (then func()) {
	switch it := l.window.at(seq); {
	case err != nil || !l.sub.opt.AckLater:
		return l.settleLocked(seq, err)
	case it.acked:
		return l.settleLocked(seq, it.ack)
	case l.keys != nil:
		it.state, s.state = itemPending, strandHeld
	default:
		it.state, it.strand = itemPending, nil // the others go on
	}
	return nil
}

// acknowledge is Delivery.Done.
func (l *lane) acknowledge(seq uint64, attempt int, err error) error {
	l.mu.Lock()
	if l.dropped {
		l.mu.Unlock()
		return &PartitionError{l.topic, l.at.Number, fmt.Errorf("acknowledge: %w", ErrNotOwner)}
	}
	it := l.window.at(seq)
	if it == nil || it.attempt != attempt || !l.sub.opt.AckLater {
		l.mu.Unlock()
		return nil
	}
	var then func()
	switch it.state {
	case itemRunning: // its strand goes on from here
		if !it.acked {
			it.acked, it.ack = true, err
		}
	case itemPending:
		then = l.settleLocked(seq, err)
	}
	l.mu.Unlock()
	if then != nil {
		then()
	}
	return nil
}

// settleLocked is what comes of a record that was processed, or could not be.
func (l *lane) settleLocked(seq uint64, err error) (then func()) {
	it := l.window.at(seq)
	switch {
	case l.dropped:
		l.giveUpLocked(it)
		return nil
	case err == nil:
		l.seen.records.Add(1)
		l.finishLocked(seq)
		return nil
	case it.strand == nil:
		it.strand = l.aloneLocked()
	}
	it.failed++
	l.seen.errors.Add(1)
	f := Failure{Offset: it.rec.Offset, Attempt: it.attempt, Err: err}
	wait, again := l.sub.opt.after(it.failed)
	switch {
	case again:
		f.Outcome = Retried
		l.pauseLocked(seq, wait)
	case l.sub.opt.OnFailure == DeadLetter:
		it.burial = newBurial(l, seq, f)
		it.state, it.strand.state = itemBurying, strandHeld
		return it.burial.work
	case l.sub.opt.OnFailure == SkipRecord:
		f.Outcome = Skipped
		l.seen.skipped.Add(1)
		l.finishLocked(seq)
	default:
		f.Outcome = Stopped
		l.stopLocked(seq, err)
	}
	return l.tellLocked(f)
}

// tellLocked has a failure be told, without mu, by what it returns.
func (l *lane) tellLocked(f Failure) (then func()) {
	l.active++
	return func() {
		defer l.count(-1)
		l.sub.tell(l.name(), f)
	}
}

// giveUpLocked is the end of a record that counts no more.
func (l *lane) giveUpLocked(it *item) {
	l.active--
	it.state = itemReady
	l.restLocked()
}

// finishLocked counts a record as processed.
func (l *lane) finishLocked(seq uint64) {
	it := l.window.at(seq)
	s := it.strand
	l.active--
	it.state, it.strand, it.burial = itemDone, nil, nil
	if seq != l.window.first {
		l.changedLocked() // what is finished past the place is committed as well
	}
	l.advanceLocked()
	if s != nil {
		s.releaseLocked()
	}
	l.restLocked()
}

// pauseLocked has a record be tried again later.
func (l *lane) pauseLocked(seq uint64, wait time.Duration) {
	it := l.window.at(seq)
	l.active--
	it.state = itemReady
	it.strand.holdLocked(seq, strandWaiting)
	if !l.halted {
		l.sub.all.alarms.set(&it.strand.alarm, time.Now().Add(wait))
	}
	l.restLocked()
}

// stopLocked has the lane stand still at a record. At most once that was its one attempt,
// and the place is behind it.
func (l *lane) stopLocked(seq uint64, err error) {
	if l.stopped == nil && !l.halted {
		l.seen.stopped.Add(1)
	}
	l.stopped = err
	if l.sub.opt.Guarantee == AtMostOnce {
		l.finishLocked(seq)
		l.version++
		l.sub.saveSoon()
		return
	}
	it := l.window.at(seq)
	l.active--
	it.state, it.failed, it.burial = itemReady, 0, nil
	it.strand.holdLocked(seq, strandIdle)
	l.restLocked()
}
