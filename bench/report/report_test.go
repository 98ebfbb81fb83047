package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/plot"
)

func sample() *Report {
	t := &Table{Name: "append", Title: "Append", Text: "Batches."}
	s := measure.Samples{"varve": {"rec/s": {3e6, 2e6, 4e6}}, "floor": {"rec/s": {4e6, 4e6, 4e6}}}
	t.Add(s, "rec/s", "M records/s", 1e-6, "varve", "floor", "nobody")
	t.AtLeast("/floor", "of the floor", s.Ratio("varve", "floor", "rec/s"), 0.8)
	t.AtMost("/p99", "µs", measure.Of([]float64{150}), 200)
	return &Report{Date: "2026-01-02", Command: "make bench", Scale: 1, Tables: []*Table{t},
		Versions: map[string]string{"go": "go1.26"},
		Charts:   []*Chart{{"growth", plot.Chart{Title: "Growth", Lines: []plot.Line{{Name: "varve", Points: []plot.Point{{X: 1, Y: 2}}}}}}}}
}

func TestVerdicts(t *testing.T) {
	r := sample()
	v := r.Tables[0].Verdicts
	if v[0].OK() || v[0].Median != 0.75 || !v[1].OK() {
		t.Errorf("%+v", v)
	}
	if got := strings.Fields(v[0].Line()); strings.Join(got, " ") != "append/floor 0.750 >= 0.800 short" {
		t.Errorf("%q", got)
	}
	if got := strings.Fields(v[1].Line()); strings.Join(got, " ") != "append/p99 150 <= 200 ok" {
		t.Errorf("%q", got)
	}
	if short := r.Short(); len(short) != 1 || short[0].Name != "append/floor" {
		t.Errorf("short: %+v", short)
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01534: "0.0153", 1.524: "1.52", -1.524: "-1.52", 15.24: "15.2", 1524000: "1524000", 0.8: "0.800"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %s, want %s", v, got, want)
		}
	}
}

// What people wrote around the tables stays, however often they are written.
func TestPageKeepsItsProse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := os.WriteFile(path, []byte("# Mine\n\nfirst\n"+begin+"\nold\n"+end+"\nlast\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var page []byte
	for range 2 {
		if err := sample().WritePage(path); err != nil {
			t.Fatal(err)
		}
		again, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if page != nil && string(page) != string(again) {
			t.Errorf("written twice it is\n%s\nand\n%s", page, again)
		}
		page = again
	}
	text := string(page)
	if !strings.HasPrefix(text, "# Mine\n\nfirst\n"+begin) || !strings.HasSuffix(text, end+"\nlast\n") || strings.Contains(text, "old") {
		t.Errorf("the page is\n%s", text)
	}
	for _, want := range []string{
		"| `append/floor` | 0.750 of the floor | 0.500 to 1.00 | >= 0.800 | short |",
		"| varve | 3.00 | M records/s | 2.00 to 4.00 | 3 |",
		"![Growth](benchmarks/growth.svg)",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "benchmarks", "growth.svg")); err != nil {
		t.Error(err)
	}
}

func TestPageWithoutItsLinesIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.md")
	if err := os.WriteFile(path, []byte("prose"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sample().WritePage(path); err == nil {
		t.Error("written over")
	}
	if data, _ := os.ReadFile(path); string(data) != "prose" {
		t.Errorf("the page is %q", data)
	}
}

func TestCompare(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	if old, err := Read(path); old != nil || err != nil {
		t.Errorf("no earlier run: %v, %v", old, err)
	}
	if err := sample().Write(path); err != nil {
		t.Fatal(err)
	}
	old, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	now := sample()
	if got := Compare(old, now); len(got) != 0 {
		t.Errorf("against itself: %+v", got)
	}
	now.Tables[0].Verdicts[0].Spread = measure.Of([]float64{0.3, 0.4})
	now.Tables[0].Verdicts[1].Spread = measure.Of([]float64{100})
	got := Compare(old, now)
	if len(got) != 2 || !strings.HasSuffix(got[0].Line(), "worse") || !strings.HasSuffix(got[1].Line(), "better") {
		t.Errorf("%+v", got)
	}
	now.Scale = 0.5
	if got := Compare(old, now); got != nil {
		t.Errorf("other sizes: %+v", got)
	}
}
