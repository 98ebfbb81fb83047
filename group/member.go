package group

import (
	"slices"
	"strings"
	"time"
)

// Phase is how far a member is on its way to its target.
type Phase uint8

const (
	// Stable: the member has its target, or was not told of a newer one.
	Stable Phase = iota
	// Unrevoked: it was told to let go of partitions and did not say yet that it has.
	Unrevoked
	// Unreleased: it waits for partitions that others hold.
	Unreleased
)

func (p Phase) String() string {
	switch p {
	case Stable:
		return "stable"
	case Unrevoked:
		return "unrevoked"
	case Unreleased:
		return "unreleased"
	}
	return "unknown"
}

// Epochs of a member that left: what KIP-848 has a leaving member send.
const (
	EpochLeft int32 = -1
	EpochAway int32 = -2 // a static member that means to come back
)

type member struct {
	id       string
	instance string // of a static member, or empty
	topics   []string

	epoch    int32
	previous int32 // the epoch before: still taken where an answer may have got lost
	phase    Phase
	assigned []Partition // may work on
	revoking []Partition // was told to let go of, and holds until it says so
	target   []Partition

	session    time.Duration
	rebalance  time.Duration
	sessionEnd time.Time
	revokeEnd  time.Time // while unrevoked
}

func (m *member) away() bool { return m.epoch == EpochAway }

func (m *member) setEpoch(epoch int32) {
	if m.epoch != epoch {
		m.previous, m.epoch = m.epoch, epoch
	}
}

// deadline is when the member is put out unless it is heard of.
func (m *member) deadline() (time.Time, Reason) {
	if m.phase == Unrevoked && m.revokeEnd.Before(m.sessionEnd) {
		return m.revokeEnd, RebalanceTimeout
	}
	return m.sessionEnd, SessionTimeout
}

func (m *member) answer() Answer {
	return Answer{
		Member: m.id, Epoch: m.epoch, Phase: m.phase,
		Assigned: slices.Clone(m.assigned), Revoke: slices.Clone(m.revoking),
	}
}

// rank is the order in which assignors take members: static ones first, by
// instance id, so that a restart under another member id changes nothing.
func rank(a, b SpecMember) int {
	switch {
	case (a.Instance == "") != (b.Instance == ""):
		if a.Instance != "" {
			return -1
		}
		return 1
	case a.Instance != b.Instance:
		return strings.Compare(a.Instance, b.Instance)
	}
	return strings.Compare(a.ID, b.ID)
}
