package varve

import (
	"maps"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/record"
)

// What was finished is as it was written, at the same place; anywhere else, and of any
// other text, it is nothing.
func TestFinishedAsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := Offset(rapid.Int64Range(0, 1<<60).Draw(t, "base"))
		f, want := finished{base: base, epoch: -1}, map[Offset]bool{}
		for range rapid.IntRange(0, 50).Draw(t, "n") {
			off := base + Offset(rapid.IntRange(-5, mostAhead+5).Draw(t, "off"))
			f.add(off, record.Epoch(rapid.IntRange(0, 9).Draw(t, "epoch")))
			if off >= base && off < base+mostAhead {
				want[off] = true
			}
		}
		text := f.String()
		if n := len(utf16.Encode([]rune(text))); n > 4096 {
			t.Fatalf("the text has %d units, more than a commit's metadata may", n)
		}
		read := parseFinished(text, base)
		got := map[Offset]bool{}
		for off := base - 10; off < base+mostAhead+10; off++ {
			if read.has(off, f.epoch) {
				got[off] = true
			}
			if read.has(off, f.epoch+1) {
				t.Fatalf("offset %d counts for a later epoch", off)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("read %d of %d", len(got), len(want))
		}
		if other := parseFinished(text, base+1); len(other.bits) > 0 {
			t.Fatal("it counts at another place")
		}
		rest := finished{base: base + 7, epoch: -1}
		rest.addRest(&read, base+9)
		for off := range want {
			if rest.bit(off) != (off >= base+9) {
				t.Fatalf("offset %d: %t among the rest from %d on", off, rest.bit(off), base+9)
			}
		}
	})
	for _, text := range []string{"", "batch 17", "finished/1", "finished/1 5 0", "finished/2 5 0 AQ", "finished/1 5 x AQ", "finished/1 5 0 ???", "finished/1 5 0 AQ x"} {
		if f := parseFinished(text, 5); len(f.bits) > 0 {
			t.Errorf("%q is read as %v", text, f)
		}
	}
	if f := parseFinished("finished/1 5 3 AQ", 5); !f.has(5, 3) || f.has(6, 3) {
		t.Errorf("read %v", f)
	}
}

func FuzzFinished(f *testing.F) {
	f.Add("finished/1 5 3 AQ", int64(5))
	f.Add("finished/1 5 3 gICA", int64(5))
	f.Add("batch 17", int64(0))
	f.Fuzz(func(t *testing.T, text string, at int64) {
		read := parseFinished(text, Offset(at))
		again := parseFinished(read.String(), read.base)
		for off := read.base; off < read.base+Offset(len(read.bits))*8; off++ {
			if read.bit(off) != again.bit(off) {
				t.Fatalf("offset %d is %t, and then %t", off, read.bit(off), again.bit(off))
			}
		}
	})
}
