package group

// Status is a group in a word, as Kafka lists it.
type Status string

const (
	Empty       Status = "Empty"       // no members
	Assigning   Status = "Assigning"   // waits for a target
	Reconciling Status = "Reconciling" // members are on their way to it
	Settled     Status = "Stable"      // all have what they are to have
)

// Description is a group as it is shown.
type Description struct {
	State
	Status   Status
	Assignor string
}

// Describe returns a copy of all there is to show.
func (g *Group) Describe() Description {
	return Description{g.Snapshot(), g.Status(), g.options.Assignor.Name()}
}

// Status returns how the group is.
func (g *Group) Status() Status {
	switch {
	case len(g.members) == 0:
		return Empty
	case g.targetEpoch < g.epoch:
		return Assigning
	}
	for _, m := range g.members {
		if !m.away() && (m.phase != Stable || m.epoch != g.targetEpoch) {
			return Reconciling
		}
	}
	return Settled
}

// Size is how many members there are, those that are away included.
func (g *Group) Size() int { return len(g.members) }

// Epoch is how often partitions were dealt out anew.
func (g *Group) Epoch() int32 { return g.epoch }
