package measure

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		runs []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{5, 1, 3}, Spread{3, 1, 5, 3}},
		{[]float64{4, 1, 3, 2}, Spread{2.5, 1, 4, 4}},
	} {
		before := slices.Clone(c.runs)
		if got := Of(c.runs); got != c.want {
			t.Errorf("Of(%v) = %v, want %v", c.runs, got, c.want)
		}
		if !slices.Equal(before, c.runs) {
			t.Errorf("Of sorted its argument: %v", c.runs)
		}
	}
}

// On a machine that doubles its speed half way, the ratio of medians would be wrong.
func TestRatioIsWithinARound(t *testing.T) {
	a, b := []float64{10, 10, 20, 20, 20}, []float64{5, 5, 10, 10, 10}
	if got := Ratio(a, b); got != (Spread{2, 2, 2, 5}) {
		t.Errorf("Ratio = %v", got)
	}
	if got := Ratio(a, []float64{0, 5}); got != (Spread{2, 2, 2, 1}) {
		t.Errorf("Ratio over nothing = %v", got)
	}
}

func TestQuantile(t *testing.T) {
	sorted := []float64{0, 1, 2, 3, 4}
	for q, want := range map[float64]float64{0: 0, 0.5: 2, 0.25: 1, 0.875: 3.5, 1: 4} {
		if got := Quantile(sorted, q); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
}

func TestLatencies(t *testing.T) {
	var l Latencies
	for i := range 101 {
		l = append(l, time.Duration(100-i)*time.Microsecond)
	}
	got := l.Figures()
	if got["p50 µs"] != 50 || got["p99 µs"] != 99 || got["max µs"] != 100 {
		t.Errorf("%v", got)
	}
}

func TestRoundsInterleave(t *testing.T) {
	var order []string
	var dirs []string
	run := func(name string) Contender {
		return Contender{name, func(dir string) (Figures, error) {
			order = append(order, name)
			dirs = append(dirs, dir)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("%s holds %v, %v", dir, entries, err)
			}
			return Figures{"n": float64(len(order))}, os.WriteFile(filepath.Join(dir, "x"), nil, 0o644)
		}}
	}
	ended := 0
	watch := func(string, int) func() { return func() { ended++ } }
	s, err := Rounds(t.TempDir(), 3, []Contender{run("a"), run("b"), run("c")}, watch)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "b", "c", "a", "c", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
	if got := s["a"]["n"]; !slices.Equal(got, []float64{1, 6, 8}) {
		t.Errorf("samples of a: %v", got)
	}
	if ended != 9 {
		t.Errorf("%d ends were watched", ended)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left", dir)
		}
	}
}

func TestRoundsEndWithTheFirstError(t *testing.T) {
	bad := errors.New("bad")
	_, err := Rounds(t.TempDir(), 3, []Contender{{"a", func(string) (Figures, error) { return nil, bad }}}, nil)
	if !errors.Is(err, bad) {
		t.Error(err)
	}
}
