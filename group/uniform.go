package group

import (
	"cmp"
	"slices"
)

// Uniform gives all members as many partitions as each other, as nearly as
// their subscriptions allow, and moves as few as that takes.
//
// Where all subscribe to the same topics, no two differ by more than one, and no
// other assignment of which that is true moves fewer. Else the result is an optimal
// semi-matching: members and partitions are a graph, and there is no path of
// partitions that members could hand on, each to the next, from one member to
// another that has two or more fewer. That no such path exists is what makes
// the loads as even as they can be (Harvey, Ladner, Lovász, Tamir:
// Semi-matchings for bipartite graphs and load balancing, 2003).
type Uniform struct{}

// Name returns the name Kafka has for it.
func (Uniform) Name() string { return "uniform" }

// Assign implements Assignor.
func (Uniform) Assign(s Spec) (Target, bool) {
	b := newBalance(s)
	b.keep()
	b.deal()
	b.level()
	return b.target(), true
}

// balance is a target in the making. Members and topics are numbered as in the spec.
type balance struct {
	spec   Spec
	index  map[TopicID]int
	takers [][]int   // of each topic
	wants  [][]int   // of each member: topics
	open   [][]bool  // of each topic: which partitions nobody has
	held   [][]share // of each member, in the order in which it got them
}

// share is a partition that a member has.
type share struct {
	topic  int
	number int32
}

func newBalance(s Spec) *balance {
	b := &balance{
		spec: s, index: make(map[TopicID]int, len(s.Topics)), takers: takersOf(s),
		wants: make([][]int, len(s.Members)), open: make([][]bool, len(s.Topics)), held: make([][]share, len(s.Members)),
	}
	for t := range s.Topics {
		b.index[s.Topics[t].ID] = t
		b.open[t] = slices.Repeat([]bool{true}, int(max(s.Topics[t].Partitions, 0)))
		for _, m := range b.takers[t] {
			b.wants[m] = append(b.wants[m], t)
		}
	}
	return b
}

// keep leaves everybody what it is to have already and may have.
func (b *balance) keep() {
	for m := range b.spec.Members {
		for _, p := range b.spec.Members[m].Current {
			if t, exists := b.index[p.Topic]; exists && b.mayHave(m, t, p.Number) && b.open[t][p.Number] {
				b.give(m, share{t, p.Number})
			}
		}
	}
}

func (b *balance) mayHave(m, topic int, number int32) bool {
	_, wanted := slices.BinarySearch(b.wants[m], topic)
	return wanted && number >= 0 && int(number) < len(b.open[topic])
}

// deal gives out what nobody has, each to the member with the fewest, and what
// few may have first, which leaves less to level. Among those with the fewest it
// is the one that works on it now, if that is among them: nothing moves then.
func (b *balance) deal() {
	order := numbers(len(b.spec.Topics))
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(len(b.takers[x]), len(b.takers[y])) })
	holders := b.holders()
	for _, t := range order {
		if len(b.takers[t]) == 0 {
			continue
		}
		for number, open := range b.open[t] {
			if !open {
				continue
			}
			to := slices.MinFunc(b.takers[t], func(x, y int) int { return cmp.Compare(b.load(x), b.load(y)) })
			if h, held := holders[share{t, int32(number)}]; held && b.load(h) == b.load(to) {
				to = h
			}
			b.give(to, share{t, int32(number)})
		}
	}
}

// holders has, of the partitions that are not given to anybody, who works on them
// and may go on.
func (b *balance) holders() map[share]int {
	holders := map[share]int{}
	for m := range b.spec.Members {
		for _, p := range b.spec.Members[m].Holds {
			if t, exists := b.index[p.Topic]; exists && b.mayHave(m, t, p.Number) && b.open[t][p.Number] {
				holders[share{t, p.Number}] = m
			}
		}
	}
	return holders
}

func (b *balance) give(m int, s share) {
	b.open[s.topic][s.number] = false
	b.held[m] = append(b.held[m], s)
}

func (b *balance) load(m int) int { return len(b.held[m]) }

// level makes loads even, one partition at a time. It ends because each time the
// sum of the squares of the loads gets smaller.
func (b *balance) level() {
	for b.relieve() {
	}
}

// hop is how a search came to a member: another would hand it a partition of a topic.
type hop struct {
	from, topic int
}

// relieve takes one partition off the member with the most that can be relieved,
// along the shortest path to one that has at least two fewer, and says whether
// there is any. All between have as many as before.
//
// What was reached from a member in vain need not be searched again from another:
// all of it has at most one fewer than the first, which has no fewer than the second.
func (b *balance) relieve() bool {
	came := make([]hop, len(b.held)) // topic -1: not reached
	for m := range came {
		came[m].topic = -1
	}
	offered := make([]bool, len(b.takers))
	order := b.byLoad()
	for _, from := range order {
		if b.load(from)-2 < b.load(order[len(order)-1]) {
			return false
		}
		if came[from].topic < 0 && b.search(from, came, offered) {
			return true
		}
	}
	return false
}

// byLoad lists the members, those with the most partitions first.
func (b *balance) byLoad() []int {
	order := numbers(len(b.held))
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(b.load(y), b.load(x)) })
	return order
}

// search looks for a path from a member to one that has at least two fewer, ring
// by ring, and hands a partition along it.
func (b *balance) search(from int, came []hop, offered []bool) bool {
	came[from] = hop{from, 0}
	for ring := []int{from}; len(ring) > 0; {
		ring = b.beyond(ring, came, offered)
		to := from
		for _, m := range ring {
			if b.load(m) < b.load(to) {
				to = m
			}
		}
		if b.load(to) <= b.load(from)-2 {
			b.handOn(from, to, came)
			return true
		}
	}
	return false
}

// beyond lists the members that the ones in a ring could hand a partition to
// and that were not reached before.
func (b *balance) beyond(ring []int, came []hop, offered []bool) []int {
	var next []int
	for _, m := range ring {
		for _, s := range b.held[m] {
			if offered[s.topic] {
				continue
			}
			offered[s.topic] = true
			for _, taker := range b.takers[s.topic] {
				if came[taker].topic < 0 {
					came[taker] = hop{m, s.topic}
					next = append(next, taker)
				}
			}
		}
	}
	return next
}

// handOn moves one partition along each hop of the path.
func (b *balance) handOn(from, to int, came []hop) {
	for m := to; m != from; m = came[m].from {
		b.held[m] = append(b.held[m], b.takeAway(came[m].from, came[m].topic))
	}
}

// takeAway takes the last partition of a topic that a member got: one that it did
// not have before, if there is one.
func (b *balance) takeAway(m, topic int) share {
	held := b.held[m]
	at := len(held) - 1
	for held[at].topic != topic {
		at--
	}
	s := held[at]
	b.held[m] = slices.Delete(held, at, at+1)
	return s
}

func (b *balance) target() Target {
	target := make(Target, len(b.held))
	for m, held := range b.held {
		for _, s := range held {
			id := b.spec.Members[m].ID
			target[id] = append(target[id], Partition{b.spec.Topics[s.topic].ID, s.number})
		}
	}
	return target
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
