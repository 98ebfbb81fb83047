package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/plot"
)

// Report is one run of the benchmark.
type Report struct {
	Date     string            `json:"date"`
	Command  string            `json:"command"`
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"` // of modules, and of Go
	Scale    float64           `json:"scale"`    // of the sizes; 1 is the whole
	Tables   []*Table          `json:"tables"`
	Charts   []*Chart          `json:"charts,omitempty"`
}

// Table is what one benchmark found.
type Table struct {
	Name     string    `json:"name"`
	Title    string    `json:"title"`
	Text     string    `json:"text"` // what is done, by whom, how often
	Figures  []Figure  `json:"figures"`
	Verdicts []Verdict `json:"verdicts"`
}

// Figure is what was measured of one contender.
type Figure struct {
	Who  string `json:"who"`
	Unit string `json:"unit"`
	measure.Spread
}

// Verdict is a figure that has a target.
type Verdict struct {
	Name   string  `json:"name"`
	What   string  `json:"what"` // the unit: "of the floor", "µs"
	Target float64 `json:"target"`
	AtMost bool    `json:"at_most,omitempty"` // else the target is the least
	measure.Spread
}

// Chart is a picture and the name of its file.
type Chart struct {
	Name string `json:"name"`
	plot.Chart
}

// OK says whether the target is reached, by the median.
func (v Verdict) OK() bool {
	if v.AtMost {
		return v.Median <= v.Target
	}
	return v.Median >= v.Target
}

func (v Verdict) verdict() string {
	if v.OK() {
		return "ok"
	}
	return "short"
}

// goal is the target with its direction.
func (v Verdict) goal() string {
	if v.AtMost {
		return "<= " + number(v.Target)
	}
	return ">= " + number(v.Target)
}

// Line is a verdict as a line: name, ratio, target, ok or short.
func (v Verdict) Line() string {
	return fmt.Sprintf("%-44s %10s  %10s  %s", v.Name, number(v.Median), v.goal(), v.verdict())
}

// Short are the verdicts that miss their targets.
func (r *Report) Short() (short []Verdict) {
	for _, t := range r.Tables {
		for _, v := range t.Verdicts {
			if !v.OK() {
				short = append(short, v)
			}
		}
	}
	return short
}

// Add appends figures of contenders under a unit, in their order.
func (t *Table) Add(s measure.Samples, figure, unit string, scale float64, who ...string) {
	for _, name := range who {
		if s[name] == nil || len(s[name][figure]) == 0 {
			continue
		}
		f := s.Of(name, figure)
		f.Median, f.Min, f.Max = f.Median*scale, f.Min*scale, f.Max*scale
		t.Figures = append(t.Figures, Figure{name, unit, f})
	}
}

// AtLeast and AtMost append a verdict.
func (t *Table) AtLeast(name, what string, v measure.Spread, target float64) {
	t.Verdicts = append(t.Verdicts, Verdict{t.Name + name, what, target, false, v})
}

func (t *Table) AtMost(name, what string, v measure.Spread, target float64) {
	t.Verdicts = append(t.Verdicts, Verdict{t.Name + name, what, target, true, v})
}

// Read reads the JSON of an earlier run; nil where there is none.
func Read(path string) (*Report, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// Write keeps the run as JSON.
func (r *Report) Write(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
