package varve

import (
	"sync/atomic"
	"time"
)

// Durations is how long something took each time: a histogram, in plain numbers.
type Durations struct {
	Bounds []time.Duration // rising; a bound belongs to what is below. Not to be changed
	Counts []int64         // below each bound and above the one before; the last is of what is above all
	Sum    time.Duration
}

// Count is how often it took any time.
func (d *Durations) Count() (n int64) {
	for _, c := range d.Counts {
		n += c
	}
	return n
}

// durationBounds are from what a write to memory takes to what a disk takes that hardly
// answers.
var durationBounds = [...]time.Duration{
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second,
}

// durations count how long something took. Neither who counts nor who looks waits.
type durations struct {
	counts [len(durationBounds) + 1]atomic.Int64
	sum    atomic.Int64 // nanoseconds
}

func (d *durations) add(took time.Duration) {
	i := 0
	for i < len(durationBounds) && took > durationBounds[i] {
		i++
	}
	d.counts[i].Add(1)
	d.sum.Add(int64(took))
}

func (d *durations) read() Durations {
	s := Durations{Bounds: durationBounds[:], Counts: make([]int64, len(d.counts)), Sum: time.Duration(d.sum.Load())}
	for i := range d.counts {
		s.Counts[i] = d.counts[i].Load()
	}
	return s
}
