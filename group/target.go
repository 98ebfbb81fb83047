package group

import (
	"slices"
	"strings"
	"time"
)

// Assignor makes targets: who is to have which partition. It decides nothing
// about when: the group gives a partition away only when it is free.
type Assignor interface {
	Name() string

	// Assign returns the target by member id, or false when there is none for now:
	// one that waits for a client to make it, until Group.Reassign. A group that
	// gets none keeps the one it has. It must give the same for the same spec.
	// Whatever is wrong in it (a partition twice, one that does not exist, an
	// unknown member) is left out.
	Assign(Spec) (Target, bool)
}

// Spec is what a target is made from.
type Spec struct {
	Epoch   int32        // of the group: the target's
	Members []SpecMember // static ones first, by instance id; then the others, by id
	Topics  []Topic      // those that are subscribed to, by name
}

// SpecMember is a member in a Spec.
type SpecMember struct {
	ID, Instance string
	Topics       []string    // it subscribes to, sorted; some may not exist
	Current      []Partition // its target so far
	Holds        []Partition // what it works on now and was not asked for
}

// Target is an assignment, by member id.
type Target map[string][]Partition

// Reassign asks the assignor again, without anything else having changed: for
// one whose targets come from outside, when one has come.
func (g *Group) Reassign(now time.Time) Decision {
	s := g.begin(now)
	if g.targetEpoch == g.epoch {
		g.epoch++
		s.Changed = true
	}
	g.retarget(s)
	return g.finish(s, nil)
}

// bump makes a new epoch and a target for it.
func (g *Group) bump(s *step) {
	g.epoch++
	s.Changed = true
	g.topics = g.subscribed()
	g.retarget(s)
}

func (g *Group) retarget(s *step) {
	if len(g.members) == 0 {
		s.Changed = s.Changed || g.targetEpoch != g.epoch
		g.targetEpoch = g.epoch
		return
	}
	target, made := g.options.Assignor.Assign(g.spec())
	if !made {
		return
	}
	open := openPartitions(g.topics)
	for _, m := range g.members {
		m.target = open.take(target[m.id])
	}
	g.targetEpoch = g.epoch
	s.retargeted, s.Changed = true, true
}

func (g *Group) spec() Spec {
	spec := Spec{Epoch: g.epoch, Topics: slices.Clone(g.topics)}
	for _, m := range g.members {
		spec.Members = append(spec.Members, SpecMember{
			ID: m.id, Instance: m.instance, Topics: slices.Clone(m.topics),
			Current: slices.Clone(m.target), Holds: slices.Clone(m.assigned),
		})
	}
	slices.SortFunc(spec.Members, rank)
	return spec
}

// subscribed lists the topics that exist and that a member wants, by name.
func (g *Group) subscribed() []Topic {
	seen := map[string]bool{}
	var topics []Topic
	for _, m := range g.members {
		for _, name := range m.topics {
			if t, exists := g.catalog[name]; exists && !seen[name] {
				topics = append(topics, t)
			}
			seen[name] = true
		}
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics
}

// unclaimed has, for each topic, which partitions nobody got so far.
type unclaimed map[TopicID][]bool

func openPartitions(topics []Topic) unclaimed {
	open := unclaimed{}
	for _, t := range topics {
		open[t.ID] = slices.Repeat([]bool{true}, int(max(t.Partitions, 0)))
	}
	return open
}

// take returns the set of those in list that exist and are unclaimed, and claims them.
func (u unclaimed) take(list []Partition) []Partition {
	var set []Partition
	for _, p := range list {
		open := u[p.Topic]
		if p.Number >= 0 && int(p.Number) < len(open) && open[p.Number] {
			open[p.Number] = false
			set = append(set, p)
		}
	}
	slices.SortFunc(set, Partition.Compare)
	return set
}
