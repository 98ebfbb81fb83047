package group

import "slices"

// Decision is what came of an event. The lists are the caller's.
type Decision struct {
	Answer Answer   // for the member whose event it was
	Wake   []string // members for whom a heartbeat now brings something (more), by id
	Fenced []Fenced // members that ran into a timeout and are out, by id

	// Changed says that the group's State is another than before.
	Changed bool
}

// Answer is what a member is told. It is complete each time: an answer that
// got lost costs nothing but the time to the next.
type Answer struct {
	Member string
	Epoch  int32 // what it comes with next time; -1 or -2 after it left
	Phase  Phase

	// Assigned are the partitions the member may work on. Of those it works on and
	// that are not in this list, it lets go, and says so by the Owned of a heartbeat.
	Assigned []Partition

	// Revoke are those the group waits for.
	Revoke []Partition

	// Moved says that Assigned or Revoke differs from before the event, or may differ
	// from what the member knows.
	Moved bool
}

// Fenced is a member that was put out of the group.
type Fenced struct {
	Member, Instance string
	Epoch            int32 // its last
	Reason           Reason
}

// Reason says which timeout a member ran into.
type Reason string

const (
	SessionTimeout   Reason = "session timeout"   // no heartbeat for so long
	RebalanceTimeout Reason = "rebalance timeout" // did not let go of partitions for so long
)

// step is an event being handled: its decision, and what it takes to tell whom
// to wake.
type step struct {
	Decision
	retargeted bool
	released   []Partition
}

// finish ends the step of m (nil: nobody's).
func (g *Group) finish(s *step, m *member) Decision {
	if m != nil {
		s.Answer = m.answer()
	}
	s.Wake = g.waiting(s, m)
	return s.Decision
}

// waiting lists the members other than m to whom a heartbeat brings something
// because of this step.
func (g *Group) waiting(s *step, m *member) []string {
	if !s.retargeted && len(s.released) == 0 {
		return nil
	}
	var ids []string
	for _, other := range g.members {
		concerned := s.retargeted || slices.ContainsFunc(s.released, func(p Partition) bool { return contains(other.target, p) })
		if other != m && concerned && g.moves(other) {
			ids = append(ids, other.id)
		}
	}
	return ids
}

// moves says whether a heartbeat without any news would give the member a
// partition or ask it for one.
func (g *Group) moves(m *member) bool {
	if m.away() || m.phase == Unrevoked || m.phase == Stable && !g.newer(m) {
		return false
	}
	if _, drop := split(m.assigned, m.target); len(drop) > 0 {
		return true
	}
	_, want := split(m.target, m.assigned)
	return slices.ContainsFunc(want, g.free)
}
