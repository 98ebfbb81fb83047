package measure

import (
	"math"
	"slices"
)

// Spread is a figure over several runs.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// Of sums up runs; without one everything is NaN-free and zero.
func Of(runs []float64) Spread {
	if len(runs) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(runs))
	return Spread{Quantile(sorted, 0.5), sorted[0], sorted[len(sorted)-1], len(sorted)}
}

// Ratio sums up a/b, run by run.
func Ratio(a, b []float64) Spread {
	var runs []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			runs = append(runs, a[i]/b[i])
		}
	}
	return Of(runs)
}

// Quantile is the value below which a share q of the sorted values lies, interpolated
// between neighbours; 0 without values.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
