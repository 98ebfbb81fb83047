package retention

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/varvelog/varve/record"
)

const (
	hour = int64(time.Hour / time.Millisecond)
	day  = 24 * hour
	now  = int64(1_700_000_000_000)
	none = record.NoTimestamp
)

// aged are segments of 100 records and 1000 bytes, the last record of each
// written and appended so many hours ago.
func aged(hours ...int64) []Segment {
	var segs []Segment
	for i, h := range hours {
		base := record.Offset(100 * i)
		segs = append(segs, Segment{Base: base, Next: base + 100, Bytes: 1000, MaxTimestamp: now - h*hour, LastAppend: now - h*hour})
	}
	return segs
}

func with(segs []Segment, i int, change func(*Segment)) []Segment {
	segs = slices.Clone(segs)
	change(&segs[i])
	return segs
}

func TestExpired(t *testing.T) {
	keepAll := Limits{Age: -1, Bytes: -1}
	age := func(d time.Duration) Limits { return Limits{Age: d, Bytes: -1} }
	size := func(n int64) Limits { return Limits{Age: -1, Bytes: n} }
	below := func(o record.Offset) Limits { return Limits{Age: -1, Bytes: -1, LogStart: o} }
	empty := func(s *Segment) { s.Next = s.Base }
	for _, c := range []struct {
		name string
		segs []Segment
		lim  Limits
		want int
	}{
		{"no segments", nil, Limits{}, 0},
		{"no limits", aged(1000, 900, 800), keepAll, 0},
		{"zero limits", aged(3, 2, 1), Limits{}, 3},

		{"age, some", aged(50, 40, 10, 0), age(24 * time.Hour), 2},
		{"age, exactly the limit stays", aged(24, 0), age(24 * time.Hour), 0},
		{"age, a millisecond more goes", with(aged(24, 0), 0, func(s *Segment) { s.MaxTimestamp-- }), age(24 * time.Hour), 1},
		{"age, the active one too", aged(50, 40, 30), age(24 * time.Hour), 3},
		{"age, not an empty active one", with(aged(50, 40, 30), 2, empty), age(24 * time.Hour), 2},
		{"age, a young one stops it", aged(50, 10, 40, 0), age(24 * time.Hour), 1},
		{"age 0", aged(1, 0), age(0), 1},
		{"age, forever", aged(math.MaxInt32, 0), age(Forever), 0},

		{"KAFKA-6482: one record dated ahead", with(aged(50, 40, 0), 0, func(s *Segment) { s.MaxTimestamp = now + 3650*day }), age(24 * time.Hour), 2},
		{"old data replayed just now", with(aged(0, 0), 0, func(s *Segment) { s.MaxTimestamp = now - 730*day }), age(24 * time.Hour), 1},
		{"no timestamps", with(aged(50, 0), 0, func(s *Segment) { s.MaxTimestamp = none }), age(24 * time.Hour), 1},
		{"no timestamps, appended just now", with(aged(0, 0), 0, func(s *Segment) { s.MaxTimestamp = none }), age(24 * time.Hour), 0},
		{"append time not known", with(aged(50, 0), 0, func(s *Segment) { s.LastAppend = 0 }), age(24 * time.Hour), 1},
		{"nothing known", with(aged(50, 0), 0, func(s *Segment) { s.MaxTimestamp, s.LastAppend = none, 0 }), age(0), 0},
		{"timestamps before 1970", with(aged(0, 0), 0, func(s *Segment) { s.MaxTimestamp = -5 }), age(24 * time.Hour), 1},
		{"smallest timestamp", with(aged(0, 0), 0, func(s *Segment) { s.MaxTimestamp = math.MinInt64 }), age(Forever - 1), 1},
		{"largest timestamp", with(aged(0, 0), 0, func(s *Segment) { s.MaxTimestamp, s.LastAppend = math.MaxInt64, 0 }), age(0), 0},
		{"clock went backwards", aged(-100, -100), age(0), 0},

		{"size, rest at the limit goes", aged(3, 2, 1, 0), size(2000), 2},
		{"size, rest a byte below stays", aged(3, 2, 1, 0), size(2001), 1},
		{"size, all fits", aged(3, 2, 1, 0), size(4000), 0},
		{"size, a byte more than there is", aged(3, 2, 1, 0), size(4001), 0},
		{"size, never the active one", aged(3, 2, 1, 0), size(1), 3},
		{"size 0", aged(3, 2, 1, 0), size(0), 3},
		{"size 0, empty active one", with(aged(3, 0), 1, func(s *Segment) { s.Next, s.Bytes = s.Base, 0 }), size(0), 1},
		{"size 0, only the active one", aged(0), size(0), 0},
		{"size, largest limit", aged(3, 2, 1, 0), size(math.MaxInt64), 0},
		{"size, segments past 4 GiB", with(with(aged(2, 1, 0), 0, func(s *Segment) { s.Bytes = math.MaxInt64 }), 1, func(s *Segment) { s.Bytes = math.MaxInt64 }), size(math.MaxInt64 - 1), 1},

		{"KAFKA-12177: below the log start", aged(3, 2, 1, 0), below(200), 2},
		{"log start within a segment", aged(3, 2, 1, 0), below(199), 1},
		{"log start past the end: not the active one", aged(3, 2, 1, 0), below(1000), 3},

		{"young, but more than size", with(aged(50, 40, 1, 0), 0, func(s *Segment) { s.MaxTimestamp, s.LastAppend = now, now }), Limits{Age: 24 * time.Hour, Bytes: 3000}, 2},
		{"young, but below the log start", aged(1, 40, 1, 0), Limits{Age: 24 * time.Hour, Bytes: -1, LogStart: 100}, 2},
		{"old enough for all, size wants fewer", aged(50, 40, 1, 0), Limits{Age: 24 * time.Hour, Bytes: 3000}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Expired(c.segs, c.lim, now); got != c.want {
				t.Errorf("%d of %d go, want %d", got, len(c.segs), c.want)
			}
		})
	}
}

func TestMillis(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		-1: -time.Millisecond, math.MinInt64: -time.Millisecond, 0: 0, 1: time.Millisecond,
		604_800_000:                 7 * 24 * time.Hour,
		math.MaxInt64 / 1_000_000:   math.MaxInt64 / 1_000_000 * time.Millisecond,
		math.MaxInt64/1_000_000 + 1: Forever,
		math.MaxInt64:               Forever,
	} {
		if got := Millis(ms); got != want {
			t.Errorf("%d ms: %v, want %v", ms, got, want)
		}
	}
}

func TestRollDue(t *testing.T) {
	active := func(first, max, firstAppend int64) Active {
		return Active{Segment{Next: 100, Bytes: 1000, MaxTimestamp: max, LastAppend: now}, first, firstAppend}
	}
	for _, c := range []struct {
		name  string
		a     Active
		limit time.Duration
		want  bool
	}{
		{"young", active(now, now, now), time.Hour, false},
		{"span at the limit", active(now-hour, now, now), time.Hour, false},
		{"span over the limit", active(now-hour-1, now, now), time.Hour, true},
		{"first append at the limit", active(now, now, now-hour), time.Hour, false},
		{"first append over the limit", active(now, now, now-hour-1), time.Hour, true},
		{"KAFKA-4099: old data, narrow span", active(now-730*day, now-730*day+hour, now), time.Hour, false},
		{"old data, wide span", active(now-730*day, now-730*day+3*hour, now), time.Hour, true},
		{"one dated ahead", active(now, now+3650*day, now), time.Hour, true},
		{"the first dated ahead", active(now+3650*day, now+3650*day, now), time.Hour, false},
		{"no timestamps", active(none, none, now), time.Hour, false},
		{"no timestamps, idle", active(none, none, now-2*hour), time.Hour, true},
		{"first batch without timestamp", active(none, now, now), time.Hour, false},
		{"clock went backwards", active(now, now, now+day), 0, false},
		{"first append not known", active(now, now, 0), time.Hour, false},
		{"all int64 is the span", active(math.MinInt64, math.MaxInt64, now), Forever - 1, true},
		{"no limit", active(now-730*day, now, now-730*day), -1, false},
		{"forever", active(math.MinInt64, math.MaxInt64, 1), Forever, false},
		{"no records", Active{Segment{Base: 100, Next: 100, MaxTimestamp: none}, now - day, now - day}, time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := RollDue(c.a, c.limit, now); got != c.want {
				t.Errorf("due %v, want %v", got, c.want)
			}
		})
	}
}

// Replaying 10,000 old batches that span ten minutes rolls nothing; the one that
// comes three hours later starts a new segment.
func TestReplayRollsOnce(t *testing.T) {
	rolls := 0
	var a Active
	for i := range int64(10_001) {
		ts := now - 730*day + i*60
		if i == 10_000 {
			ts += 3 * hour
		}
		next := a
		if next.empty() {
			next.FirstTimestamp, next.FirstAppend = ts, now+i
			next.MaxTimestamp = ts
		}
		next.Next++
		next.MaxTimestamp = max(next.MaxTimestamp, ts)
		if RollDue(next, time.Hour, now+i) {
			rolls++
			next = Active{Segment{Base: a.Next, Next: a.Next + 1, MaxTimestamp: ts}, ts, now + i}
		}
		a = next
	}
	if rolls != 1 || a.Base != 10_000 {
		t.Errorf("%d rolls, last segment from %d", rolls, a.Base)
	}
}

func TestOverBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		parts  [][]Segment
		budget int64
		want   []int
	}{
		{"nothing there", nil, 0, []int{}},
		{"empty partitions", [][]Segment{nil, {}}, 0, []int{0, 0}},
		{"no budget", [][]Segment{aged(9, 8, 7)}, -1, []int{0}},
		{"just fits", [][]Segment{aged(9, 8), aged(7, 6)}, 4000, []int{0, 0}},
		{"a byte over", [][]Segment{aged(9, 8), aged(10, 6)}, 3999, []int{0, 1}},
		{"oldest first over all", [][]Segment{aged(9, 5, 1), aged(8, 7, 1), aged(6, 1)}, 5000, []int{1, 2, 0}},
		{"never an active one", [][]Segment{aged(9, 8), aged(7)}, 0, []int{1, 0}},
		{"dated alike: the first partition", [][]Segment{aged(9, 8), aged(9, 8)}, 3999, []int{1, 0}},
		{"a young one in front holds back the old behind", [][]Segment{aged(1, 9, 1), aged(2, 1)}, 4000, []int{0, 1}},
		{"held ones stay, and what is behind", [][]Segment{heldFrom(1, aged(9, 8, 7, 1)), aged(6, 5, 1)}, 0, []int{1, 2}},
		{"unknown age goes last", [][]Segment{with(aged(9, 8), 0, func(s *Segment) { s.MaxTimestamp, s.LastAppend = none, 0 }), aged(1, 0)}, 3000, []int{0, 1}},
		{"dated ahead counts by its append", [][]Segment{with(aged(9, 8), 0, func(s *Segment) { s.MaxTimestamp = math.MaxInt64 }), aged(5, 0)}, 3000, []int{1, 0}},
		{"sizes beyond an int64 in sum: too few go rather than too many", [][]Segment{with(aged(9, 8, 7), 0, func(s *Segment) { s.Bytes = math.MaxInt64 }), with(aged(10, 5), 0, func(s *Segment) { s.Bytes = math.MaxInt64 })}, math.MaxInt64, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := OverBudget(c.parts, c.budget); !slices.Equal(got, c.want) {
				t.Errorf("%v go, want %v", got, c.want)
			}
		})
	}
}
