package varve

import "sync/atomic"

// actor is the state of a task that one goroutine at a time does, as often as it is
// woken, and at least once after each time.
type actor struct{ state atomic.Int32 }

const (
	atRest int32 = iota
	isQueued
	atWork
	wokenAtWork
)

// wake says whether the task is to be queued.
func (a *actor) wake() bool {
	for {
		switch s := a.state.Load(); s {
		case atRest:
			if a.state.CompareAndSwap(s, isQueued) {
				return true
			}
		case atWork:
			if a.state.CompareAndSwap(s, wokenAtWork) {
				return false
			}
		default:
			return false
		}
	}
}

// begin says that the work begins: who wakes it from here on wakes it anew.
func (a *actor) begin() { a.state.Store(atWork) }

// end says that the work is done, and whether it is to be queued once more.
func (a *actor) end() bool {
	if a.state.CompareAndSwap(atWork, atRest) {
		return false
	}
	a.state.Store(isQueued)
	return true
}
