package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/vfs"
)

// mutation is one thing done to the files of a state, as it is written on the command
// line:
//
//	STATE flip FILE BIT        bit 0 is the lowest of the first byte
//	STATE cut FILE LENGTH
//	STATE zeros FILE BYTES     so many more at the end
//	STATE garbage FILE BYTES   the same, of random ones
//	STATE random FILE SEED     as many bytes as there are, all random
//	STATE blank FILE           as many zeros
//	STATE remove FILE
//	STATE older FILE MOMENT    as it was then; it may be gone since
//	STATE swap FILE OTHER
//	STATE copy FILE OTHER      a second one, under a name that is not taken
//
// A fuzz target has one more, put, with bytes that are in no command line.
type mutation struct {
	state string
	op    string
	file  string
	n     int    // BIT, LENGTH, BYTES, SEED
	other string // MOMENT, OTHER
	data  []byte // of put
}

var ops = []string{"flip", "cut", "zeros", "garbage", "random", "blank", "remove", "older", "swap", "copy"}

func (m mutation) String() string {
	words := []string{m.state, m.op, m.file}
	switch {
	case m.other != "":
		words = append(words, m.other)
	case m.counts():
		words = append(words, strconv.Itoa(m.n))
	}
	return strings.Join(words, " ")
}

// counts says that the operation has a number.
func (m mutation) counts() bool { return slices.Contains(ops[:5], m.op) }

func parseMutation(text string) (mutation, error) {
	words := strings.Fields(text)
	if len(words) < 3 || !slices.Contains(ops, words[1]) {
		return mutation{}, fmt.Errorf("%q is no mutation: STATE OPERATION FILE [NUMBER|NAME], with one of %s", text, strings.Join(ops, ", "))
	}
	m := mutation{state: words[0], op: words[1], file: words[2]}
	if len(words) > 3 {
		m.other = words[3]
	}
	if m.counts() {
		var err error
		if m.n, err = strconv.Atoi(m.other); err != nil || m.n < 0 {
			return mutation{}, fmt.Errorf("%q is no mutation: %s needs a number", text, m.op)
		}
		m.other = ""
	}
	return m, nil
}

// apply does it to a copy of the disk of its state. The files that it wrote are
// returned: nil for one that is gone.
func (m *mutation) apply(st *state, disk *vfs.Mem) (map[string][]byte, error) {
	data, there := st.files[m.file]
	changed := map[string][]byte{}
	var err error
	set := func(file string, data []byte) {
		changed[file] = data
		err = errors.Join(err, disk.WriteFile(file, data))
	}
	if !there && m.op != "older" {
		return nil, fmt.Errorf("state %s has no file %s", st.name, m.file)
	}
	switch m.op {
	case "flip":
		if m.n >= len(data)*8 {
			return nil, fmt.Errorf("%s has %d bits", m.file, len(data)*8)
		}
		data = slices.Clone(data)
		data[m.n/8] ^= 1 << (m.n % 8)
		set(m.file, data)
	case "cut":
		set(m.file, slices.Clone(data[:min(m.n, len(data))]))
	case "zeros":
		set(m.file, append(slices.Clone(data), make([]byte, m.n)...))
	case "garbage":
		set(m.file, append(slices.Clone(data), noise(m.n, uint64(m.n))...))
	case "random":
		set(m.file, noise(len(data), uint64(m.n)))
	case "blank":
		set(m.file, make([]byte, len(data)))
	case "put":
		set(m.file, m.data)
	case "remove":
		changed[m.file] = nil
		err = disk.Remove(m.file)
	case "older":
		i := slices.IndexFunc(st.older[m.file], func(v version) bool { return v.moment == m.other })
		if i < 0 {
			return nil, fmt.Errorf("there is no %s of moment %q", m.file, m.other)
		}
		set(m.file, st.older[m.file][i].data)
	case "swap", "copy":
		other, taken := st.files[m.other]
		if taken != (m.op == "swap") {
			return nil, fmt.Errorf("state %s: is there a file %s: %v", st.name, m.other, taken)
		}
		if set(m.other, data); taken {
			set(m.file, other)
		}
	}
	return changed, err
}

func noise(n int, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}
