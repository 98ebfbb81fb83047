package retention

import (
	"math"
	"time"

	"github.com/varvelog/varve/record"
)

// Segment is what retention knows of one segment.
type Segment struct {
	Base  record.Offset
	Next  record.Offset // one past the last offset; Base when it is empty
	Bytes int64         // size of the log file
	// MaxTimestamp is the largest record timestamp in ms, or record.NoTimestamp.
	MaxTimestamp int64
	// LastAppend is when the last record was appended, in ms of the wall clock.
	// Zero and less means unknown; MaxTimestamp alone dates the segment then.
	LastAppend int64
	// Held says that somebody still needs it: it goes only when it lies below the log
	// start.
	Held bool
}

// Forever is the age limit that nothing reaches.
const Forever time.Duration = math.MaxInt64

// Millis is ms milliseconds as an age limit. What a Duration cannot hold (292
// years and more) is [Forever]: Kafka's configs allow up to 2^63-1 ms.
func Millis(ms int64) time.Duration {
	if ms > math.MaxInt64/int64(time.Millisecond) {
		return Forever
	}
	return time.Duration(max(ms, -1)) * time.Millisecond
}

func (s Segment) empty() bool { return s.Next <= s.Base }

// stamp dates the segment for the age rules: the smaller of its two times that
// are known. One of unknown age is dated at the end of time, so that it is the
// last to go.
func (s Segment) stamp() int64 {
	stamp := int64(math.MaxInt64)
	if s.MaxTimestamp != record.NoTimestamp {
		stamp = s.MaxTimestamp
	}
	if s.LastAppend > 0 {
		stamp = min(stamp, s.LastAppend)
	}
	return stamp
}

// exceeds says whether the time from start to end, both in ms, is longer than
// limit. A negative limit and Forever are no limit. Time that runs backwards is
// never long. The difference of two int64 always fits an uint64.
func exceeds(start, end int64, limit time.Duration) bool {
	if limit < 0 || limit == Forever || end <= start {
		return false
	}
	return uint64(end)-uint64(start) > uint64(limit.Milliseconds())
}
