package group

import (
	"slices"
	"time"
)

// Join asks for a place in the group. Whoever joins owns nothing: a member that
// is in the group already and joins again has given up what it had.
type Join struct {
	Member   string // an id that no other process uses
	Instance string // of a static member: stays the same over restarts; or empty
	Topics   []string

	// SessionTimeout is how long the member may be silent. 0 or less: DefaultSessionTimeout.
	SessionTimeout time.Duration

	// RebalanceTimeout is how long it may take to let go of partitions.
	// 0: DefaultRebalanceTimeout; less: the session timeout, as for a client
	// that has none (KAFKA-8653).
	RebalanceTimeout time.Duration
}

// Join takes in a member: a new one, one that lost its place or its memory and
// comes back under its id (KAFKA-19233), or a static one to the place that is
// kept for its instance id. Errors: ErrNoMemberID, *InstanceError, *FullError;
// each changes nothing. With an error, as from every event, the Decision tells
// of what the time changed that has passed.
func (g *Group) Join(now time.Time, j Join) (Decision, error) {
	s := g.begin(now)
	if err := g.admits(j); err != nil {
		return g.finish(s, nil), err
	}
	topics := namesOf(j.Topics)
	m, stays := g.seat(s, now, j)
	changed := !stays || !slices.Equal(m.topics, topics)
	m.topics = topics
	m.session, m.rebalance = timeouts(j)
	g.heard(m, now)
	s.Changed = true
	if changed {
		g.bump(s)
	}
	g.advance(s, now, m, []Partition{})
	d := g.finish(s, m)
	d.Answer.Moved = true
	return d, nil
}

// admits says why a join must be refused, or nil.
func (g *Group) admits(j Join) error {
	holder := g.holder(j.Instance)
	switch {
	case j.Member == "":
		return ErrNoMemberID
	case holder != nil && holder.id != j.Member && !holder.away():
		return &InstanceError{g.id, j.Member, j.Instance, holder.id}
	case holder == nil && g.find(j.Member) == nil && g.options.MaxSize > 0 && len(g.members) >= g.options.MaxSize:
		return &FullError{g.id, g.options.MaxSize}
	}
	return nil
}

// seat returns the member that joins, at epoch 0, and whether all stays as it
// is: it takes the place that was kept for it, with its target and all.
func (g *Group) seat(s *step, now time.Time, j Join) (m *member, stays bool) {
	place := g.holder(j.Instance)
	if place != nil && place.away() {
		same := g.find(j.Member)
		if stays = same == nil || same == place; !stays {
			g.remove(s, now, same)
		}
		g.rename(place, j.Member)
		place.epoch, place.previous = 0, 0
		return place, stays
	}
	if m = g.find(j.Member); m != nil {
		g.release(s, m.assigned)
		g.release(s, m.revoking)
		m.assigned, m.revoking = nil, nil
		m.epoch, m.previous, m.phase = 0, 0, Stable
		m.instance = j.Instance
		return m, false
	}
	m = &member{id: j.Member, instance: j.Instance}
	g.insert(m)
	return m, false
}

func (g *Group) rename(m *member, id string) {
	i, _ := g.place(m.id)
	g.members = slices.Delete(g.members, i, i+1)
	m.id = id
	g.insert(m)
}

func timeouts(j Join) (session, rebalance time.Duration) {
	if session = j.SessionTimeout; session <= 0 {
		session = DefaultSessionTimeout
	}
	switch rebalance = j.RebalanceTimeout; {
	case rebalance == 0:
		rebalance = DefaultRebalanceTimeout
	case rebalance < 0:
		rebalance = session
	}
	return session, rebalance
}
