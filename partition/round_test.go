package partition_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// What is appended while a round is under way, in the same segment or behind a roll, is
// the next round's: its offsets do not count as durable with the first one, and each of
// its bytes is in the second.
func TestAppendsBesideARoundAreTheNextOnes(t *testing.T) {
	for _, level := range []partition.Level{partition.Fsync, partition.OS} {
		cfg := small(level)
		if level == partition.Fsync { // where a roll waits for the round
			cfg.SegmentBytes = 1 << 20
		}
		r := newRig(t, cfg, func(r *rig) { r.eager = false })
		var ranges []partition.Range
		for began := record.Offset(0); began < 40; {
			r.publish(1)
			began++
			round := r.log.BeginRound()
			if round == nil || round.Next != began {
				t.Fatalf("%v: a round of %+v, expected one up to %d", level, round, began)
			}
			ranges = append(ranges, round.Ranges...)
			beside := 0
			for range 3 {
				r.publish(2)
				beside += 2
			}
			if end := r.log.DurableEnd(); end >= began {
				t.Errorf("%v: the durable end is %d before the round up to %d has ended", level, end, began)
			}
			round.End(nil)
			if end := r.log.DurableEnd(); end != began {
				t.Errorf("%v: the durable end is %d after a round up to %d", level, end, began)
			}
			began += record.Offset(beside)
		}
		last := r.log.BeginRound()
		ranges = append(ranges, last.Ranges...)
		last.End(nil)
		if end := r.log.DurableEnd(); end != r.log.LogEnd() {
			t.Errorf("%v: the durable end is %d, that of the log %d", level, end, r.log.LogEnd())
		}
		haveAll(t, r.disk, ranges)
		r.sync()
		r.verify()
	}
}

// A round that begins the moment another one ends has nobody acknowledged who waits for
// itself.
func TestRoundBegunAtTheEndOfAnother(t *testing.T) {
	r := newRig(t, small(partition.Fsync), func(r *rig) { r.eager = false })
	first := r.publish(1)
	round := r.log.BeginRound()
	second := r.publish(1)
	if r.log.BeginRound() != nil {
		t.Fatal("two rounds are under way")
	}
	var next *partition.Round
	r.onCommit = func() { next = r.log.BeginRound() }
	round.End(nil)
	r.onCommit = nil
	if next == nil || !first.told || second.told {
		t.Fatalf("at the end of a round: the next one has begun: %v; told: %v, and of the next: %v", next != nil, first.told, second.told)
	}
	next.End(nil)
	if !second.told {
		t.Error("the end of its round does not tell")
	}
}

// haveAll expects the ranges to follow on and to be all bytes of all files.
func haveAll(t *testing.T, disk *vfs.Mem, ranges []partition.Range) {
	t.Helper()
	got := map[record.Offset]*bytes.Buffer{}
	for _, g := range ranges {
		b := got[g.Base]
		if b == nil {
			b = &bytes.Buffer{}
			got[g.Base] = b
		}
		if int(g.From) != b.Len() {
			t.Fatalf("a range of segment %d begins at %d, the one before it ends at %d", g.Base, g.From, b.Len())
		}
		buf := make([]byte, g.To-g.From)
		check(t, g.Read(buf))
		b.Write(buf)
	}
	files := 0
	for _, name := range disk.Files() {
		var base record.Offset
		if n, _ := fmt.Sscanf(name, dir+"/%020d.log", &base); n < 1 || !strings.HasSuffix(name, ".log") {
			continue
		}
		data, err := disk.ReadFile(name)
		check(t, err)
		if len(data) == 0 {
			continue
		}
		if files++; got[base] == nil || !bytes.Equal(got[base].Bytes(), data) {
			t.Errorf("%s has %d bytes, and the rounds had others", name, len(data))
		}
	}
	if files != len(got) {
		t.Errorf("%d files have bytes, the rounds had some of %d", files, len(got))
	}
}
