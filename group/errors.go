package group

import (
	"errors"
	"fmt"
)

// ErrNoMemberID is returned by Join where the member has no id. Whoever speaks
// for the member makes one, for each life of a process another.
var ErrNoMemberID = errors.New("join a group: a member needs an id")

// UnknownMemberError is the answer to whoever is not in the group: never
// joined, left, or was fenced by a timeout. The member gives up its partitions
// and joins anew. Kafka's UNKNOWN_MEMBER_ID.
type UnknownMemberError struct {
	Group, Member string
}

func (e *UnknownMemberError) Error() string {
	return fmt.Sprintf("group %s: no member %q", e.Group, e.Member)
}

// FencedError is the answer to a member whose epoch is not the one it has in
// the group. It gives up its partitions and joins anew. Kafka's
// FENCED_MEMBER_EPOCH, and STALE_MEMBER_EPOCH where CheckCommit returns it.
type FencedError struct {
	Group, Member string
	Epoch         int32 // the one it came with
	Current       int32 // the one it has; -2 when it left and its place is kept
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("group %s, member %s: fenced: epoch %d, and it has %d", e.Group, e.Member, e.Epoch, e.Current)
}

// InstanceError says that an instance id belongs to another member, Holder. From
// Join: the holder is alive, and has the place until it leaves or its session
// ends (Kafka's UNRELEASED_INSTANCE_ID). From any other call: the caller was
// replaced (FENCED_INSTANCE_ID).
type InstanceError struct {
	Group, Member, Instance, Holder string
}

func (e *InstanceError) Error() string {
	return fmt.Sprintf("group %s, member %s: instance id %q belongs to member %s", e.Group, e.Member, e.Instance, e.Holder)
}

// FullError is returned by Join where the group has as many members as it may.
// Kafka's GROUP_MAX_SIZE_REACHED.
type FullError struct {
	Group string
	Max   int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("group %s: full: it may have %d members", e.Group, e.Max)
}

// StateError is returned by Restore for a state that no group can have been in.
type StateError struct {
	Group, Reason string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("restore group %s: %s", e.Group, e.Reason)
}
