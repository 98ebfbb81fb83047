package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Whatever one bit of a base offset or leader epoch becomes, one batch is blamed,
// and it is the damaged one: in the middle of a segment, at its end, and where the
// epoch rises.
func TestVerifyBlamesTheDamagedBatch(t *testing.T) {
	for _, varve := range []bool{true, false} {
		l := newTestLog(t, varve)
		var batches []testBatch
		for s := range 3 {
			base := l.base
			for range 4 {
				l.add(3, 60, record.BatchOptions{Epoch: record.Epoch(2 * s)})
			}
			l.seal(t, varve)
			for _, at := range l.starts {
				batches = append(batches, testBatch{base, l.log, at})
			}
			l.roll(t)
		}
		// Behind the last two there is too little to go by.
		for i, b := range batches[1 : len(batches)-2] {
			for bit := range 96 {
				at := int(b.at) + bit/8
				if bit >= 64 {
					at += 4 // over the length
				}
				data := bytes.Clone(b.log)
				data[at] ^= 0x80 >> (bit % 8)
				write(t, l.path(b.base, ".log"), data)
				faults, _, _ := runVerify(t, l.dir)
				what := fmt.Sprintf("varve's %v, batch %d, bit %d", varve, i+1, bit)
				before, own, behind, second := batches[i].epoch(), epochAt(data, b.at), batches[i+2].epoch(), batches[i+3].epoch()
				switch named := len(faults) == 1 && faults[0].Path == l.path(b.base, ".log") && faults[0].Position == int64(b.at); {
				case bit >= 64 && before <= own && own <= behind: // nothing but a seal can tell
					if len(faults) > 1 || varve != (len(faults) == 1) {
						t.Errorf("%s: %+v", what, faults)
					}
				case bit >= 64 && behind < own && own <= second: // it rose early, or the next one fell
					if len(faults) != 1 {
						t.Errorf("%s: %+v", what, faults)
					}
				case !named:
					t.Errorf("%s: %+v", what, faults)
				}
			}
			write(t, l.path(b.base, ".log"), b.log)
		}
	}
}

// testBatch is a batch in the log of a segment.
type testBatch struct {
	base record.Offset // of the segment
	log  []byte
	at   record.Pos
}

func (b testBatch) epoch() record.Epoch { return epochAt(b.log, b.at) }

func epochAt(log []byte, at record.Pos) record.Epoch {
	return record.Epoch(binary.BigEndian.Uint32(log[at+12:]))
}

func TestJudgeEpoch(t *testing.T) {
	for _, c := range []struct {
		epochs []record.Epoch
		blamed []int
	}{
		{[]record.Epoch{0, 0, 1, 1, 7, 7}, nil},
		{[]record.Epoch{0, 9, 0, 0, 1}, []int{1}},
		{[]record.Epoch{9, 0, 0, 0}, []int{0}},    // nothing before it
		{[]record.Epoch{0, 5, 4, 5, 5}, []int{2}}, // not the one that rose
		{[]record.Epoch{5, 4, 5, 5}, []int{1}},
		{[]record.Epoch{3, 0, 3, 3}, []int{1}},
		{[]record.Epoch{-1, -1, -1 << 31, 0}, []int{2}},
		{[]record.Epoch{0, 8, 9, 0, 0, 0, 0}, []int{3}}, // two in a row: what falls is told once
	} {
		w := newLogWalk(t.Context(), true, nil, nil)
		var blamed []int
		for i, e := range c.epochs {
			var behind []segment.Head
			for _, e := range c.epochs[i+1 : min(len(c.epochs), i+1+segment.Ahead)] {
				behind = append(behind, segment.Head{Base: record.Offset(i + 1), Count: 1, Epoch: e})
			}
			if why, _ := w.judge(&record.Batch{BaseOffset: record.Offset(i), LeaderEpoch: e}, behind); why != "" {
				blamed = append(blamed, i)
			}
		}
		if !slices.Equal(blamed, c.blamed) {
			t.Errorf("%v: blamed %v, want %v", c.epochs, blamed, c.blamed)
		}
	}
}

// Whoever copies a record from the help must find it again: none carries a date that
// retention would delete it for.
func TestHelpRecordsAreNotDated(t *testing.T) {
	a := &app{out: &output{w: &bytes.Buffer{}}}
	for _, c := range allCommands(a.command()) {
		if m := regexp.MustCompile(`\{.*"timestamp".*\}`).FindString(c.Long + c.Example); m != "" {
			t.Errorf("%s: %s", c.CommandPath(), m)
		}
		if strings.Contains(c.Example, "--follow") {
			t.Errorf("%s: an example follows what nobody can publish", c.CommandPath())
		}
	}
}
