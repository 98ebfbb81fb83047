package varve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// Reset says where a group is to go on.
type Reset struct {
	// Topics are those in which it is to, in all their partitions. Where there are neither
	// these nor Partitions: all partitions in which the group has a place.
	Topics     []string
	Partitions []TopicPartition

	// To is the new place in each of them.
	To Start
	// Shift, unless it is 0, moves each place by so many offsets in place of that, back
	// where it is negative, as far as there are records. A partition without a place is
	// an error, ErrNoCommit.
	Shift int64

	// DryRun has nothing done but checked and computed.
	DryRun bool
}

// ResetPlace is what a reset does to a group's place in a partition.
type ResetPlace struct {
	TopicPartition
	Old Offset // -1: it had none
	New Offset
}

// ResetGroup moves the places of a group that has no members, ErrGroupNotEmpty otherwise,
// durably, and says from where to where, by topic and partition. Metadata is not kept. An
// error leaves all places as they were; a *PartitionError says which partition it is
// about.
func (e *Engine) ResetGroup(ctx context.Context, groupID string, o Reset) ([]ResetPlace, error) {
	var moves []ResetPlace
	err := e.groups.with(groupID, func(g *groupState) (err error) {
		moves, err = g.reset(ctx, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reset group %s: %w", groupID, err)
	}
	return moves, nil
}

func (g *groupState) reset(ctx context.Context, o Reset) ([]ResetPlace, error) {
	known := g.coordinator.topics()
	list, err := g.chosen(known, o)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, ErrNoGroup
	}
	var moves []ResetPlace
	var commits []Commit
	for _, p := range list {
		move, err := g.move(ctx, known, p, o)
		if err != nil {
			return nil, &PartitionError{p.Topic, p.Partition, err}
		}
		moves = append(moves, move)
		commits = append(commits, Commit{Topic: p.Topic, Partition: p.Partition, Offset: move.New})
	}
	entries, err := g.entriesOf(commits)
	check := func() error { return g.checkCommit(nil, -1, entries) }
	switch {
	case err != nil:
	case o.DryRun:
		g.mu.Lock()
		err = check()
		g.mu.Unlock()
	default:
		err = g.commit(ctx, entries, check)
	}
	return moves, err
}

// chosen are the partitions that a reset is about, by topic and number.
func (g *groupState) chosen(known *catalog, o Reset) ([]TopicPartition, error) {
	list := slices.Clone(o.Partitions)
	for _, name := range o.Topics {
		t := known.names[name]
		if t == nil {
			return nil, fmt.Errorf("topic %s: %w", name, ErrNoTopic)
		}
		for i := range t.Partitions() {
			list = append(list, TopicPartition{name, int32(i)})
		}
	}
	if len(o.Topics) == 0 && len(o.Partitions) == 0 {
		for _, e := range g.table.entries() {
			if known.partition(e.at) != nil {
				list = append(list, TopicPartition{e.topic, e.at.Number})
			}
		}
	}
	slices.SortFunc(list, func(a, b TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return slices.Compact(list), nil
}

// move finds the new place in one partition.
func (g *groupState) move(ctx context.Context, known *catalog, at TopicPartition, o Reset) (ResetPlace, error) {
	m := ResetPlace{TopicPartition: at, Old: -1}
	id, err := known.find(at.Topic, at.Partition)
	if err != nil {
		return m, err
	}
	p := known.partition(id)
	if p.broken != nil {
		return m, p.broken
	}
	c, some := g.table.get(id)
	if some {
		m.Old = c.Offset
	}
	switch {
	case o.Shift == 0:
		m.New, err = o.To.resolve(ctx, p)
	case !some:
		err = ErrNoCommit
	default:
		m.New = shifted(c.Offset, o.Shift, p.Start(), p.End())
	}
	return m, err
}

// shifted moves an offset, as far as there are any.
func shifted(off Offset, by int64, start, end Offset) Offset {
	switch {
	case by >= int64(end-off):
		return end
	case by <= int64(start-off):
		return start
	}
	return off + Offset(by)
}
