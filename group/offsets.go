package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/varvelog/varve/record"
)

// MaxMetadata is how long the metadata of a commit may be, in UTF-16 units, as
// Kafka counts it (offset.metadata.max.bytes).
const MaxMetadata = 4096

// MetadataError is returned by Offsets.Set for metadata that is too long. Kafka's
// OFFSET_METADATA_TOO_LARGE.
type MetadataError struct {
	Partition Partition
	Length    int // UTF-16 units
}

func (e *MetadataError) Error() string {
	return fmt.Sprintf("commit %s: %d units of metadata, %d are allowed", e.Partition, e.Length, MaxMetadata)
}

// Commit is a committed offset: every record below it was processed.
type Commit struct {
	Offset      record.Offset
	LeaderEpoch record.Epoch // of the last record processed; -1: unknown
	Metadata    string       // whatever whoever commits likes
	Time        time.Time    // when it was committed

	// Expires is a time of its own to expire at, from clients of Kafka before
	// KIP-211. Zero: as Expiry says.
	Expires time.Time
}

// Offsets are the committed offsets of one group. The zero value is empty. It is
// not safe for concurrent use.
//
// Partitions go by topic id, so a topic that is deleted and made anew has no
// commits, whatever is still here of the first (KAFKA-2000).
type Offsets struct {
	topics map[TopicID]map[int32]Commit
}

// Set enters a commit in place of the last one, or returns a *MetadataError and
// changes nothing. That offsets may go down is what a reset needs.
func (o *Offsets) Set(p Partition, c Commit) error {
	if n := unitsOf(c.Metadata); n > MaxMetadata {
		return &MetadataError{p, n}
	}
	if o.topics == nil {
		o.topics = map[TopicID]map[int32]Commit{}
	}
	if o.topics[p.Topic] == nil {
		o.topics[p.Topic] = map[int32]Commit{}
	}
	o.topics[p.Topic][p.Number] = c
	return nil
}

// unitsOf counts UTF-16 units, as Java's String.length does.
func unitsOf(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// Get returns the last commit, or false where there is none.
func (o *Offsets) Get(p Partition) (Commit, bool) {
	c, found := o.topics[p.Topic][p.Number]
	return c, found
}

// Delete forgets a commit, and says whether there was one.
func (o *Offsets) Delete(p Partition) bool {
	commits := o.topics[p.Topic]
	_, found := commits[p.Number]
	if delete(commits, p.Number); len(commits) == 0 {
		delete(o.topics, p.Topic)
	}
	return found
}

// DropTopic forgets all commits of a topic, and returns whose they were.
func (o *Offsets) DropTopic(id TopicID) []Partition {
	dropped := partitionsOf(id, o.topics[id])
	delete(o.topics, id)
	return dropped
}

// Len returns how many partitions have a commit.
func (o *Offsets) Len() int {
	n := 0
	for _, commits := range o.topics {
		n += len(commits)
	}
	return n
}

// Partitions lists those that have a commit, in order.
func (o *Offsets) Partitions() []Partition {
	var all []Partition
	for id, commits := range o.topics {
		all = append(all, partitionsOf(id, commits)...)
	}
	return setOf(all)
}

func partitionsOf(id TopicID, commits map[int32]Commit) []Partition {
	var list []Partition
	for _, number := range slices.Sorted(maps.Keys(commits)) {
		list = append(list, Partition{id, number})
	}
	return list
}
