package varve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/record"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (p TopicPartition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Commit is a group's place in a partition: every record below Offset was processed.
type Commit struct {
	Topic     string
	Partition int32
	Offset    Offset
	Metadata  string // whatever whoever commits likes, at most 4,096 UTF-16 units

	// LeaderEpoch is that of the last record processed, -1 where it is not known, and Time
	// when it was committed. Neither is looked at in what is to be committed.
	LeaderEpoch record.Epoch
	Time        time.Time
}

// CommitOffsets sets the place of a group that has no members, ErrGroupNotEmpty
// otherwise: of a program that keeps its place in a group without joining it, or to
// move the place of a group that is at rest. The group is made where there is none. It
// is all or nothing for the checks, which come first: an offset below 0 or above the end
// of the partition is an *OutOfRangeError, metadata too long a *MetadataError. When it
// returns the commits are on stable storage.
func (e *Engine) CommitOffsets(ctx context.Context, groupID string, commits ...Commit) error {
	err := ctx.Err()
	if err == nil {
		err = e.groups.with(groupID, func(g *groupState) error {
			list, err := g.entriesOf(commits)
			if err != nil || len(list) == 0 {
				return err
			}
			return g.commit(ctx, list, func() error { return g.checkCommit(nil, -1, list) })
		})
	}
	if err != nil {
		return fmt.Errorf("commit for group %s: %w", groupID, err)
	}
	return nil
}

// entriesOf checks commits and turns them into entries.
func (g *groupState) entriesOf(commits []Commit) ([]entry, error) {
	known, now := g.coordinator.topics(), g.coordinator.commitTime()
	list := make([]entry, 0, len(commits))
	for i := range commits {
		c := &commits[i]
		at, err := known.find(c.Topic, c.Partition)
		if err == nil {
			err = checkPlace(known.partition(at), c)
		}
		if err != nil {
			return nil, &PartitionError{c.Topic, c.Partition, err}
		}
		list = append(list, entry{c.Topic, at, &group.Commit{Offset: c.Offset, LeaderEpoch: -1, Metadata: c.Metadata, Time: now}})
	}
	return list, nil
}

// find names a partition by the id of its topic.
func (k *catalog) find(topic string, number int32) (group.Partition, error) {
	t := k.names[topic]
	if t == nil {
		return group.Partition{}, ErrNoTopic
	}
	at := group.Partition{Topic: group.TopicID(t.id), Number: number}
	if k.partition(at) == nil {
		return at, ErrNoPartition
	}
	return at, nil
}

// checkPlace says why a commit cannot be one of the partition.
func checkPlace(p *Partition, c *Commit) error {
	if p.broken != nil {
		return p.broken
	}
	if c.Offset < 0 || c.Offset > p.End() {
		return p.outOfRange(c.Offset)
	}
	var o group.Offsets // it knows how long metadata may be
	return o.Set(group.Partition{Number: c.Partition}, group.Commit{Metadata: c.Metadata})
}

// Commits lists the places of a group, by topic and partition; those in topics that were
// deleted are not among them. ErrNoGroup where there is no such group.
func (e *Engine) Commits(groupID string) ([]Commit, error) {
	g, err := e.groups.existing(groupID)
	if err != nil {
		return nil, fmt.Errorf("commits of group %s: %w", groupID, err)
	}
	known := e.groups.topics()
	var list []Commit
	for _, en := range g.table.entries() {
		if known.ids[en.at.Topic] != nil {
			list = append(list, commitOf(&en))
		}
	}
	slices.SortFunc(list, func(a, b Commit) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return list, nil
}

func commitOf(e *entry) Commit {
	c := e.commit
	return Commit{e.topic, e.at.Number, c.Offset, c.Metadata, c.LeaderEpoch, c.Time}
}

// DeleteGroup deletes a group with all it has committed, durably: ErrNoGroup where there
// is none, ErrGroupNotEmpty where it has members. Then it is taken out of hold.groups of
// all topics; a crash between the two leaves it there.
func (e *Engine) DeleteGroup(groupID string) error {
	g, err := e.groups.existing(groupID)
	if err == nil {
		err = g.delete()
	}
	if err == nil {
		err = e.letGo(groupID)
	}
	if err != nil {
		return fmt.Errorf("delete group %s: %w", groupID, err)
	}
	return nil
}

// DeleteCommits makes a group without members forget its places in a topic, durably.
func (e *Engine) DeleteCommits(ctx context.Context, groupID, topic string) error {
	err := e.groups.forget(ctx, groupID, topic)
	if err != nil {
		return fmt.Errorf("delete commits of group %s in topic %s: %w", groupID, topic, err)
	}
	return nil
}

func (c *coordinator) forget(ctx context.Context, groupID, topic string) error {
	g, err := c.existing(groupID)
	if err != nil {
		return err
	}
	t := c.topics().names[topic]
	if t == nil {
		return ErrNoTopic
	}
	var list []entry
	for _, en := range g.table.entries() {
		if en.at.Topic == group.TopicID(t.id) {
			list = append(list, entry{topic: en.topic, at: en.at})
		}
	}
	if len(list) == 0 {
		return nil
	}
	err = g.commit(ctx, list, func() error { return g.checkCommit(nil, -1, list) })
	if errors.Is(err, errEnded) {
		return ErrNoGroup
	}
	return err
}
