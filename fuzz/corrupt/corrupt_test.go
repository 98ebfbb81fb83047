package main

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// theWorld is made once for all tests.
var theWorld = sync.OnceValues(newWorld)

func mustWorld(t testing.TB) *world {
	t.Helper()
	w, err := theWorld()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The directory is the same in every run, so that a mutation means the same.
func TestDirectoryIsTheSameEveryTime(t *testing.T) {
	if _, err := agreedWorld(); err != nil {
		t.Error(err)
	}
}

// The directory has everything of which damage is to be tried.
func TestDirectoryHasEverything(t *testing.T) {
	w := mustWorld(t)
	var several, last int
	rounds := map[int]int{}
	for _, st := range w.states {
		for _, k := range kinds {
			if !st.tries(k) {
				continue
			}
			there := slices.ContainsFunc(w.strata, func(s stratum) bool { return s.state == st.name && s.kind == k && s.op == "cut" })
			empty := st.name != "stopped" && (k == lock && st.name != "killed" || k == clean || st.name != "killed" && (k == indexFile || k == timeIndex || k == epochs))
			empty = empty || k == seals && st.name == "unmarked"
			if there == empty {
				t.Errorf("state %s, %s: is there something in it: %v", st.name, k, there)
			}
		}
		clear(rounds)
		for _, f := range st.frames {
			if rounds[f.round]++; rounds[f.round] > 1 {
				several++
			}
			if f.last {
				last++
			}
		}
		epochs := map[int32]bool{}
		for _, rec := range st.parts["f/0"].records {
			epochs[int32(rec.epoch)] = true
		}
		if p := st.parts["f/1"]; len(epochs) < 3 || p.start == 0 || st.parts["f/2"].end != 0 {
			t.Errorf("state %s: %d leader epochs, f/1 starts at %d, f/2 ends at %d", st.name, len(epochs), p.start, st.parts["f/2"].end)
		}
	}
	if several == 0 || last != 1 {
		t.Errorf("%d frames share a round, %d are in one without a mark", several, last)
	}
}

func TestMutationsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, s := range mustWorld(t).strata {
		m := s.list[len(s.list)/2]
		if again, err := parseMutation(m.String()); err != nil || again.String() != m.String() || again.n != m.n {
			t.Errorf("%q is read as %+v, %v", m, again, err)
		}
	}
	for _, bad := range []string{"", "cut", "cut flip", "cut flip FORMAT", "cut flip FORMAT x", "cut flip FORMAT -1", "cut turn FORMAT 1"} {
		if m, err := parseMutation(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, m)
		}
	}
}

// A few of each sort; go run ./fuzz/corrupt does all.
func TestSample(t *testing.T) {
	w := mustWorld(t)
	n := 800
	if testing.Short() {
		n = 200
	}
	for _, m := range sample(w.strata, n, 7) {
		check(t, w, &m)
	}
}

// check does one mutation.
func check(t testing.TB, w *world, m *mutation) outcome {
	t.Helper()
	o, err := w.run(m)
	var known *excusedError
	if err != nil && !errors.As(err, &known) {
		t.Errorf("%s: %v\nrepeat: %s", m, err, m.command())
	}
	return o
}

// What mutations of each sort come to, so that a campaign which looks away is noticed.
func TestOutcomes(t *testing.T) {
	w := mustWorld(t)
	for text, want := range map[string]outcome{
		"stopped flip topics/f/0/00000000000000000003.log 800":                                 gap,
		"stopped cut topics/f/0/00000000000000000003.log 100":                                  gap,
		"stopped remove topics/f/0/00000000000000000003.log":                                   gap,
		"stopped remove topics/f/0/00000000000000000003.index":                                 unchanged,
		"stopped flip topics/f/1/partition.json 100":                                           unchanged,
		"stopped older topics/f/1/00000000000000000000.log stop":                               unchanged,
		"stopped copy topics/f/0/00000000000000000003.log topics/f/0/00000000000000000001.log": refused,
		"cut flip topics/f/0/partition.json.copy 100":                                          unchanged,
		"cut remove wal/0000000003.wal":                                                        hidden,
		"killed remove wal/0000000003.wal":                                                     unchanged,
	} {
		m, err := parseMutation(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := check(t, w, &m); got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
}
