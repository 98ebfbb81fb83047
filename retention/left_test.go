package retention

import (
	"testing"
	"time"

	"github.com/varvelog/varve/record"
)

// heldFrom holds the segments from i on.
func heldFrom(i int, segs []Segment) []Segment {
	for ; i < len(segs); i++ {
		segs[i].Held = true
	}
	return segs
}

// What is held goes by no limit, but for what lies below the log start.
func TestHeldStays(t *testing.T) {
	for _, c := range []struct {
		name string
		held int
		lim  Limits
		want int
	}{
		{"by age", 1, Limits{Age: time.Hour, Bytes: -1}, 1},
		{"by size", 2, Limits{Age: -1, Bytes: 0}, 2},
		{"all of it", 0, Limits{}, 0},
		{"nothing", 4, Limits{Age: time.Hour, Bytes: -1}, 3},
		{"below the log start", 0, Limits{Age: -1, Bytes: -1, LogStart: 200}, 2},
		{"below the log start, and old behind it", 0, Limits{Age: time.Hour, Bytes: 0, LogStart: 100}, 1},
	} {
		if got := Expired(heldFrom(c.held, aged(9, 8, 7, 0)), c.lim, now); got != c.want {
			t.Errorf("%s: %d segments go, want %d", c.name, got, c.want)
		}
	}
}

func TestLeft(t *testing.T) {
	segs := aged(9, 8, 7, 0)
	none := Limits{Age: -1, Bytes: -1}
	for _, c := range []struct {
		name  string
		lim   Limits
		off   record.Offset
		bytes int64
		age   time.Duration
	}{
		{"no limits", none, 0, -1, -1},
		{"the oldest", Limits{Age: 10 * time.Hour, Bytes: 3500}, 0, 500, time.Hour},
		{"its last record", Limits{Age: 10 * time.Hour, Bytes: 3500}, 99, 500, time.Hour},
		{"the next", Limits{Age: 10 * time.Hour, Bytes: 3500}, 100, 1500, 2 * time.Hour},
		{"overdue", Limits{Age: time.Hour, Bytes: 100}, 0, 0, 0},
		{"the end", Limits{Age: time.Hour, Bytes: 100}, 400, 100, time.Hour},
		{"for ever", Limits{Age: Forever, Bytes: 0}, 0, 0, -1},
	} {
		if bytes, age := Left(segs, c.lim, c.off, now); bytes != c.bytes || age != c.age {
			t.Errorf("%s: %d bytes and %v are left, want %d and %v", c.name, bytes, age, c.bytes, c.age)
		}
	}
}

func TestLess(t *testing.T) {
	if got := (Limits{Age: 10 * time.Hour, Bytes: 1000}).Less(0.1); got.Age != 9*time.Hour || got.Bytes != 900 {
		t.Errorf("less is %+v", got)
	}
	for _, lim := range []Limits{{Age: -1, Bytes: -1}, {Age: Forever, Bytes: 0}, {}} {
		if got := lim.Less(0.5); got != lim {
			t.Errorf("less than %+v is %+v", lim, got)
		}
	}
}
