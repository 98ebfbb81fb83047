package plot

import (
	"math"
	"slices"
	"strconv"
)

// axis maps values to places by their logarithm.
type axis struct {
	low, high float64 // values at the ends
	from, to  float64 // places of the ends
}

// newAxis spans whole powers of ten, or where that is too wide, 1, 2 and 5 of them.
func newAxis(values []float64, from, to float64) axis {
	if len(values) == 0 {
		return axis{1, 10, from, to}
	}
	a := axis{slices.Min(values), slices.Max(values), from, to}
	a.low = step(a.low, false)
	a.high = step(a.high, true)
	if a.low == a.high {
		a.low, a.high = a.low/2, a.high*2
	}
	return a
}

// step is the nearest 1, 2 or 5 times a power of ten that is not above v, or not below.
func step(v float64, up bool) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	steps := []float64{ten, 2 * ten, 5 * ten, 10 * ten}
	const slack = 1e-9 // powers of ten are not exact
	if up {
		for _, s := range steps {
			if s >= v*(1-slack) {
				return s
			}
		}
	}
	for _, s := range slices.Backward(steps) {
		if s <= v*(1+slack) {
			return s
		}
	}
	return v
}

func (a axis) place(v float64) float64 {
	share := math.Log(v/a.low) / math.Log(a.high/a.low)
	return a.from + share*(a.to-a.from)
}

// ticks are powers of ten, and what lies between where there are few.
func (a axis) ticks() []float64 {
	marks := []float64{1}
	if a.high/a.low < 1000 {
		marks = []float64{1, 2, 5}
	}
	var out []float64
	for e := math.Floor(math.Log10(a.low)); e <= math.Ceil(math.Log10(a.high)); e++ {
		for _, m := range marks {
			if v := m * math.Pow(10, e); v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	return out
}

// label is short: 200, 5k, 1M, 0.02.
func label(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= unit.size*(1-1e-9) {
			return strconv.FormatFloat(v/unit.size, 'g', 4, 64) + unit.name
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
