package varve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// lane is a partition that a subscription owns, on its way through the handler. As a task
// it reads: records go into a window, which begins at the place of the group, and from
// there to strands, which call the handler. Done is what the window has at its front.
//
// Locking. mu is taken by workers, by the subscription and by who calls Done; no callback
// and no read is under it.
//
//	field     guarded by   written by
//	sub, topic, at, ctx, cancel, waiter   (immutable)   newLane
//	cursor, read   the task itself   work
//	window and all below   mu   work, strands, acknowledge, the subscription
type lane struct {
	sub    *Subscription
	topic  string
	at     group.Partition
	ctx    context.Context // of its handlers
	cancel context.CancelCauseFunc
	waiter *partition.Waiter
	again  alarm

	actor  actor
	cursor cursor
	read   []fetched

	mu      sync.Mutex
	window  window
	place   Offset       // everything below is processed
	epoch   record.Epoch // of the record below it, or -1
	next    Offset       // up to which it is read
	ahead   finished     // what was processed past next, by who had the partition before
	main    *strand      // of all records, unless by key
	keys    map[string]*strand
	alone   map[*strand]struct{} // with one record each, which the others did not wait for
	turns   []turn               // not used so far
	ready   int                  // records in the window of which none has been begun
	active  int                  // what is under way: reads, handlers, acknowledgements, dead letters, calls of OnError
	full    bool                 // who makes room wakes it
	parked  bool                 // at the end of the log
	may     Offset               // records below may be begun: all, unless at most once
	version int                  // of what there is to commit
	saved   int                  // of what is committed
	halted  bool                 // nothing more is begun
	dropped bool                 // and nothing counts any more
	stopped error                // why it stands still, until it is resumed
}

// fetched is a record that was read.
type fetched struct {
	rec   Record
	epoch record.Epoch
}

const (
	readAtOnce = 128         // records
	readRetry  = time.Second // after an error that is no loss
)

func newLane(s *Subscription, c *claim) *lane {
	l := &lane{
		sub: s, topic: c.topic, at: c.at, cursor: cursor{p: c.cursor.p, next: c.cursor.next},
		place: c.cursor.next, next: c.cursor.next, epoch: c.epoch, ahead: parseFinished(c.metadata, c.cursor.next),
	}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	l.waiter = partition.WakeFunc(l.wake)
	l.again.ring = l.wake
	if s.opt.Guarantee == AtMostOnce {
		l.may = l.place
	}
	if s.opt.ByKey {
		l.keys = map[string]*strand{}
	} else {
		l.main = newStrand(l, strandIdle)
	}
	return l
}

func (l *lane) name() TopicPartition { return TopicPartition{l.topic, l.at.Number} }

// wake has the lane read on.
func (l *lane) wake() {
	if l.actor.wake() {
		l.sub.all.workers.add(l)
	}
}

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

func (l *lane) strandLocked(key string) *strand {
	s := l.keys[key]
	if s == nil {
		s = newStrand(l, strandIdle)
		s.key, l.keys[key] = key, s
	}
	return s
}

// advanceLocked moves the place over what is done at the front.
func (l *lane) advanceLocked() {
	was := l.place
	for l.window.len() > 0 && l.window.front().state == itemDone {
		l.place, l.epoch = l.window.front().rec.Offset+1, l.window.front().epoch
		l.window.pop()
	}
	if l.window.len() == 0 {
		l.place = l.next // behind what was lost, too
		l.shedLocked()
	}
	if l.place != was {
		l.changedLocked()
	}
	l.refillLocked()
}

// refillLocked has the lane read on, when it pays, or when nothing else is left to begin.
func (l *lane) refillLocked() {
	if n := l.roomLocked(); l.full && n > 0 && (l.ready == 0 || n >= min(readAtOnce, l.sub.opt.MaxAhead/2)) {
		l.full = false
		l.wake()
	}
}

// changedLocked has what there is to commit be committed some time.
func (l *lane) changedLocked() {
	if l.sub.opt.Guarantee == AtLeastOnce {
		l.version++
		l.sub.saveSoon()
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

// halt has nothing more be begun. What is under way goes on.
func (l *lane) halt() {
	l.mu.Lock()
	if l.halted {
		l.mu.Unlock()
		return
	}
	l.halted = true
	if l.sub.opt.Guarantee == AtMostOnce {
		l.version++ // the place goes back to what was begun
	}
	l.sub.all.alarms.stop(&l.again)
	for s := range l.strandsLocked {
		l.sub.all.alarms.stop(&s.alarm)
	}
	l.mu.Unlock()
	l.waiter.Signal() // it unparks itself
}

// drop has nothing that is under way count any more, and tells handlers so.
func (l *lane) drop(cause error) {
	l.halt()
	l.mu.Lock()
	l.dropped = true
	l.mu.Unlock()
	l.cancel(cause)
}

// count counts something that is under way, or is no more.
func (l *lane) count(n int) {
	l.mu.Lock()
	l.active += n
	l.restLocked()
	l.mu.Unlock()
}

// tellLocked has a failure be told, without mu, by what it returns.
func (l *lane) tellLocked(f Failure) (then func()) {
	l.active++
	return func() {
		defer l.count(-1)
		l.sub.tell(l.name(), f)
	}
}

// isQuiet says that nothing is under way.
func (l *lane) isQuiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active == 0
}

func (l *lane) isHalted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halted
}

// atRest says that nothing is under way and all that was is committed, if it can be.
func (l *lane) atRest() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halted && l.active == 0 && (l.version == l.saved || l.dropped)
}

// resume goes on where the lane had stopped, false where it had not.
func (l *lane) resume() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped == nil || l.halted {
		return false
	}
	l.stopped = nil
	if l.sub.opt.Guarantee == AtMostOnce { // the place went back, and moves ahead once more first
		l.may = l.place
		l.version++
		l.sub.saveNow()
	}
	l.startAllLocked()
	l.wake()
	return true
}

// startAllLocked starts the strands that have something to do.
func (l *lane) startAllLocked() {
	for s := range l.strandsLocked {
		s.startLocked()
	}
}

// strandsLocked yields all strands.
func (l *lane) strandsLocked(yield func(*strand) bool) {
	if l.main != nil && !yield(l.main) {
		return
	}
	for _, s := range l.keys {
		if !yield(s) {
			return
		}
	}
	for s := range l.alone {
		if !yield(s) {
			return
		}
	}
}

// permit lets the records below a place be begun, which is committed.
func (l *lane) permit(below Offset) {
	l.mu.Lock()
	l.may = max(l.may, below)
	l.startAllLocked()
	l.mu.Unlock()
}

// progress is what there is to commit, and which version of it; none where that is
// committed.
func (l *lane) progress() (e entry, version int, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version == l.saved {
		return entry{}, 0, false
	}
	c := &group.Commit{Offset: l.place, LeaderEpoch: l.epoch, Time: l.sub.all.engine.groups.commitTime()}
	if l.sub.opt.Guarantee == AtMostOnce {
		c.Offset, c.LeaderEpoch = l.begunLocked(), -1
	} else {
		done := finished{base: l.place, epoch: -1}
		l.window.each(func(it *item) {
			if it.state == itemDone {
				done.add(it.rec.Offset, it.epoch)
			}
		})
		done.addRest(&l.ahead, l.next)
		c.Metadata = done.String()
	}
	return entry{l.topic, l.at, c}, l.version, true
}

// begunLocked is the place of a lane of at most once: behind what was read, for that is
// about to be handled, or behind what was, when no more is.
func (l *lane) begunLocked() Offset {
	if l.halted || l.stopped != nil {
		at := l.next
		l.window.each(func(it *item) {
			if it.state == itemReady && it.attempt == 0 {
				at = min(at, it.rec.Offset)
			}
		})
		return at
	}
	return l.next
}

// keep notes what is committed.
func (l *lane) keep(version int) {
	l.mu.Lock()
	l.saved = max(l.saved, version)
	l.mu.Unlock()
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

// unfinished lists the records that are under way.
func (l *lane) unfinished() (list []HandlerPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.window.each(func(it *item) {
		if it.state == itemRunning || it.state == itemPending || it.state == itemBurying {
			list = append(list, HandlerPlace{l.sub.groupID, l.name(), it.rec.Offset})
		}
	})
	return list
}
