package measure

import (
	"slices"
	"time"
)

// Latencies are the times that single calls took.
type Latencies []time.Duration

// Figures are their quantiles in microseconds.
func (l Latencies) Figures() Figures {
	sorted := make([]float64, len(l))
	for i, d := range l {
		sorted[i] = float64(d) / float64(time.Microsecond)
	}
	slices.Sort(sorted)
	return Figures{
		"p50 µs": Quantile(sorted, 0.5), "p90 µs": Quantile(sorted, 0.9),
		"p99 µs": Quantile(sorted, 0.99), "max µs": Quantile(sorted, 1),
	}
}
