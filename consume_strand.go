package varve

import (
	"runtime/debug"
)

// strand is records of a lane that are handled one after the other: all of them, those of
// a key, or one that is tried again by itself. As a task it calls the handler.
//
// All of it is guarded by the lane's mu.
type strand struct {
	lane  *lane
	key   string
	queue []uint64 // of the window, in order
	state strandState
	alarm alarm
}

type strandState uint8

const (
	strandIdle    strandState = iota
	strandBusy                // it is a task of the workers
	strandWaiting             // for the alarm
	strandHeld                // for an acknowledgement, or a dead letter on its way
)

// strandTurn is how many records a strand handles before it queues up behind others.
const strandTurn = 256

func newStrand(l *lane, state strandState) *strand {
	s := &strand{lane: l, state: state}
	s.alarm.ring = s.ring
	return s
}

// startLocked has the strand go on, if it may and has something to do.
func (s *strand) startLocked() {
	l := s.lane
	if s.state == strandIdle && len(s.queue) > 0 && !l.halted && l.stopped == nil {
		s.state = strandBusy
		l.sub.all.workers.add(s)
	}
}

// ring is the end of a backoff.
func (s *strand) ring() {
	l := s.lane
	l.mu.Lock()
	if s.state == strandWaiting {
		s.state = strandIdle
		s.startLocked()
	}
	l.mu.Unlock()
}

// work handles records until there are none, or one has to wait.
func (s *strand) work() {
	var d Delivery
	var err error
	var t *turn
	for range strandTurn {
		if t = s.step(t != nil, &d, err); t == nil {
			return
		}
		err = s.call(t, &d)
	}
	if s.settle(&d, err) {
		s.lane.sub.all.workers.add(s)
	}
}

// call calls the handler.
func (s *strand) call(t *turn, d *Delivery) (err error) {
	running, returned := &s.lane.sub.all.running, false
	running.Add(1)
	defer func() {
		running.Add(-1)
		if t.end(); returned {
			return
		}
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
			return
		}
		// This goroutine ends (runtime.Goexit), and the strand goes on in another.
		if s.settle(d, &PanicError{Value: errGoexit, Stack: debug.Stack()}) {
			s.lane.sub.all.workers.add(s)
		}
	}()
	err = s.lane.sub.handler(t, *d)
	returned = true
	return err
}

// step settles a record, if one was begun, and begins the next: nil where there is none.
func (s *strand) step(begun bool, d *Delivery, err error) (t *turn) {
	l := s.lane
	l.mu.Lock()
	var then func()
	if begun {
		then = l.returnedLocked(s, d.seq, err)
	}
	if s.state == strandBusy && s.beginLocked(d) { // once it is not busy, it may be another worker's
		t = l.turnLocked()
	}
	l.mu.Unlock()
	if then != nil {
		then()
	}
	return t
}

// settle settles a record, and says whether the strand is to be queued.
func (s *strand) settle(d *Delivery, err error) bool {
	l := s.lane
	l.mu.Lock()
	then := l.returnedLocked(s, d.seq, err)
	busy := s.state == strandBusy
	l.mu.Unlock()
	if then != nil {
		then()
	}
	return busy
}

// beginLocked begins the first record of the queue, where it may be begun; false where no
// handler is to be called now.
func (s *strand) beginLocked(d *Delivery) bool {
	l := s.lane
	if len(s.queue) == 0 || l.halted || l.stopped != nil {
		s.restLocked()
		return false
	}
	seq := s.queue[0]
	it := l.window.at(seq)
	if l.sub.opt.Guarantee == AtMostOnce && it.rec.Offset >= l.may {
		s.restLocked()
		return false
	}
	s.queue = s.queue[1:]
	l.active++
	if it.burial != nil {
		it.state, s.state = itemBurying, strandHeld
		l.sub.all.workers.add(it.burial)
		return false
	}
	if it.attempt == 0 {
		l.ready--
		l.refillLocked()
	}
	if it.attempt++; it.attempt > 1 {
		l.seen.retries.Add(1)
	}
	it.state, it.strand, it.acked = itemRunning, s, false
	*d = Delivery{Record: it.rec, Topic: l.topic, LeaderEpoch: it.epoch, Attempt: it.attempt, lane: l, seq: seq}
	return true
}

// restLocked has the strand go on when there is something to do. One without records is
// forgotten, but for that of the lane.
func (s *strand) restLocked() {
	s.state = strandIdle
	if len(s.queue) > 0 {
		return
	}
	delete(s.lane.alone, s)
	if s.lane.keys[s.key] == s {
		delete(s.lane.keys, s.key)
	}
}

// holdLocked has the strand wait with a record at its front.
func (s *strand) holdLocked(seq uint64, state strandState) {
	s.queue = append([]uint64{seq}, s.queue...)
	s.state = state
}

// releaseLocked has a strand go on that was held.
func (s *strand) releaseLocked() {
	if s.state == strandHeld {
		s.restLocked()
		s.startLocked()
	}
}

// turnsAtOnce is how many contexts are made at a time.
const turnsAtOnce = 16

// turnLocked makes a context for one call of the handler: none is used twice, for what a
// handler leaves behind must not give away the slot of another.
func (l *lane) turnLocked() *turn {
	if len(l.turns) == 0 {
		l.turns = make([]turn, turnsAtOnce)
	}
	t := &l.turns[0]
	l.turns = l.turns[1:]
	t.Context, t.crew = l.ctx, l.sub.all.workers
	return t
}
