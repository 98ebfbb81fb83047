package partition

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve/record"
)

// acks are the appends whose bytes are written and not yet durable, in the
// order of their offsets.
type acks struct {
	mu   sync.Mutex
	list []ack
}

type ack struct {
	end  record.Offset // done when everything below is durable
	done *Append
}

// wait adds a request. Only the appender calls it, so offsets rise.
func (w *acks) wait(a *Append, end record.Offset) {
	w.mu.Lock()
	w.list = append(w.list, ack{end, a})
	w.mu.Unlock()
}

// reached acknowledges what a durable end covers.
func (w *acks) reached(end record.Offset) {
	w.mu.Lock()
	n := 0
	for n < len(w.list) && w.list[n].end <= end {
		n++
	}
	done := append([]ack(nil), w.list[:n]...)
	rest := copy(w.list, w.list[n:])
	clear(w.list[rest:])
	w.list = w.list[:rest]
	w.mu.Unlock()
	for _, d := range done {
		d.done.Done(d.done)
	}
}

// fail tells all of them that they may be lost, or not.
func (w *acks) fail(err error) {
	w.mu.Lock()
	list := w.list
	w.list = nil
	w.mu.Unlock()
	for _, d := range list {
		d.done.finish(&MaybeStoredError{err})
	}
}

// Waiter is woken when there may be something new in one of the logs it was
// added to. A reader parks on it without a goroutine of its own.
type Waiter struct {
	C chan struct{} // receives once or more after a wake-up
}

// NewWaiter makes a waiter for one goroutine.
func NewWaiter() *Waiter { return &Waiter{C: make(chan struct{}, 1)} }

func (w *Waiter) signal() {
	select {
	case w.C <- struct{}{}:
	default:
	}
}

// waiters are parked readers of one log.
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
		r.signal()
	}
}

// Park has w signalled once, after the published end has moved past seen or the
// log was closed. False says that this is so already.
func (l *Log) Park(w *Waiter, seen record.Offset) bool {
	l.waiters.mu.Lock()
	if l.waiters.set == nil {
		l.waiters.set = make(map[*Waiter]struct{})
	}
	l.waiters.set[w] = struct{}{}
	l.waiters.some.Store(true)
	l.waiters.mu.Unlock()
	// Whoever publishes stores the end before it looks for waiters, so that
	// either it sees w or the end is seen here.
	if l.End() > seen || l.closed.Load() {
		l.Unpark(w)
		return false
	}
	return true
}

// Unpark takes w back.
func (l *Log) Unpark(w *Waiter) {
	l.waiters.mu.Lock()
	delete(l.waiters.set, w)
	l.waiters.some.Store(len(l.waiters.set) > 0)
	l.waiters.mu.Unlock()
}

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
