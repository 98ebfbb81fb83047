package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// unusedBits is how many bits are flipped of the unused space of a journal file, and how
// many lengths it is cut to beside those that mean something.
const unusedBits = 512

// stratum is all mutations of one operation on one kind of file in one state. A sample
// takes as many of each, as long as there are any.
type stratum struct {
	state string
	kind  kind
	op    string
	list  []mutation
}

// turns is how many of it a sample takes at a time: more where every bit is something else,
// and not all are behind one checksum.
func (s *stratum) turns() int {
	if s.op == "flip" && (s.kind == logFile || s.kind == journal) {
		return 8
	}
	return 1
}

// enumerate lists what can be done to a state.
func enumerate(st *state) []stratum {
	byKind := map[string]map[kind][]mutation{}
	add := func(m mutation) {
		if m.state = st.name; byKind[m.op] == nil {
			byKind[m.op] = map[kind][]mutation{}
		}
		byKind[m.op][kindOf(m.file)] = append(byKind[m.op][kindOf(m.file)], m)
	}
	for _, file := range slices.Sorted(maps.Keys(st.files)) {
		if !st.tries(kindOf(file)) {
			continue
		}
		bits, lengths := st.places(file)
		for _, n := range bits {
			add(mutation{op: "flip", file: file, n: n})
		}
		for _, n := range lengths {
			add(mutation{op: "cut", file: file, n: n})
		}
		for _, n := range []int{1, 7, record.BatchOverhead, 512, 4096} {
			add(mutation{op: "zeros", file: file, n: n})
			add(mutation{op: "garbage", file: file, n: n})
		}
		for seed := range 4 {
			add(mutation{op: "random", file: file, n: seed})
		}
		add(mutation{op: "blank", file: file})
		add(mutation{op: "remove", file: file})
		for _, other := range st.sameKind(file) {
			add(mutation{op: "swap", file: file, other: other})
		}
		for _, other := range st.freeNames(file) {
			add(mutation{op: "copy", file: file, other: other})
		}
	}
	for _, file := range slices.Sorted(maps.Keys(st.older)) {
		if !st.tries(kindOf(file)) {
			continue
		}
		for _, v := range st.older[file] {
			add(mutation{op: "older", file: file, other: v.moment})
		}
	}
	var strata []stratum
	for _, op := range ops {
		for _, k := range kinds {
			if list := byKind[op][k]; len(list) > 0 {
				strata = append(strata, stratum{st.name, k, op, list})
			}
		}
	}
	return strata
}

// tries says whether something is done to files of a kind. In the state unmarked those of
// the others are what they are in the state cut.
func (st *state) tries(k kind) bool {
	return st.name != "unmarked" || k == journal || k == logFile
}

// places are the bits to flip and the lengths to cut a file to: all of them, but for the
// unused space of the journal, and of documents in all states but one.
func (st *state) places(file string) (bits, lengths []int) {
	data := st.files[file]
	switch k := kindOf(file); {
	case k.document() && st.name != "stopped": // spaces, most of it
		text := len(bytes.TrimRight(data, " \n"))
		return slices.Concat(upTo(8*text), []int{8 * text, 8*text + 7, 8*len(data) - 8, 8*len(data) - 1}), upTo(len(data))
	case k != journal:
		return upTo(len(data) * 8), upTo(len(data))
	}
	used := []span{{0, fileHeader}, {fileHeaderCopy, fileHeaderCopy + fileHeader}}
	for pos := journalPage; pos < len(data); pos += journalPage {
		if !blank(data[pos : pos+roundHeader]) { // a round, a mark, or one of an earlier life
			end := record.Offset(pos + roundHeader)
			for _, f := range st.frames {
				if f.file == file && f.round == pos {
					end = record.Offset(f.pos + f.size)
				}
			}
			used = append(used, span{record.Offset(pos), end})
		}
	}
	for _, u := range used {
		for bit := 8 * u.from; bit < 8*u.to; bit++ {
			bits = append(bits, int(bit))
		}
		for n := max(u.from-1, 0); n <= u.to+1; n++ {
			lengths = append(lengths, int(n))
		}
	}
	rng := rand.New(rand.NewPCG(uint64(len(data)), 2))
	for range unusedBits {
		bits = append(bits, rng.IntN(8*len(data)))
		lengths = append(lengths, rng.IntN(len(data)))
	}
	return sortedSet(bits), sortedSet(lengths)
}

func blank(b []byte) bool { return bytes.Count(b, []byte{0}) == len(b) }

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func sortedSet(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// sameKind are the files that a file can change places with: of its kind, with something
// else in them, each pair once.
func (st *state) sameKind(file string) (list []string) {
	for other, data := range st.files {
		if other > file && kindOf(other) == kindOf(file) && !bytes.Equal(data, st.files[file]) {
			list = append(list, other)
		}
	}
	slices.Sort(list)
	return list
}

// freeNames are names under which a second one of a file may turn up: of segments inside
// and behind those that there are, of a file of the journal.
func (st *state) freeNames(file string) (list []string) {
	add := func(name string) {
		if _, taken := st.files[name]; !taken {
			list = append(list, name)
		}
	}
	switch k := kindOf(file); k {
	case logFile, indexFile, timeIndex:
		p := st.parts[partitionOf(file)]
		for _, base := range []record.Offset{1, p.start - 1, p.start + 1, (p.start + p.end) / 2, p.end - 1, p.end, p.end + 1, p.end + 1000} {
			if base >= 0 {
				add(fmt.Sprintf("%s/%s.%s", path.Dir(file), segment.FileName(base), k))
			}
		}
	case journal:
		add("wal/0000000004.wal")
		add("wal/0000000009.wal")
	}
	return list
}

// sample takes n mutations of the strata: some of each, again and again; all of them when
// n is 0.
func sample(strata []stratum, n int, seed uint64) (list []mutation) {
	rng := rand.New(rand.NewPCG(seed, 3))
	left := make([][]mutation, len(strata))
	total := 0
	for i, s := range strata {
		left[i] = slices.Clone(s.list)
		rng.Shuffle(len(left[i]), func(a, b int) { left[i][a], left[i][b] = left[i][b], left[i][a] })
		total += len(left[i])
	}
	if n <= 0 || n > total {
		n = total
	}
	for len(list) < n {
		for i := range left {
			take := min(strata[i].turns(), len(left[i]), n-len(list))
			list = append(list, left[i][:take]...)
			left[i] = left[i][take:]
		}
	}
	return list
}
