package index

import "github.com/varvelog/varve/record"

// Entry says where a record batch starts: the batch at Pos ends with Offset.
//
// The answer of a lookup is a place to start scanning. Where nothing is indexed
// before the place asked for, it is the start of the segment: {base-1, 0}, of
// which only the position means something.
type Entry struct {
	Offset record.Offset // last offset of the batch
	Pos    record.Pos    // first byte of the batch
}

// Stretch is the answer of a lookup with what follows it, so that a reader knows how
// much to read at once, and may try the next entry first: where its batch follows that
// of the first entry directly, nothing lies between. What is not there, or would take
// another read, is zero.
type Stretch struct {
	Entry
	Next Entry      // the entry behind
	End  record.Pos // where the one behind Next stands
}

// TimeEntry says that no record up to Offset is younger than Timestamp: it was
// the largest timestamp of the segment when the entry was made, and the batch
// that carries it ends with Offset.
type TimeEntry struct {
	Timestamp int64 // milliseconds since 1970-01-01 UTC, never negative
	Offset    record.Offset
}
