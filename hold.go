package varve

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/group"
)

// holding is the part of a topic's configuration that says for which groups it keeps its
// records.
type holding struct {
	groups []string // none: records are kept for nobody
	limit  int64    // bytes of a partition that a group may be behind
	refuse bool     // at the limit, rather than wait
}

func (h *holding) equal(o *holding) bool {
	return slices.Equal(h.groups, o.groups) && h.limit == o.limit && h.refuse == o.refuse
}

// hold keeps the records of a partition until some groups have passed them, and its
// publishers back while one of these is too far behind. A partition whose topic names no
// group has none.
//
// Publishers are let in by room, which is what was left of the limit at the last look, less
// what was let in since. When there is none it is looked anew: at how far behind the
// slowest group is, and at what was let in and is not in the log yet. So the limit is
// passed by one batch at most. What is counted twice, on its way from there to here, keeps
// somebody back until it is handed over, and then until it is written.
//
// Locking. gate is held across a look, which may wait for a disk; mu is a leaf, for commits
// are told from where nothing may wait.
//
//	field      guarded by   written by
//	part, holding   (immutable)   setHold
//	room, told gate         enter
//	entering   atomic       enter, entered
//	waiting    atomic       again, wake: lets a commit with nobody waiting pass without mu
//	next       mu           again, wake
type hold struct {
	part *Partition
	holding

	gate sync.Mutex
	room int64
	told time.Time // when it was last told that publishers are kept back

	entering atomic.Int64 // bytes that were let in and not handed to the log yet
	waiting  atomic.Bool

	mu   sync.Mutex
	next chan struct{} // closed, and nil again, when it is to be looked anew
}

// toldAgain is how long nothing more is said of publishers that are kept back.
const toldAgain = time.Minute

// setHold puts in force what a topic says. Who waits looks anew.
func (p *Partition) setHold(c holding) {
	old := p.hold.Load()
	switch {
	case p.log == nil || old == nil && len(c.groups) == 0 || old != nil && old.holding.equal(&c):
		return
	case len(c.groups) == 0:
		p.hold.Store(nil)
		p.log.Hold(nil, nil)
	default:
		h := &hold{part: p, holding: c}
		p.hold.Store(h)
		p.log.Hold(h.from, h.wake)
	}
	if old != nil {
		old.wake()
	}
}

// wakeHeld has publishers look anew that a group keeps back.
func (p *Partition) wakeHeld() {
	if h := p.hold.Load(); h != nil {
		h.wake()
	}
}

// pass is what a publisher was let in with, to be given back when the log has its batch.
type pass struct {
	hold *hold
	size int64
}

// entered also when the log has panicked.
func (s pass) entered() {
	if s.hold != nil {
		s.hold.entering.Add(-s.size)
		s.hold.wake()
	}
}

// enter lets a publisher in with size bytes. While a group holds the partition it waits,
// until the context ends; or it refuses. Both are a *HeldError.
func (p *Partition) enter(ctx context.Context, size int64) (pass, error) {
	for {
		h := p.hold.Load()
		if h == nil {
			return pass{}, nil
		}
		again, err := h.enter(size)
		if err == nil {
			return pass{h, size}, nil
		}
		if again == nil {
			return pass{}, err
		}
		if p.hold.Load() != h {
			continue // nobody wakes who waits for what is not in force
		}
		if cerr := awaitOther(ctx, again); cerr != nil {
			return pass{}, fmt.Errorf("%w: %w", err, cerr)
		}
	}
}

// tryEnter is enter for who may not wait.
func (p *Partition) tryEnter(size int64) (pass, error) {
	h := p.hold.Load()
	if h == nil {
		return pass{}, nil
	}
	if _, err := h.enter(size); err != nil {
		return pass{}, err
	}
	return pass{h, size}, nil
}

func awaitOther(ctx context.Context, again <-chan struct{}) error {
	defer lend(ctx).back()
	select {
	case <-again:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter lets size bytes in, or says why not: for good where again is nil, and until that is
// closed otherwise.
func (h *hold) enter(size int64) (again <-chan struct{}, err error) {
	h.gate.Lock()
	defer h.gate.Unlock()
	if h.part.topic.engine.closing.Load() || h.part.log.Closed() {
		return nil, ErrClosed
	}
	if h.room <= 0 {
		if !h.refuse {
			again = h.again() // first: what happens behind the look is heard of
		}
		if err := h.lookLocked(); err != nil {
			return again, err
		}
	}
	h.room -= size
	h.entering.Add(size)
	return nil, nil
}

// lookLocked finds how much room there is, and is the error where there is none. A log
// that takes no publishes says so itself.
func (h *hold) lookLocked() error {
	log := h.part.log
	entering := h.entering.Load() + log.Queued() // first, for it goes to what is behind
	id, place, placed := h.slowest()
	from := max(place, log.Start())
	bytes := log.Behind(from)
	h.room = h.limit - bytes - entering
	if h.room > 0 || bytes+entering == 0 || log.Failed() != nil {
		return nil
	}
	err := &HeldError{
		TopicPartition: TopicPartition{h.part.topic.name, h.part.index}, Group: id, Committed: -1,
		Lag: int64(max(log.LogEnd()-from, 0)), Bytes: bytes, Limit: h.limit,
	}
	if placed {
		err.Committed = place
	}
	if now := time.Now(); h.told.IsZero() || now.Sub(h.told) >= toldAgain {
		h.told = now
		h.part.topic.engine.log.Warn("a group keeps publishers back", "partition", log.Name(), "group", id,
			"committed", err.Committed, "behind", err.Lag, "bytes", bytes)
	}
	return err
}

// slowest is the group that is furthest behind, and its place. One that has none, or of
// which nothing is known yet, counts as at the beginning.
func (h *hold) slowest() (id string, place Offset, placed bool) {
	c := h.part.topic.engine.groups
	at := group.Partition{Topic: group.TopicID(h.part.topic.id), Number: h.part.index}
	for i, name := range h.groups {
		off, some := c.placeOf(name, at)
		if !some {
			return name, 0, false
		}
		if i == 0 || off < place {
			id, place = name, off
		}
	}
	return id, place, true
}

// from is the offset from which on everything is kept.
func (h *hold) from() Offset {
	_, place, _ := h.slowest()
	return place
}

// again is closed when it is to be looked anew.
func (h *hold) again() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = make(chan struct{})
		h.waiting.Store(true)
	}
	return h.next
}

// wake has everybody look anew. It does not block.
func (h *hold) wake() {
	if !h.waiting.Load() {
		return
	}
	h.mu.Lock()
	if h.next != nil {
		close(h.next)
		h.next = nil
		h.waiting.Store(false)
	}
	h.mu.Unlock()
}
