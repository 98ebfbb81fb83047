package varve

import (
	"context"
	"sync"
)

// turn is the context of one call of a handler. Whatever waits inside the engine with it,
// or with one made from it, gives the slot of the handler back for as long.
//
//	field   guarded by   written by
//	Context, crew   (immutable)   lane.turnLocked
//	state   mu           lend, back, end
type turn struct {
	context.Context
	crew *crew

	mu    sync.Mutex
	state turnState
}

type turnState uint8

const (
	turnHeld      turnState = iota
	turnLent                // by a call that waits
	turnReturning           // the call waits for a slot
	turnOver                // the handler has returned: who still has the context has no slot
)

type turnKey struct{}

// Value finds the turn itself.
func (t *turn) Value(key any) any {
	if key == (turnKey{}) {
		return t
	}
	return t.Context.Value(key)
}

// swap puts the turn in another state, if it is in one.
func (t *turn) swap(from, to turnState) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != from {
		return false
	}
	t.state = to
	return true
}

// end says that the handler has returned. Who called it has a slot again, whatever
// goroutines of the handler are waiting for.
func (t *turn) end() {
	t.mu.Lock()
	held := t.state == turnHeld
	t.state = turnOver
	t.mu.Unlock()
	if !held {
		t.crew.enter()
	}
}

// lend gives back the slot of the handler whose context this is, until back is called on
// what it returns: nil where there is none to give.
func lend(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || !t.swap(turnHeld, turnLent) {
		return nil
	}
	t.crew.leave()
	return t
}

// back waits for a slot, which is the handler's unless that has returned meanwhile.
func (t *turn) back() {
	if t == nil || !t.swap(turnLent, turnReturning) {
		return
	}
	t.crew.enter()
	if !t.swap(turnReturning, turnHeld) {
		t.crew.leave()
	}
}
