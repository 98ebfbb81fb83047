package index

import (
	"math"
	"testing"

	"github.com/varvelog/varve/record"
)

// What a lookup says of the entries behind its answer is so: nothing lies between, and
// a sealed index leaves out none that there is.
func TestAroundTellsWhatFollows(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, 512, 513, 514, 515, 1024, 1200} {
		m := uniform(n + 1)
		a := m.build(newFake(), testName, Options{Interval: 1})
		mark, err := a.Seal()
		if err != nil {
			t.Fatal(err)
		}
		s, err := OpenSealed(a.fs, testName, testBase, mark)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		offs, times := m.interesting()
		whole := func(st Stretch, err error) Stretch {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			checkStretch(t, s, st, true)
			return st
		}
		for _, off := range offs {
			whole(s.Around(off))
			checkStretch(t, s, a.Around(off), false)
		}
		for _, ts := range times {
			whole(s.AroundTime(ts))
			checkStretch(t, s, a.AroundTime(ts), false)
		}
	}
}

// checkStretch holds what follows against lookups of its own. In an index that is not
// whole it may be unknown.
func checkStretch(t *testing.T, s *Sealed, st Stretch, whole bool) {
	t.Helper()
	look := func(off record.Offset) Entry {
		e, err := s.Lookup(off)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	last := look(math.MaxInt64)
	switch {
	case st.Next == (Entry{}):
		if whole && st.Entry != last {
			t.Fatalf("%+v: nothing follows, but %+v is the last", st, last)
		}
	case look(st.Next.Offset) != st.Next || look(st.Next.Offset-1) != st.Entry:
		t.Fatalf("%+v: %+v follows", st, look(st.Next.Offset))
	case st.End == 0:
		if whole && st.Next != last {
			t.Fatalf("%+v: nothing follows the next, but %+v is the last", st, last)
		}
	default:
		after, err := s.Around(st.Next.Offset)
		if err != nil || after.Next.Pos != st.End {
			t.Fatalf("%+v: behind the next is %+v, %v", st, after.Next, err)
		}
	}
}
