package partition

import (
	"math"
	"testing"
)

// A steady stream is measured at its rate after some minutes, a stream that has
// stopped decays to nothing, and a clock that is set back gives no nonsense.
func TestRatesFollowTheCounters(t *testing.T) {
	now := int64(1_000_000)
	l := &Log{env: Env{Now: func() int64 { return now }}}
	l.Measure()
	second := func(records, bytes, read int64) {
		l.stats.records.Add(records)
		l.stats.bytes.Add(bytes)
		l.stats.readBytes.Add(read)
		now += 1000
		l.Measure()
	}
	for range 600 {
		second(100, 2000, 300)
	}
	got := l.Rates()
	for name, pair := range map[string][2]float64{
		"records": {got.Records, 100}, "bytes": {got.Bytes, 2000}, "read bytes": {got.ReadBytes, 300},
	} {
		if math.Abs(pair[0]-pair[1]) > pair[1]/100 {
			t.Errorf("%s: %v a second, expected %v", name, pair[0], pair[1])
		}
	}
	now -= 3_600_000
	l.Measure()
	if r := l.Rates(); r != got {
		t.Errorf("after the clock went back: %+v, before %+v", r, got)
	}
	for range 600 {
		second(0, 0, 0)
	}
	if r := l.Rates(); r.Records > 0.1 || r.Bytes > 1 || r.ReadBytes > 1 {
		t.Errorf("ten minutes after the end: %+v", r)
	}
}
