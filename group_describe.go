package varve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/varvelog/varve/group"
)

// GroupStatus is a group in a word: Empty, Assigning, Reconciling, Stable.
type GroupStatus = group.Status

// GroupSummary is a group in a line.
type GroupSummary struct {
	ID         string
	Status     GroupStatus
	Members    int
	Partitions int   // in which it has a place
	Lag        int64 // over all of these
}

// GroupDescription is all there is to show of a group.
type GroupDescription struct {
	GroupSummary
	Epoch      int32 // rises when members, subscriptions or topics change
	Assignor   string
	MemberList []GroupMember
	// PartitionList are those in which the group has a place and those of the topics that
	// a member subscribes to, by topic and number.
	PartitionList []GroupPartition
}

// GroupMember is a member in a GroupDescription.
type GroupMember struct {
	ID, Instance string
	Topics       []string
	Epoch        int32
	Away         bool             // a static member that left and whose place is kept
	Owned        []TopicPartition // those it was told to let go of among them
	Revoking     []TopicPartition
}

// GroupPartition is a group's place in a partition.
type GroupPartition struct {
	Topic     string
	Partition int32
	Owner     string // id of a member, or ""

	Committed   Offset // -1: the group has no place
	CommittedAt time.Time
	Metadata    string

	Start, End Offset // of the log
	// Lag is how many offsets there are from the group's place, or the log start if that
	// is above, to the end; -1 where it has no place.
	Lag int64
	// Lost is how many offsets retention took before the group came to them.
	Lost int64
	// Above is what had been committed before a crash took the end of the log and the
	// place was brought down to what it left; -1 where that is not so, or since a commit.
	Above Offset
	// Err is why the partition cannot be opened.
	Err error
}

// Groups lists the groups that have members or a place, by id.
func (e *Engine) Groups() ([]GroupSummary, error) {
	all, err := e.groups.all()
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	list := make([]GroupSummary, 0, len(all))
	for _, g := range all {
		list = append(list, g.describe().GroupSummary)
	}
	return list, nil
}

// DescribeGroup describes a group, with its lag in each partition: ErrNoGroup where there
// is none.
func (e *Engine) DescribeGroup(groupID string) (GroupDescription, error) {
	g, err := e.groups.existing(groupID)
	if err != nil {
		return GroupDescription{}, fmt.Errorf("describe group %s: %w", groupID, err)
	}
	return g.describe(), nil
}

func (g *groupState) describe() GroupDescription {
	g.mu.Lock()
	machine := g.machine.Describe()
	g.mu.Unlock()
	known := g.coordinator.topics()
	d := GroupDescription{
		GroupSummary: GroupSummary{ID: g.id, Status: machine.Status, Members: len(machine.Members)},
		Epoch:        machine.Epoch, Assignor: machine.Assignor,
	}
	owners := map[group.Partition]string{}
	for _, m := range machine.Members {
		held := slices.Concat(m.Assigned, m.Revoke)
		for _, at := range held {
			owners[at] = m.ID
		}
		d.MemberList = append(d.MemberList, GroupMember{
			ID: m.ID, Instance: m.Instance, Topics: m.Topics, Epoch: m.Epoch, Away: m.Epoch == group.EpochAway,
			Owned: known.name(held), Revoking: known.name(m.Revoke),
		})
	}
	for _, at := range g.concerned(known, machine.Topics) {
		p := g.place(known.partition(at), at)
		p.Owner = owners[at]
		if p.Committed >= 0 {
			d.Partitions++
			d.Lag += p.Lag
		}
		d.PartitionList = append(d.PartitionList, p)
	}
	slices.SortFunc(d.PartitionList, func(a, b GroupPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return d
}

// name names partitions, but for those that do not exist any more.
func (k *catalog) name(list []group.Partition) []TopicPartition {
	var names []TopicPartition
	for _, at := range list {
		if t := k.ids[at.Topic]; t != nil {
			names = append(names, TopicPartition{t.name, at.Number})
		}
	}
	return names
}

// concerned are the partitions that a description of the group has: those with a commit,
// and those of topics.
func (g *groupState) concerned(known *catalog, topics []group.Topic) []group.Partition {
	var list []group.Partition
	for _, e := range g.table.entries() {
		list = append(list, e.at)
	}
	for _, t := range topics {
		for n := range t.Partitions {
			list = append(list, group.Partition{Topic: t.ID, Number: n})
		}
	}
	slices.SortFunc(list, group.Partition.Compare)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, func(at group.Partition) bool { return known.partition(at) == nil })
}

// place is where the group is in a partition.
func (g *groupState) place(p *Partition, at group.Partition) GroupPartition {
	d := GroupPartition{
		Topic: p.topic.name, Partition: p.index, Committed: -1, Start: p.Start(), End: p.End(), Lag: -1, Above: -1, Err: p.broken,
	}
	c, some := g.table.get(at)
	if !some {
		return d
	}
	d.Committed, d.CommittedAt, d.Metadata = c.Offset, c.Time, c.Metadata
	if was, lost := g.table.lost(at); lost {
		d.Above = was
	}
	if p.broken == nil {
		d.Lag = int64(max(d.End-max(c.Offset, d.Start), 0))
		d.Lost = int64(max(d.Start-c.Offset, 0))
	} else {
		d.Lag = 0 // nobody knows
	}
	return d
}
