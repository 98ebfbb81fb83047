package group

import (
	"slices"
	"time"
)

// advance takes a member as far towards its target as it may go. Owned is what
// it says it works on, or nil. The steps are those of KIP-848: let go of what is
// no longer the member's, say so, then take what is free.
func (g *Group) advance(s *step, now time.Time, m *member, owned []Partition) {
	switch m.phase {
	case Stable:
		if g.newer(m) {
			g.settle(s, now, m, m.epoch, owned)
		}
	case Unrevoked:
		if !letGo(m.revoking, owned) {
			return
		}
		g.release(s, m.revoking)
		m.revoking = nil
		// A step up for each revocation, so that an answer from before it is told apart.
		g.settle(s, now, m, m.epoch+1, owned)
	case Unreleased:
		g.settle(s, now, m, m.epoch, owned)
	}
}

// newer says whether there is a target that a stable member is not at. While a
// target is waited for, who has just joined stays at epoch 0: the last target was
// not made for it, and its epoch may be that of an earlier life under the same id.
func (g *Group) newer(m *member) bool {
	return m.epoch != g.targetEpoch && (m.epoch > 0 || g.targetEpoch == g.epoch)
}

// letGo says whether a member that reports owned works on none of the partitions.
func letGo(partitions, owned []Partition) bool {
	if owned == nil {
		return false
	}
	still, _ := split(partitions, owned)
	return len(still) == 0
}

// settle holds what the member may work on against its target: what must go it
// is told to let go of first; only then does it get what is free, and the
// target's epoch.
func (g *Group) settle(s *step, now time.Time, m *member, epoch int32, owned []Partition) {
	keep, drop := split(m.assigned, m.target)
	if len(drop) > 0 && !letGo(drop, owned) {
		m.assigned, m.revoking = keep, drop
		m.setEpoch(epoch)
		m.phase = Unrevoked
		m.revokeEnd = now.Add(m.rebalance)
		g.expect(m)
		s.Changed = true
		return
	}
	g.release(s, drop)
	_, want := split(m.target, keep)
	m.phase = Stable
	var take []Partition
	for _, p := range want {
		if !g.free(p) {
			m.phase = Unreleased
			continue
		}
		take = append(take, p)
		g.owners[p] = m
	}
	if len(drop) > 0 || len(take) > 0 || m.epoch != g.targetEpoch {
		s.Changed = true
	}
	m.assigned = union(keep, take)
	m.setEpoch(g.targetEpoch)
}

// free says whether nobody may still work on the partition.
func (g *Group) free(p Partition) bool { return g.owners[p] == nil }

// release makes partitions free for whoever is to have them.
func (g *Group) release(s *step, partitions []Partition) {
	for _, p := range partitions {
		delete(g.owners, p)
	}
	s.released = append(s.released, partitions...)
}

// Owner returns the member that may work on the partition now, or false. A
// partition that is being revoked is still its old owner's, until it lets go.
func (g *Group) Owner(p Partition) (id string, owned bool) {
	if m := g.owners[p]; m != nil {
		return m.id, true
	}
	return "", false
}

// SetTopics tells the group which topics there are, and of how many partitions.
func (g *Group) SetTopics(now time.Time, topics Topics) Decision {
	s := g.begin(now)
	g.catalog = topics
	if !slices.Equal(g.subscribed(), g.topics) {
		g.bump(s)
	}
	return g.finish(s, nil)
}
