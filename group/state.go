package group

import (
	"slices"
	"strconv"
	"time"
)

// State is what of a group is worth keeping: everything but the time left to
// its deadlines.
type State struct {
	ID                 string
	Epoch, TargetEpoch int32
	EmptySince         time.Time // zero while there are members
	Topics             []Topic   // that members subscribe to
	Members            []MemberState
}

// MemberState is a member in a State.
type MemberState struct {
	ID, Instance             string
	Topics                   []string
	SessionTimeout           time.Duration
	RebalanceTimeout         time.Duration
	Epoch, PreviousEpoch     int32
	Phase                    Phase
	Assigned, Revoke, Target []Partition
}

// Snapshot returns a copy of the group's state.
func (g *Group) Snapshot() State {
	s := State{
		ID: g.id, Epoch: g.epoch, TargetEpoch: g.targetEpoch,
		EmptySince: g.emptySince, Topics: slices.Clone(g.topics),
	}
	for _, m := range g.members {
		s.Members = append(s.Members, MemberState{
			ID: m.id, Instance: m.instance, Topics: slices.Clone(m.topics),
			SessionTimeout: m.session, RebalanceTimeout: m.rebalance,
			Epoch: m.epoch, PreviousEpoch: m.previous, Phase: m.phase,
			Assigned: slices.Clone(m.assigned), Revoke: slices.Clone(m.revoking), Target: slices.Clone(m.target),
		})
	}
	return s
}

// Restore returns the group that had this state. Every member has a full
// session timeout from now on, and a full rebalance timeout where it is to let
// go of partitions: nobody is put out for the time in which nobody listened. Of
// the topics it knows those in the state, until SetTopics. A state that no group
// can have been in is a *StateError.
func Restore(now time.Time, s State, o Options) (*Group, error) {
	g := New(s.ID, s.EmptySince, o)
	g.epoch, g.targetEpoch = s.Epoch, s.TargetEpoch
	g.topics = slices.Clone(s.Topics)
	g.catalog = Topics{}
	for _, t := range s.Topics {
		g.catalog[t.Name] = t
	}
	if g.targetEpoch < 0 || g.targetEpoch > g.epoch {
		return nil, &StateError{s.ID, "its target is of a later epoch"}
	}
	due := map[Partition]bool{}
	for _, ms := range s.Members {
		m := memberOf(ms)
		if reason := g.refuses(m, due); reason != "" {
			return nil, &StateError{s.ID, "member " + strconv.Quote(ms.ID) + " " + reason}
		}
		g.insert(m)
		m.revokeEnd = now.Add(m.rebalance)
		g.heard(m, now)
	}
	if len(g.members) == 0 && g.emptySince.IsZero() {
		g.emptySince = now
	}
	return g, nil
}

func memberOf(s MemberState) *member {
	m := &member{
		id: s.ID, instance: s.Instance, topics: namesOf(s.Topics),
		epoch: s.Epoch, previous: s.PreviousEpoch, phase: s.Phase,
		assigned: setOf(s.Assigned), revoking: setOf(s.Revoke), target: setOf(s.Target),
	}
	m.session, m.rebalance = timeouts(Join{SessionTimeout: s.SessionTimeout, RebalanceTimeout: s.RebalanceTimeout})
	return m
}

// refuses says what makes a member of a state impossible, and enters what it
// holds and is due.
func (g *Group) refuses(m *member, due map[Partition]bool) string {
	switch {
	case m.id == "" || g.find(m.id) != nil:
		return "has no id of its own"
	case g.holder(m.instance) != nil:
		return "has no instance id of its own"
	case m.epoch < EpochAway || m.epoch == EpochLeft || m.epoch > g.targetEpoch || m.previous > m.epoch && !m.away():
		return "has an epoch that cannot be"
	case m.away() && (m.instance == "" || m.phase != Stable):
		return "is away and not static"
	case m.phase > Unreleased || (m.phase == Unrevoked) != (len(m.revoking) > 0):
		return "has a phase that cannot be"
	case m.phase == Unrevoked && m.epoch == g.targetEpoch:
		return "revokes what it was given"
	}
	for _, p := range slices.Concat(m.assigned, m.revoking) {
		if !g.free(p) {
			return "holds a partition that is held"
		}
		g.owners[p] = m
	}
	for _, p := range m.target {
		if due[p] {
			return "is due a partition that another is due"
		}
		due[p] = true
	}
	return ""
}
