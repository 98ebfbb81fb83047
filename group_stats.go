package varve

import (
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/group"
)

// GroupStats are the figures of a group. Counters count since the engine was opened, or
// since the group began, if that is later.
type GroupStats struct {
	ID          string
	Members     int
	Rebalances  int64 // times that partitions were dealt out anew
	PutOut      int64 // members that were late
	Rebalancing bool  // members are on their way to what they are to have
	Handled     HandledStats

	group *groupState
	known *catalog
}

// PlaceStats are the figures of a group's place in a partition.
type PlaceStats struct {
	Topic     string
	Partition int32

	Committed Offset
	// Lag and Lost are those of GroupPartition.
	Lag, Lost int64
	// Distance is how many records lie between the log start and the first that the group
	// has not read: retention takes these before it takes one the group has yet to read.
	// -1 where it has read all there is.
	Distance int64
	// TimeLeft is when retention by age may take that first record, at the earliest: what
	// goes then is a whole segment, behind those in front of it. 0: now; -1: age takes
	// nothing here, or the group has read all there is.
	TimeLeft time.Duration
}

// groupSeen are the figures of a machine, for who must not have its group wait.
type groupSeen struct {
	members    atomic.Int64
	rebalances atomic.Int64
	putOut     atomic.Int64
	unsettled  atomic.Bool
}

// note takes over what an event has changed.
func (s *groupSeen) note(m *group.Group, putOut int) {
	status := m.Status()
	s.members.Store(int64(m.Size()))
	s.rebalances.Store(int64(m.Epoch()))
	s.putOut.Add(int64(putOut))
	s.unsettled.Store(status == group.Assigning || status == group.Reconciling)
}

// GroupStats are the figures of the groups that have members or a place, by id. The first
// call about any group reads their commits; apart from that it waits for nobody, and
// nobody for it who publishes, polls or commits.
func (e *Engine) GroupStats() ([]GroupStats, error) {
	if err := e.groups.ready(); err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	known := e.groups.topics()
	var list []GroupStats
	for _, g := range e.groups.list() {
		s := GroupStats{
			ID: g.id, Members: int(g.seen.members.Load()), Rebalances: g.seen.rebalances.Load(), PutOut: g.seen.putOut.Load(),
			Rebalancing: g.seen.unsettled.Load(), Handled: g.handled.read(), group: g, known: known,
		}
		if s.Members > 0 || g.table.any() {
			list = append(list, s)
		}
	}
	return list, nil
}

// any says whether there is a commit, without the lock.
func (t *commitTable) any() (some bool) {
	t.places.Range(func(any, any) bool {
		some = true
		return false
	})
	return some
}

// Places goes through the partitions in which the group has a place, in no order, but for
// those that could not be opened. It allocates nothing for each.
func (s *GroupStats) Places() iter.Seq[PlaceStats] {
	return func(yield func(PlaceStats) bool) {
		s.group.table.all(func(at group.Partition, committed Offset) bool {
			p := s.known.partition(at)
			return p == nil || p.log == nil || yield(p.placeStats(committed))
		})
	}
}

// placeStats are the figures of a place in the partition.
func (p *Partition) placeStats(committed Offset) PlaceStats {
	start, end := p.Start(), p.End()
	s := PlaceStats{
		Topic: p.topic.name, Partition: p.index, Committed: committed,
		Lag: int64(max(end-max(committed, start), 0)), Lost: int64(max(start-committed, 0)), Distance: -1, TimeLeft: -1,
	}
	if s.Lag == 0 {
		return s
	}
	s.Distance = int64(max(committed-start, 0))
	if at, limited := p.log.Expires(committed); limited {
		s.TimeLeft = max(time.UnixMilli(at).Sub(time.UnixMilli(p.topic.engine.env.Now())), 0)
	}
	return s
}
