package group

import (
	"cmp"
	"fmt"
	"slices"
)

// TopicID tells topics of one name apart: one that was deleted and made anew
// is another topic, and nobody who held a partition of the first holds one of
// the second.
type TopicID [16]byte

// Partition names a partition of a topic by the topic's id.
type Partition struct {
	Topic  TopicID
	Number int32
}

// Compare orders by topic id, then by number: the order of every list of
// partitions that this package hands out.
func (p Partition) Compare(q Partition) int {
	if p.Topic == q.Topic {
		return cmp.Compare(p.Number, q.Number)
	}
	return slices.Compare(p.Topic[:], q.Topic[:])
}

func (p Partition) String() string { return fmt.Sprintf("%x/%d", p.Topic, p.Number) }

// Topic is what a group needs to know of one.
type Topic struct {
	Name       string
	ID         TopicID
	Partitions int32
}

// Topics are all topics there are, by name. A group keeps the map it is
// given, so that many groups share one: it must not be changed afterwards.
type Topics map[string]Topic

// Lists of partitions are sets: sorted, without doubles. They are replaced and
// never changed, so one list may stand in several places.

// setOf returns the set of what is in list, which may come in any order.
func setOf(list []Partition) []Partition {
	set := slices.Clone(list)
	slices.SortFunc(set, Partition.Compare)
	return slices.Compact(set)
}

func contains(set []Partition, p Partition) bool {
	_, found := slices.BinarySearchFunc(set, p, Partition.Compare)
	return found
}

// split parts a set into what is in other and what is not.
func split(set, other []Partition) (in, out []Partition) {
	for _, p := range set {
		for len(other) > 0 && other[0].Compare(p) < 0 {
			other = other[1:]
		}
		if len(other) > 0 && other[0] == p {
			in = append(in, p)
		} else {
			out = append(out, p)
		}
	}
	return in, out
}

func union(a, b []Partition) []Partition {
	return setOf(slices.Concat(a, b))
}

// namesOf returns the set of names, sorted; it is never nil.
func namesOf(names []string) []string {
	set := append([]string{}, names...)
	slices.Sort(set)
	return slices.Compact(set)
}
