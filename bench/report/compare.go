package report

import "fmt"

// Change is how a figure with a target stands against an earlier run.
type Change struct {
	Name     string
	Old, New Verdict
}

// Compare lists what changed for certain: the runs of then and those of now do not
// overlap. Only ratios are compared, since machines differ; runs of different scale are
// not compared at all.
func Compare(old, now *Report) (changes []Change) {
	if old == nil || old.Scale != now.Scale {
		return nil
	}
	before := map[string]Verdict{}
	for _, t := range old.Tables {
		for _, v := range t.Verdicts {
			before[v.Name] = v
		}
	}
	for _, t := range now.Tables {
		for _, v := range t.Verdicts {
			o, known := before[v.Name]
			if known && (v.Min > o.Max || v.Max < o.Min) {
				changes = append(changes, Change{v.Name, o, v})
			}
		}
	}
	return changes
}

// Line is a change as a line.
func (c Change) Line() string {
	word := "better"
	if c.New.Median > c.Old.Median == c.New.AtMost {
		word = "worse"
	}
	return fmt.Sprintf("%-44s %10s  was %6s  %s", c.Name, number(c.New.Median), number(c.Old.Median), word)
}
