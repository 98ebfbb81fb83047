package varve

import (
	"context"
	"sync"

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
//	sub, seen, topic, at, ctx, cancel, waiter   (immutable)   newLane
//	cursor, read   the task itself   work
//	window and all below   mu   work, strands, acknowledge, the subscription
type lane struct {
	sub    *Subscription
	seen   *handledSeen // of the group
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

func newLane(s *Subscription, g *groupState, c *claim) *lane {
	l := &lane{
		sub: s, seen: &g.handled, topic: c.topic, at: c.at, cursor: cursor{p: c.cursor.p, next: c.cursor.next},
		place: c.cursor.next, next: c.cursor.next, epoch: c.epoch, ahead: parseFinished(c.metadata, c.cursor.next),
	}
	l.ctx, l.cancel = context.WithCancelCause(s.ctx)
	l.waiter = partition.WakeFunc(l.wake)
	l.again.ring = l.wake
	if s.opt.Guarantee == AtMostOnce {
		l.may = l.place
	}
	if s.opt.PlaceOf != nil && c.settled != l.place {
		l.changedLocked() // nobody else has it yet; what the group has committed follows the store
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

// restLocked tells the subscription, where it waits for that, that nothing is under way.
func (l *lane) restLocked() {
	if l.halted && l.active == 0 {
		l.sub.wake()
	}
}

// count counts something that is under way, or is no more.
func (l *lane) count(n int) {
	l.mu.Lock()
	l.active += n
	l.restLocked()
	l.mu.Unlock()
}

// halt has nothing more be begun. What is under way goes on.
func (l *lane) halt() {
	l.mu.Lock()
	if l.halted {
		l.mu.Unlock()
		return
	}
	l.halted = true
	if l.stopped != nil {
		l.seen.stopped.Add(-1)
	}
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
	l.seen.stopped.Add(-1)
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

func (l *lane) strandLocked(key string) *strand {
	s := l.keys[key]
	if s == nil {
		s = newStrand(l, strandIdle)
		s.key, l.keys[key] = key, s
	}
	return s
}

// aloneLocked makes a strand for a record that its own has left behind.
func (l *lane) aloneLocked() *strand {
	s := newStrand(l, strandHeld)
	if l.alone == nil {
		l.alone = map[*strand]struct{}{}
	}
	l.alone[s] = struct{}{}
	return s
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
