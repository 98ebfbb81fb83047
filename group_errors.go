package varve

import (
	"errors"
	"fmt"
	"math"

	"github.com/varvelog/varve/group"
)

// Sentinel errors of consumer groups, matched with errors.Is.
var (
	// ErrNoGroup is returned where a group has neither members nor commits.
	ErrNoGroup = errors.New("group does not exist")
	// ErrGroupNotEmpty is returned by what needs a group without members: to delete it,
	// and to change its place from outside.
	ErrGroupNotEmpty = errors.New("group has members")
	// ErrNotOwner is returned by a member's call about a partition that it does not own.
	// Where it had it before, the partition is another member's to commit now.
	ErrNotOwner = errors.New("partition is not the member's")
	// ErrLeft is returned by the calls of a member that has left its group.
	ErrLeft = errors.New("member has left the group")
	// ErrNoCommit is returned by Member.Poll for a partition in which the group has no
	// place, where JoinOptions say that it must have one.
	ErrNoCommit = errors.New("group has no commit")

	errEnded = errors.New("group ends")
)

// Errors of consumer groups that say more, matched with errors.As.
type (
	// InstanceError says that an instance id belongs to a member that is alive.
	InstanceError = group.InstanceError
	// GroupFullError says that a group has as many members as it may.
	GroupFullError = group.FullError
	// MetadataError says that the metadata of a commit is too long.
	MetadataError = group.MetadataError
)

// FencedError is returned by every call of a member that was put out of its group: it
// did not poll, or did not let go of partitions, for too long. Its partitions are
// others' by now, and what it wanted to commit was not; whoever wants to go on joins
// anew.
type FencedError struct {
	Group, Member string
	Instance      string // of a static member
	Reason        string
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("group %s: member %s was put out: %s", e.Group, e.Member, e.Reason)
}

// PartitionError says which partition the error of a group's call is about.
type PartitionError struct {
	Topic     string
	Partition int32
	Err       error
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("%s/%d: %v", e.Topic, e.Partition, e.Err)
}

func (e *PartitionError) Unwrap() error { return e.Err }

// HeldError says that a publish was refused, or that its context ended while it waited,
// because a group is hold.max.bytes behind that hold.groups of the topic names. Nothing
// was stored. In the second case the error of the context matches too.
type HeldError struct {
	TopicPartition
	Group     string
	Committed Offset // the group's place; -1: it has none, and counts as at the log start
	Lag       int64  // offsets from there to the end of the log
	Bytes     int64  // of these
	Limit     int64  // hold.max.bytes
}

func (e *HeldError) Error() string {
	place := fmt.Sprintf("has committed offset %d", e.Committed)
	if e.Committed < 0 {
		place = "has no place in it"
	}
	return fmt.Sprintf("%s is held by group %s, which %s and is %d offsets and %d bytes behind: hold.max.bytes = %d",
		e.TopicPartition, e.Group, place, e.Lag, e.Bytes, e.Limit)
}

// GroupIDError says why a group cannot have an id.
type GroupIDError struct {
	ID     string
	Reason string
}

func (e *GroupIDError) Error() string { return fmt.Sprintf("group id %q %s", e.ID, e.Reason) }

// checkGroupID takes what Kafka takes: anything that is not empty and fits a record.
func checkGroupID(id string) error {
	switch {
	case id == "":
		return &GroupIDError{id, "is empty"}
	case len(id) > math.MaxInt16:
		return &GroupIDError{id[:32] + "…", fmt.Sprintf("has %d bytes, more than %d", len(id), math.MaxInt16)}
	}
	return nil
}
