package crash

import "sync"

// history is what has happened between a program and its engine, in order: attempts,
// each noted before its call, and answers, each noted when the call has returned. So
// what a crash must have left is known by two lengths: the answers up to the one,
// taken before the disk was copied, are promises; the attempts up to the other, taken
// after, are all that may be on it.
//
//	field    guarded by   written by
//	base     (immutable)  newHistory
//	entries  mu           attempt, answer
type history struct {
	base *model

	mu      sync.Mutex
	entries []entry
}

type entry struct {
	answer bool
	apply  func(m *model)
}

func newHistory(base *model) *history { return &history{base: base} }

// attempt notes what is about to be asked for.
func (h *history) attempt(f func(m *model)) { h.add(entry{false, f}) }

// answer notes what the engine has said, or shown.
func (h *history) answer(f func(m *model)) { h.add(entry{true, f}) }

func (h *history) add(e entry) {
	h.mu.Lock()
	h.entries = append(h.entries, e)
	h.mu.Unlock()
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries)
}

// at is what was promised and tried by a moment: answers below told, attempts below
// tried.
func (h *history) at(told, tried int) *model {
	h.mu.Lock()
	entries := h.entries[:tried:tried]
	h.mu.Unlock()
	m := h.base.clone()
	for i, e := range entries {
		if !e.answer || i < told {
			e.apply(m)
		}
	}
	return m
}

// until is a history that begins where this one was at a moment.
func (h *history) until(told, tried int) *history { return newHistory(h.at(told, tried)) }

// known is now, without a copy where nothing has happened.
func (h *history) known() *model {
	if h.len() == 0 {
		return h.base
	}
	return h.now()
}

// now is all of it.
func (h *history) now() *model {
	n := h.len()
	return h.at(n, n)
}
