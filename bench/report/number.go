package report

import (
	"math"
	"strconv"

	"github.com/varvelog/varve/bench/measure"
)

// number has three digits that count, without an exponent: 0.0153, 1.52, 15.2, 1520000.
func number(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', min(max(decimals, 0), 6), 64)
}

// spread is the range of the runs.
func spread(s measure.Spread) string {
	if s.Runs <= 1 {
		return "one run"
	}
	return number(s.Min) + " to " + number(s.Max)
}
