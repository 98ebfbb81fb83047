package retention

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/record"
)

// drawTime is any timestamp, most of them near each other.
func drawTime(t *rapid.T, name string) int64 {
	return rapid.OneOf(
		rapid.Int64Range(-3, 30),
		rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, record.NoTimestamp, math.MaxInt64 - 1, math.MaxInt64}),
	).Draw(t, name)
}

func drawLimit(t *rapid.T) Limits {
	return Limits{
		Age: rapid.OneOf(
			rapid.Map(rapid.Int64Range(-1, 30), Millis),
			rapid.SampledFrom([]time.Duration{math.MinInt64, Forever - 1, Forever}),
		).Draw(t, "age"),
		Bytes: rapid.OneOf(
			rapid.Int64Range(-1, 100),
			rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}),
		).Draw(t, "bytes"),
		LogStart: record.Offset(rapid.IntRange(0, 60).Draw(t, "log start")),
	}
}

func drawSegments(t *rapid.T) []Segment {
	var next record.Offset
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Segment {
		s := Segment{
			Base:         next,
			Next:         next + record.Offset(rapid.IntRange(0, 10).Draw(t, "records")),
			Bytes:        rapid.Int64Range(0, 40).Draw(t, "size"),
			MaxTimestamp: drawTime(t, "largest timestamp"),
			LastAppend:   rapid.Int64Range(0, 30).Draw(t, "last append"),
		}
		next = s.Next
		return s
	}), 0, 8).Draw(t, "segments")
}

func sum(segs []Segment) (n int64) {
	for _, s := range segs {
		n += s.Bytes
	}
	return n
}

// age is what the rules call the age of a segment in ms, in numbers that do not
// overflow; -Inf when it is not known.
func age(s Segment, now int64) float64 {
	ms := math.Inf(-1)
	if s.MaxTimestamp != record.NoTimestamp {
		ms = float64(now) - float64(s.MaxTimestamp)
	}
	if s.LastAppend > 0 {
		ms = max(ms, float64(now)-float64(s.LastAppend))
	}
	return ms
}

// mayGo says by the words of the rules whether the oldest segment may go.
func mayGo(segs []Segment, lim Limits, now int64) bool {
	s, active := segs[0], len(segs) == 1
	old := lim.Age >= 0 && lim.Age != Forever && age(s, now) > float64(lim.Age.Milliseconds())
	if active {
		return old && s.Next > s.Base
	}
	return old || lim.Bytes >= 0 && sum(segs[1:]) >= lim.Bytes || s.Next <= lim.LogStart
}

// TestExpiredIsTheLongestPrefix takes the oldest segment away while it may go,
// one by one, and finds the same; so a second pass finds nothing more.
func TestExpiredIsTheLongestPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segs, lim := drawSegments(t), drawLimit(t)
		now := rapid.Int64Range(0, 60).Draw(t, "now")
		rest := segs
		for len(rest) > 0 && mayGo(rest, lim, now) {
			rest = rest[1:]
		}
		got := Expired(segs, lim, now)
		if want := len(segs) - len(rest); got != want {
			t.Fatalf("%d go, want %d", got, want)
		}
		if again := Expired(segs[got:], lim, now); again != 0 {
			t.Fatalf("%d more go in a second pass", again)
		}
	})
}

func TestExpiredIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segs, lim := drawSegments(t), drawLimit(t)
		now := drawTime(t, "now")
		got := Expired(segs, lim, now)

		later := now + min(rapid.Int64Range(0, math.MaxInt64).Draw(t, "later"), math.MaxInt64-max(now, 0))
		if n := Expired(segs, lim, later); n < got {
			t.Errorf("%d go at %d, but %d at %d", got, now, n, later)
		}
		tighter := lim
		if tighter.Age > 0 {
			tighter.Age = time.Duration(rapid.Int64Range(0, int64(lim.Age)).Draw(t, "tighter age"))
		}
		if tighter.Bytes > 0 {
			tighter.Bytes = rapid.Int64Range(0, lim.Bytes).Draw(t, "tighter bytes")
		}
		tighter.LogStart += record.Offset(rapid.IntRange(0, 60).Draw(t, "higher log start"))
		if n := Expired(segs, tighter, now); n < got {
			t.Errorf("%d go with %+v, but %d with %+v", got, lim, n, tighter)
		}
	})
}

func TestOverBudgetTakesNoMoreThanAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(drawSegments), 0, 6).Draw(t, "partitions")
		budget := rapid.Int64Range(-1, 400).Draw(t, "budget")
		gone := OverBudget(parts, budget)
		var left int64
		sealed := false // a sealed segment is left
		for p, segs := range parts {
			if gone[p] > max(len(segs)-1, 0) {
				t.Fatalf("partition %d: %d of %d go", p, gone[p], len(segs))
			}
			left += sum(segs[gone[p]:])
			sealed = sealed || len(segs)-gone[p] > 1
		}
		if budget < 0 {
			if slices.Max(append(gone, 0)) > 0 {
				t.Fatalf("%v go without a budget", gone)
			}
			return
		}
		if left > budget && sealed {
			t.Errorf("%d bytes are left of %d, and only %v go", left, budget, gone)
		}
		for p, n := range gone {
			if n > 0 && left+parts[p][n-1].Bytes > budget {
				return // it had to go
			}
		}
		if slices.Max(append(gone, 0)) > 0 {
			t.Errorf("%d bytes are left of %d, and one of %v could have stayed", left, budget, gone)
		}
	})
}

// A partition's front stays while an older front of another partition stays.
func TestOverBudgetTakesTheOldestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(drawSegments), 0, 6).Draw(t, "partitions")
		budget := rapid.Int64Range(0, 400).Draw(t, "budget")
		left, want := -budget, make([]int, len(parts))
		for _, segs := range parts {
			left += sum(segs)
		}
		for left > 0 {
			oldest := -1
			for p, segs := range parts {
				if len(segs)-want[p] > 1 && (oldest < 0 || segs[want[p]].stamp() < parts[oldest][want[oldest]].stamp()) {
					oldest = p
				}
			}
			if oldest < 0 {
				break
			}
			left -= parts[oldest][want[oldest]].Bytes
			want[oldest]++
		}
		if got := OverBudget(parts, budget); !slices.Equal(got, want) {
			t.Errorf("%v go, want %v", got, want)
		}
	})
}

func TestRollDueIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Active{
			Segment:        Segment{Next: 1, MaxTimestamp: drawTime(t, "largest")},
			FirstTimestamp: drawTime(t, "first"),
			FirstAppend:    rapid.Int64Range(0, 30).Draw(t, "first append"),
		}
		limit := Millis(rapid.Int64Range(0, 30).Draw(t, "limit"))
		now := rapid.Int64Range(0, 60).Draw(t, "now")
		if !RollDue(a, limit, now) {
			return
		}
		if !RollDue(a, limit, now+rapid.Int64Range(0, math.MaxInt64-60).Draw(t, "later")) {
			t.Error("due, and no more later")
		}
		if !RollDue(a, limit-Millis(rapid.Int64Range(0, limit.Milliseconds()).Draw(t, "tighter")), now) {
			t.Error("due, and not with a tighter limit")
		}
	})
}
