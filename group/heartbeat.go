package group

import (
	"slices"
	"time"
)

// Heartbeat says that a member is alive, and what of it has changed.
type Heartbeat struct {
	Member   string
	Instance string // checked unless it is empty
	Epoch    int32  // of the last answer

	// Owned are the partitions the member works on. Partitions it was to let go of
	// and that are not among them are free for others from then on. Nil says
	// nothing, and so lets go of nothing; a member that has none passes an empty list.
	Owned []Partition

	// Topics is a new subscription. Nil: as before.
	Topics []string
}

// Heartbeat tells the member where it stands and takes it one step further.
// Errors: *UnknownMemberError, *InstanceError, *FencedError; each changes nothing.
func (g *Group) Heartbeat(now time.Time, h Heartbeat) (Decision, error) {
	s := g.begin(now)
	m, err := g.known(h.Member, h.Instance)
	if err != nil {
		return g.finish(s, nil), err
	}
	owned := h.Owned
	if owned != nil {
		owned = append([]Partition{}, setOf(owned)...)
	}
	if !m.accepts(h.Epoch, owned) {
		return g.finish(s, nil), &FencedError{g.id, m.id, h.Epoch, m.epoch}
	}
	g.heard(m, now)
	if h.Topics != nil {
		g.subscribe(s, m, h.Topics)
	}
	if h.Epoch != m.epoch {
		return g.repeat(s, m), nil
	}
	assigned, revoking := m.assigned, m.revoking
	g.advance(s, now, m, owned)
	d := g.finish(s, m)
	d.Answer.Moved = !slices.Equal(assigned, m.assigned) || !slices.Equal(revoking, m.revoking)
	return d, nil
}

func (g *Group) subscribe(s *step, m *member, names []string) {
	if topics := namesOf(names); !slices.Equal(topics, m.topics) {
		m.topics = topics
		g.bump(s)
	}
}

// repeat answers a request from before the last answer, which got lost, with
// that answer. The member goes no further, so that no number of lost answers
// fences it, and lets go of nothing: what it owns it said without knowing what
// it was given since. If there is more, it is woken itself.
func (g *Group) repeat(s *step, m *member) Decision {
	d := g.finish(s, m)
	d.Answer.Moved = true
	if g.moves(m) {
		d.Wake = append(d.Wake, m.id)
		slices.Sort(d.Wake)
	}
	return d
}

// accepts says whether a request is of this life of the member. The epoch
// before is, when what the member owns fits: the answer with the new epoch got
// lost (KIP-848).
func (m *member) accepts(epoch int32, owned []Partition) bool {
	switch {
	case m.away() || epoch < 0:
		return false
	case epoch == m.epoch:
		return true
	case epoch != m.previous || owned == nil:
		return false
	}
	_, foreign := split(owned, union(m.assigned, m.revoking))
	return len(foreign) == 0
}
