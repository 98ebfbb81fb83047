package partition

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve/record"
)

// Waiter is woken when there may be something new in one of the logs it was
// added to. A reader parks on it without a goroutine of its own.
type Waiter struct {
	C    chan struct{} // receives once or more after a wake-up; nil of a WakeFunc
	wake func()
}

// NewWaiter makes a waiter for one goroutine.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

// WakeFunc makes a waiter for none: wake is called instead, by whoever has moved the end
// of a log. It must not block, nor call the log.
func WakeFunc(wake func()) *Waiter { return &Waiter{wake: wake} }

// Signal wakes who waits.
func (w *Waiter) Signal() {
	if w.wake != nil {
		w.wake()
		return
	}
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// waiters are who is parked until an end of a log has moved.
//
//	field   guarded by   written by
//	set     mu           add, remove, wake
//	some    atomic       with set: lets a publish with nobody waiting pass without the lock
type waiters struct {
	mu   sync.Mutex
	set  map[*Waiter]struct{}
	some atomic.Bool
}

// wake signals and forgets all that wait.
func (w *waiters) wake() {
	if !w.some.Load() {
		return
	}
	w.mu.Lock()
	set := w.set
	w.set = nil
	w.some.Store(false)
	w.mu.Unlock()
	for r := range set {
		r.Signal()
	}
}

// park has r signalled once, by the next wake; false when ready says that there is
// nothing to wait for. Whoever wakes has changed before what ready looks at, so
// that either it sees r or ready sees the change.
func (w *waiters) park(r *Waiter, ready func() bool) bool {
	w.mu.Lock()
	if w.set == nil {
		w.set = make(map[*Waiter]struct{})
	}
	w.set[r] = struct{}{}
	w.some.Store(true)
	w.mu.Unlock()
	if ready() {
		w.unpark(r)
		return false
	}
	return true
}

func (w *waiters) unpark(r *Waiter) {
	w.mu.Lock()
	delete(w.set, r)
	w.some.Store(len(w.set) > 0)
	w.mu.Unlock()
}

// Park has w signalled once, after the published end has moved past seen or the
// log was closed. False says that this is so already.
func (l *Log) Park(w *Waiter, seen record.Offset) bool {
	return l.waiters.park(w, func() bool { return l.End() > seen || l.closed.Load() })
}

// Unpark takes w back.
func (l *Log) Unpark(w *Waiter) { l.waiters.unpark(w) }

// Wait returns when the published end has moved past seen, or the log is closed.
func (l *Log) Wait(ctx context.Context, seen record.Offset) error {
	w := NewWaiter()
	if !l.Park(w, seen) {
		return nil
	}
	defer l.Unpark(w)
	select {
	case <-w.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
