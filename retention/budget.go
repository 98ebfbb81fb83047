package retention

import "container/heap"

// OverBudget says how many of the oldest segments of each partition go so that
// all partitions together hold no more than budget bytes. Each partition is
// given as for [Expired]; a negative budget is no limit.
//
// Of all partitions' oldest segments the one dated earliest goes first (the
// first partition, where they are dated alike), until the rest fits. An active
// segment never goes, nor one that is held or what is behind it, so that the rest may
// still be over the budget at the end.
func OverBudget(parts [][]Segment, budget int64) []int {
	gone := make([]int, len(parts))
	if budget < 0 {
		return gone
	}
	excess := -budget // of what was summed up; from -2^63+1, so no overflow on the way up
	fronts := make(fronts, 0, len(parts))
	for p, segs := range parts {
		for _, s := range segs {
			excess = addCapped(excess, s.Bytes)
		}
		if len(segs) > 1 && !segs[0].Held {
			fronts = append(fronts, front{p, segs[0].stamp()})
		}
	}
	heap.Init(&fronts)
	for excess > 0 && len(fronts) > 0 {
		f := &fronts[0]
		segs := parts[f.part]
		excess -= segs[gone[f.part]].Bytes
		gone[f.part]++
		if n := gone[f.part]; n == len(segs)-1 || segs[n].Held {
			heap.Pop(&fronts)
			continue
		}
		f.stamp = segs[gone[f.part]].stamp()
		heap.Fix(&fronts, 0)
	}
	return gone
}

// addCapped adds two sizes and stops at the largest int64.
func addCapped(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}

// front is the oldest segment that is left of a partition.
type front struct {
	part  int
	stamp int64
}

// fronts is a heap of them, the one dated earliest on top.
type fronts []front

func (h fronts) Len() int { return len(h) }
func (h fronts) Less(i, j int) bool {
	if h[i].stamp != h[j].stamp {
		return h[i].stamp < h[j].stamp
	}
	return h[i].part < h[j].part
}
func (h fronts) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *fronts) Push(x any)   { *h = append(*h, x.(front)) }
func (h *fronts) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
