package group

// Range gives each member of each topic one range of neighbouring partitions.
// Topics of as many partitions that the same members subscribe to are parted
// alike: whoever has partition 3 of one has partition 3 of the other. It keeps
// to no earlier assignment; only instance ids make it steady over restarts.
// Where members do not divide the partitions, the first ones have one more of
// every topic.
type Range struct{}

// Name returns the name Kafka has for it.
func (Range) Name() string { return "range" }

// Assign implements Assignor.
func (Range) Assign(s Spec) (Target, bool) {
	target := Target{}
	takers := takersOf(s)
	for i, t := range s.Topics {
		n := int32(len(takers[i]))
		first := int32(0)
		for k, m := range takers[i] {
			size := t.Partitions / n
			if int32(k) < t.Partitions%n {
				size++
			}
			id := s.Members[m].ID
			for number := first; number < first+size; number++ {
				target[id] = append(target[id], Partition{t.ID, number})
			}
			first += size
		}
	}
	return target, true
}

// takersOf lists for each topic of a spec the members that subscribe to it.
func takersOf(s Spec) [][]int {
	index := make(map[string]int, len(s.Topics))
	for i, t := range s.Topics {
		index[t.Name] = i
	}
	takers := make([][]int, len(s.Topics))
	for m := range s.Members {
		for _, name := range s.Members[m].Topics {
			if i, exists := index[name]; exists {
				takers[i] = append(takers[i], m)
			}
		}
	}
	return takers
}
