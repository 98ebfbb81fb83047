package group

import "time"

// Leave takes a member out for good. What it held is free at once.
// Errors: *UnknownMemberError, *InstanceError; each changes nothing.
func (g *Group) Leave(now time.Time, id, instance string) (Decision, error) {
	s := g.begin(now)
	m, err := g.known(id, instance)
	if err != nil {
		return g.finish(s, nil), err
	}
	g.remove(s, now, m)
	g.bump(s)
	d := g.finish(s, nil)
	d.Answer = Answer{Member: id, Epoch: EpochLeft}
	return d, nil
}

// LeaveForNow takes leave of a static member that means to come back: its place
// is kept for its session timeout, and nothing moves meanwhile. A member
// without an instance id leaves for good.
// Errors: *UnknownMemberError, *InstanceError; each changes nothing.
func (g *Group) LeaveForNow(now time.Time, id, instance string) (Decision, error) {
	if m := g.find(id); m != nil && m.instance == "" {
		return g.Leave(now, id, instance)
	}
	s := g.begin(now)
	m, err := g.known(id, instance)
	if err != nil {
		return g.finish(s, nil), err
	}
	if !m.away() {
		g.release(s, m.revoking)
		m.revoking, m.phase = nil, Stable
		m.epoch, m.previous = EpochAway, EpochAway
		g.heard(m, now)
		s.Changed = true
	}
	d := g.finish(s, m)
	d.Answer = Answer{Member: id, Epoch: EpochAway}
	return d, nil
}
