// Package group decides, for one consumer group, who holds which partition, and
// keeps what the group has committed. It is a state machine: events go in
// (somebody joins, is heard of, leaves; topics change; time passes), decisions
// come out, and nothing in it waits, sends or looks at a clock.
//
// Begin with Group and Decision; Assignor is what makes targets, State what is
// worth keeping, Offsets the table of commits.
//
// # The rule
//
// At no time may two members work on a partition. A member is given one only
// after whoever had it said that it let go of it, left, or was put out by a
// timeout; from then on what the former holder sends is answered with an error
// and changes nothing. This is kept in one place, Group.owners, in which a
// partition stands until it is released, whatever targets say meanwhile.
//
// # How a group moves
//
// The model is KIP-848's. Whatever changes the group's members, their
// subscriptions or the topics raises the group's epoch, and the assignor makes a
// target for it. Each member goes to its target by itself, a step a heartbeat:
//
//	          told to let go of some             says that it has
//	Stable ───────────────────────────► Unrevoked ───────┐
//	  ▲ ▲    target is newer                             │
//	  │ └────────────────────────────────────────────────┤ the rest is free: takes it,
//	  │                                                  ▼ gets the target's epoch
//	  └──────────────────────────────────────────── Unreleased
//	         the last one it waits for is free       others hold some of the rest
//
// What a member keeps it works on all the time; only what moves stands still, and
// that until two heartbeats have come, which Decision.Wake is for. A member that
// does not let go within its rebalance timeout is put out, and so is one that is
// not heard of within its session timeout.
//
// A member's requests come with the epoch of its last answer. An answer that got
// lost does no harm: the epoch before is accepted too, from a member that owns no
// more than it may; but only with the present epoch does it let go of anything.
// Whoever lost its place comes back with Join, under the same id or another.
//
// A static member has an instance id. Its place outlives a restart: the process
// leaves for now, and the next one with the instance id gets what it had. While
// the member is alive nobody else can have its instance id.
//
// # The classic protocol
//
// A generation of the classic protocol is the group's epoch. A client side assignor
// is an Assignor that has no target until the leader sends one, which
// Group.Reassign then asks it for; what the leader gives twice or to nobody is left
// out. Members that let go of everything when they join are that by Join itself:
// whoever joins owns nothing.
//
// # What it does not do
//
// It is not safe for concurrent use, makes no ids, resolves no patterns, and
// stores nothing: whoever owns a Group calls it with one event after the other,
// and keeps its State and its commits. The bytes that Kafka keeps them in are in
// package kafkaoffsets.
package group
