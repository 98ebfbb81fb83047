package varve

import (
	"errors"
	"time"

	"github.com/varvelog/varve/record"
)

// fetched is a record that was read.
type fetched struct {
	rec   Record
	epoch record.Epoch
}

const (
	readAtOnce = 128         // records
	readRetry  = time.Second // after an error that is no loss
)

// work reads until there is no room or nothing more.
func (l *lane) work() {
	l.actor.begin()
	l.count(1)
	defer func() {
		l.count(-1)
		if l.actor.end() {
			l.sub.all.workers.add(l)
		}
	}()
	l.readOn()
}

func (l *lane) readOn() {
	for {
		n, gone := l.room()
		if gone {
			l.cursor.p.log.Unpark(l.waiter)
		}
		if n == 0 {
			return // who makes room wakes it
		}
		err := l.fetch(n)
		l.take()
		if err != nil && !l.missed(err) {
			return
		}
		if err == nil && len(l.read) == 0 && l.park() {
			l.read = nil
			return
		}
	}
}

// room is how many records may be read now; gone says that none ever will.
func (l *lane) room() (n int, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked = false
	if l.halted || l.stopped != nil {
		return 0, l.halted
	}
	n = l.roomLocked()
	l.full = n == 0
	return n, false
}

func (l *lane) roomLocked() int {
	if l.window.len() > 0 && l.window.bytes >= l.sub.opt.MaxBytes {
		return 0
	}
	return int(max(min(Offset(l.sub.opt.MaxAhead)-(l.next-l.place), readAtOnce), 0))
}

// fetch reads up to n records.
func (l *lane) fetch(n int) error {
	clear(l.read)
	l.read = l.read[:0]
	for bytes := 0; len(l.read) < n && bytes < l.sub.opt.MaxBytes; {
		var f fetched
		ok, err := l.cursor.record(&f.rec)
		if !ok || err != nil {
			return err
		}
		f.epoch = l.cursor.batch.LeaderEpoch
		l.read, bytes = append(l.read, f), bytes+weight(&f.rec)
	}
	return nil
}

// take puts what was read into the window.
func (l *lane) take() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.read {
		f := &l.read[i]
		seq := l.window.push(f)
		if f.epoch > l.ahead.epoch {
			l.ahead = finished{} // a crash has taken the rest, and others have their offsets
		}
		if l.ahead.has(f.rec.Offset, f.epoch) {
			l.window.at(seq).state = itemDone
			continue
		}
		s := l.main
		if s == nil {
			s = l.strandLocked(string(f.rec.Key))
		}
		l.ready++
		s.queue = append(s.queue, seq)
		s.startLocked()
	}
	if l.next != l.cursor.next {
		l.next = l.cursor.next
		if l.sub.opt.Guarantee == AtMostOnce {
			l.version++
			l.sub.saveNow()
		}
	}
	l.advanceLocked()
}

// refillLocked has the lane read on, when it pays, or when nothing else is left to begin.
func (l *lane) refillLocked() {
	if n := l.roomLocked(); l.full && n > 0 && (l.ready == 0 || n >= min(readAtOnce, l.sub.opt.MaxAhead/2)) {
		l.full = false
		l.wake()
	}
}

// park waits for records without a worker; false says that there are some.
func (l *lane) park() bool {
	log := l.cursor.p.log
	if log.Closed() {
		return l.reopen()
	}
	if !log.Park(l.waiter, l.cursor.next) {
		return false
	}
	l.mu.Lock()
	l.parked = true
	l.shedLocked()
	l.mu.Unlock()
	return true
}

// shedLocked gives up the memory of a lane that has nothing to do: there may be many.
func (l *lane) shedLocked() {
	if l.parked && l.window.len() == 0 {
		l.window.ring, l.turns = nil, nil
	}
}

// missed tells of what could not be read, and says whether to go on at once.
func (l *lane) missed(err error) bool {
	if errors.Is(err, ErrClosed) {
		return !l.reopen()
	}
	f := Failure{Offset: l.cursor.next, Err: err, Outcome: LostRecords}
	if goesOn(err) {
		l.sub.tell(l.name(), f)
		return true
	}
	f.Outcome = Retried
	l.sub.tell(l.name(), f)
	l.readLater()
	return false
}

// readLater has the lane read on when some time has gone by.
func (l *lane) readLater() {
	l.mu.Lock()
	if !l.halted {
		l.sub.all.alarms.set(&l.again, time.Now().Add(readRetry))
	}
	l.mu.Unlock()
}

// reopen looks for the log anew that was closed: it is another where a topic could not be
// deleted. True says that there is none, and that it will be looked again.
func (l *lane) reopen() bool {
	p := l.sub.all.engine.groups.topics().partition(l.at)
	if p != nil && p.log != nil && !p.log.Closed() {
		l.cursor = cursor{p: p, next: l.cursor.next}
		return false
	}
	l.readLater()
	return true
}
