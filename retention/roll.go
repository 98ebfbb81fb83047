package retention

import (
	"time"

	"github.com/varvelog/varve/record"
)

// Active is what is known of an active segment beyond [Segment].
type Active struct {
	Segment
	FirstTimestamp int64 // largest record timestamp of its first batch in ms, or record.NoTimestamp
	FirstAppend    int64 // when that batch was appended, in ms of the wall clock; 0 and less: unknown
}

// RollDue says whether an active segment is to be rolled by age (segment.ms) at
// the time now (ms): its record timestamps span more than limit, or more than
// limit has passed since its first append. A segment without records is never
// due; a negative limit and [Forever] are none.
//
// Before an append, give the facts as they would be with the new batch in it:
// the batch that would stretch the span then starts the next segment.
func RollDue(a Active, limit time.Duration, now int64) bool {
	if a.empty() {
		return false
	}
	if a.FirstAppend > 0 && exceeds(a.FirstAppend, now, limit) {
		return true
	}
	return a.FirstTimestamp != record.NoTimestamp && a.MaxTimestamp != record.NoTimestamp &&
		exceeds(a.FirstTimestamp, a.MaxTimestamp, limit)
}
