package partition

import (
	"sync"

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
