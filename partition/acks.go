package partition

import (
	"slices"
	"sync"

	"github.com/varvelog/varve/record"
)

// acks are the appends whose bytes are written and not yet durable, in the
// order of their offsets, and those that are told of a conflict then.
type acks struct {
	mu    sync.Mutex
	list  []ack
	spare []*Append // room for those that are told
}

type ack struct {
	end  record.Offset // done when everything below is durable
	done *Append
}

// wait adds requests. Only the appender calls it, so offsets rise.
func (w *acks) wait(list []ack) {
	if len(list) == 0 {
		return
	}
	w.mu.Lock()
	w.list = append(w.list, list...)
	w.mu.Unlock()
}

// reached acknowledges what a durable end covers.
func (w *acks) reached(end record.Offset) {
	w.mu.Lock()
	n := 0
	for n < len(w.list) && w.list[n].end <= end {
		n++
	}
	done := w.spare[:0]
	w.spare = nil
	for _, a := range w.list[:n] {
		done = append(done, a.done)
	}
	rest := copy(w.list, w.list[n:])
	clear(w.list[rest:])
	w.list = w.list[:rest]
	w.mu.Unlock()
	tell(done)
	clear(done)
	w.mu.Lock()
	w.spare = done
	w.mu.Unlock()
}

// fail tells all of them that they may be lost, or not; who was to be told of a conflict has
// nothing to lose.
func (w *acks) fail(err error) {
	list := w.takeAll()
	for _, a := range list {
		if a.done.Err == nil {
			a.done.Err = &MaybeStoredError{err}
		} else {
			a.done.Err = err
		}
	}
	tellAll(list)
}

// takeAll takes them out of the list: whoever does it tells them.
func (w *acks) takeAll() []ack {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

// takeBehind takes out those that are not done when everything below end is durable.
func (w *acks) takeBehind(end record.Offset) []ack {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.list)
	for n > 0 && w.list[n-1].end > end {
		n--
	}
	behind := slices.Clone(w.list[n:])
	clear(w.list[n:])
	w.list = w.list[:n]
	return behind
}

func tellAll(list []ack) {
	done := make([]*Append, len(list))
	for i, a := range list {
		done[i] = a.done
	}
	tell(done)
}
