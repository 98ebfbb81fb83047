package retention

import (
	"math"
	"time"

	"github.com/varvelog/varve/record"
)

// Limits is how much a partition keeps. As in Kafka 0 is a limit, of nothing: the
// zero value deletes all there is. What is not limited is -1.
type Limits struct {
	Age      time.Duration // older segments go; negative or Forever: no limit
	Bytes    int64         // at least this much is kept; negative: no limit
	LogStart record.Offset // segments wholly below it go, whatever the other limits
}

// Expired says how many of the oldest segments of a partition go at the time now
// (ms). The segments are given oldest first and the last one is the active one.
//
// The oldest segment goes while one of these holds for it:
//
//   - Age: it is older than lim.Age, counted from the smaller of its largest
//     timestamp and its last append.
//   - Bytes: what stays without it is still lim.Bytes or more (as Kafka's
//     UnifiedLog.deleteRetentionSizeBreachedSegments).
//   - LogStart: all its records are below the log start (KAFKA-12177).
//
// The first segment for which none holds ends it, however old those behind are, and so
// does one that is held, unless it is below the log start.
//
// The active segment can only go by age, and not while it is empty. It is
// counted then, and the caller rolls it before deleting it.
func Expired(segs []Segment, lim Limits, now int64) int {
	bySize := sizeExcess(segs, lim.Bytes)
	for i, s := range segs {
		active := i == len(segs)-1
		below := !active && s.Next <= lim.LogStart
		old := !(active && s.empty()) && exceeds(s.stamp(), now, lim.Age)
		if !below && (s.Held || i >= bySize && !old) {
			return i
		}
	}
	return len(segs)
}

// sizeExcess is how many of the oldest segments are not needed to keep limit
// bytes. It sums from the active end and stops as soon as the limit is met.
func sizeExcess(segs []Segment, limit int64) int {
	if limit < 0 {
		return 0
	}
	missing := limit
	for i := len(segs) - 1; i > 0; i-- {
		if segs[i].Bytes >= missing {
			return i
		}
		missing -= segs[i].Bytes
	}
	return 0
}

// Expires is when, in ms, a segment has reached an age limit: from the next millisecond on
// [Expired] takes it for old. False where it never does.
func Expires(s Segment, age time.Duration) (ms int64, limited bool) {
	stamp := s.stamp()
	if age < 0 || age == Forever || stamp > math.MaxInt64-age.Milliseconds() {
		return 0, false
	}
	return stamp + age.Milliseconds(), true
}
