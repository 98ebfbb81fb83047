package group

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawSpec makes a spec. Members that are alike subscribe to all topics; the
// targets so far are what the last ones were, with some of it wrong.
func drawSpec(t *rapid.T, alike bool) Spec {
	s := Spec{Epoch: 1}
	for i := range rapid.IntRange(0, 6).Draw(t, "topics") {
		name := fmt.Sprintf("t%d", i)
		s.Topics = append(s.Topics, Topic{name, topicID(name), int32(rapid.IntRange(0, 12).Draw(t, "partitions"))})
	}
	for i := range rapid.IntRange(1, 9).Draw(t, "members") {
		m := SpecMember{ID: fmt.Sprintf("m%d", i)}
		if rapid.Bool().Draw(t, "static") {
			m.Instance = fmt.Sprintf("i%d", 9-i)
		}
		for _, topic := range s.Topics {
			if alike || rapid.Bool().Draw(t, "subscribes") {
				m.Topics = append(m.Topics, topic.Name)
			}
		}
		s.Members = append(s.Members, m)
	}
	slices.SortFunc(s.Members, rank)
	for _, p := range append(partitionsIn(s), Partition{topicID("gone"), 0}, Partition{topicID("t0"), 99}) {
		m := rapid.IntRange(-1, len(s.Members)-1).Draw(t, "current")
		if m >= 0 {
			s.Members[m].Current = append(s.Members[m].Current, p)
		}
		if h := rapid.IntRange(-1, len(s.Members)-1).Draw(t, "holder"); h >= 0 {
			s.Members[h].Holds = append(s.Members[h].Holds, p)
		}
	}
	return s
}

func topicID(name string) (id TopicID) {
	copy(id[:], name)
	return id
}

func partitionsIn(s Spec) []Partition {
	var all []Partition
	for _, t := range s.Topics {
		for number := range t.Partitions {
			all = append(all, Partition{t.ID, number})
		}
	}
	return all
}

func (s Spec) nameOf(id TopicID) string {
	for _, t := range s.Topics {
		if t.ID == id {
			return t.Name
		}
	}
	return ""
}

// checkTarget holds what is true of any target: each partition that somebody
// subscribes to is one member's, who subscribes to it.
func checkTarget(t *rapid.T, s Spec, target Target) map[Partition]string {
	owners := map[Partition]string{}
	for _, m := range s.Members {
		for _, p := range target[m.ID] {
			if !slices.Contains(m.Topics, s.nameOf(p.Topic)) {
				t.Fatalf("%s has %v and does not subscribe to it", m.ID, p)
			}
			if owners[p] != "" {
				t.Fatalf("%v is given to %s and to %s", p, owners[p], m.ID)
			}
			owners[p] = m.ID
		}
	}
	takers := takersOf(s)
	for i, topic := range s.Topics {
		for number := range topic.Partitions {
			p := Partition{topic.ID, number}
			if (owners[p] != "") != (len(takers[i]) > 0) {
				t.Fatalf("%v has the owner %q and %d subscribers", p, owners[p], len(takers[i]))
			}
		}
	}
	if n := len(slices.Concat(slices.Collect(maps.Values(target))...)); n != len(owners) {
		t.Fatalf("the target has %d partitions for %d", n, len(owners))
	}
	return owners
}

func assign(t *rapid.T, a Assignor, s Spec) Target {
	target, made := a.Assign(s)
	if !made {
		t.Fatal("no target")
	}
	for range 3 {
		if again, _ := a.Assign(s); !reflect.DeepEqual(again, target) {
			t.Fatalf("the same spec gives %v and %v", target, again)
		}
	}
	return target
}

func TestRangeIsOneRangeEachAndAlikeForTopicsThatAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, rapid.Bool().Draw(t, "alike"))
		target := assign(t, Range{}, s)
		checkTarget(t, s, target)
		takers := takersOf(s)
		ranges := map[string]map[string][2]int32{}
		for i, topic := range s.Topics {
			ranges[topic.Name] = map[string][2]int32{}
			for _, m := range takers[i] {
				id := s.Members[m].ID
				var numbers []int32
				for _, p := range target[id] {
					if p.Topic == topic.ID {
						numbers = append(numbers, p.Number)
					}
				}
				n := int32(len(numbers))
				least := topic.Partitions / int32(len(takers[i]))
				if n < least || n > least+1 {
					t.Fatalf("%s has %d of %d partitions of %s, which %d share", id, n, topic.Partitions, topic.Name, len(takers[i]))
				}
				if n > 0 {
					ranges[topic.Name][id] = [2]int32{slices.Min(numbers), slices.Max(numbers)}
					if slices.Max(numbers)-slices.Min(numbers) != n-1 {
						t.Fatalf("%s has %v of %s, which is no range", id, numbers, topic.Name)
					}
				}
			}
			for j, other := range s.Topics[:i] {
				alike := other.Partitions == topic.Partitions && slices.Equal(takers[i], takers[j])
				if alike && !maps.Equal(ranges[other.Name], ranges[topic.Name]) {
					t.Fatalf("%s is parted %v and %s %v", topic.Name, ranges[topic.Name], other.Name, ranges[other.Name])
				}
			}
		}
	})
}

// Where all subscribe to the same, loads differ by one at most, and no target that
// even moves fewer partitions than this one.
func TestUniformIsEvenAndMovesNoMoreThanItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, true)
		target := assign(t, Uniform{}, s)
		checkTarget(t, s, target)
		all := len(partitionsIn(s))
		var kept, loads []int
		moved := 0
		for _, m := range s.Members {
			loads = append(loads, len(target[m.ID]))
			valid, _ := split(setOf(m.Current), partitionsIn(s))
			_, left := split(valid, setOf(target[m.ID]))
			kept = append(kept, len(valid))
			moved += len(left)
		}
		if slices.Max(loads)-slices.Min(loads) > 1 {
			t.Fatalf("loads of %v", loads)
		}
		slices.SortFunc(kept, func(a, b int) int { return cmp.Compare(b, a) })
		must := 0
		for i, n := range kept {
			quota := all / len(kept)
			if i < all%len(kept) {
				quota++
			}
			must += max(0, n-quota)
		}
		if moved != must {
			t.Fatalf("%d partitions move, and %d have to: %+v\n%v", moved, must, s, target)
		}
	})
}

// Where subscriptions differ, the sum of the squares of the loads, which measures how
// uneven they are, is the least there can be. The reference is another
// way to find that: successive cheapest paths, one partition after the other.
func TestUniformIsAsEvenAsSubscriptionsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, false)
		target := assign(t, Uniform{}, s)
		checkTarget(t, s, target)
		got := 0
		for _, m := range s.Members {
			got += len(target[m.ID]) * len(target[m.ID])
		}
		if want := leastSquares(s); got != want {
			t.Fatalf("squares of loads sum up to %d, and %d is possible: %+v\n%v", got, want, s, target)
		}
		for i := range s.Members {
			s.Members[i].Current = target[s.Members[i].ID]
			s.Members[i].Holds = nil
		}
		if again := assign(t, Uniform{}, s); !sameTarget(s, target, again) {
			t.Fatalf("with nothing changed %v becomes %v", target, again)
		}
	})
}

func sameTarget(s Spec, a, b Target) bool {
	return !slices.ContainsFunc(s.Members, func(m SpecMember) bool { return !slices.Equal(setOf(a[m.ID]), setOf(b[m.ID])) })
}

// leastSquares adds partitions one by one, each by the augmenting path that ends
// at the member with the fewest partitions of all that can be reached.
func leastSquares(s Spec) int {
	takers := takersOf(s)
	var topicOf, ownerOf []int // by partition
	loads := make([]int, len(s.Members))
	for topic := range s.Topics {
		if len(takers[topic]) == 0 {
			continue
		}
		for range s.Topics[topic].Partitions {
			topicOf, ownerOf = append(topicOf, topic), append(ownerOf, -1)
			last := len(topicOf) - 1
			via := map[int]int{} // member → partition that it would get
			reach := []int{}
			visit := func(partition int) {
				for _, m := range takers[topicOf[partition]] {
					if _, seen := via[m]; !seen {
						via[m] = partition
						reach = append(reach, m)
					}
				}
			}
			visit(last)
			for i := 0; i < len(reach); i++ {
				for partition, owner := range ownerOf {
					if owner == reach[i] {
						visit(partition)
					}
				}
			}
			m := slices.MinFunc(reach, func(a, b int) int { return cmp.Compare(loads[a], loads[b]) })
			loads[m]++
			for {
				partition := via[m]
				former := ownerOf[partition]
				ownerOf[partition] = m
				if former < 0 {
					break
				}
				m = former
			}
		}
	}
	sum := 0
	for _, n := range loads {
		sum += n * n
	}
	return sum
}

// Among members with as few, a partition stays with the one that works on it.
func TestUniformLeavesAPartitionWithItsHolder(t *testing.T) {
	p := Partition{topicID("t"), 0}
	s := Spec{Topics: []Topic{{"t", p.Topic, 1}}}
	for _, id := range []string{"a", "b", "c"} {
		s.Members = append(s.Members, SpecMember{ID: id, Topics: []string{"t"}})
	}
	s.Members[1].Holds = []Partition{p}
	if target, _ := (Uniform{}).Assign(s); len(target["b"]) != 1 {
		t.Errorf("the target is %v", target)
	}
}
