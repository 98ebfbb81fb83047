package record

import (
	"strconv"
	"time"
)

// Offset is the place of a record in its partition: dense, never reused.
type Offset int64

// Pos is a position in a file, in bytes. It is a type of its own so that an
// offset can never be passed where a position is meant.
type Pos int64

// Epoch is a leader epoch: it rises whenever what earlier readers saw beyond
// the durable end may have been lost. It starts at 0; -1 means unknown.
type Epoch int32

func (o Offset) String() string { return strconv.FormatInt(int64(o), 10) }
func (p Pos) String() string    { return strconv.FormatInt(int64(p), 10) }

// NoTimestamp marks a record that carries no time (Kafka's NO_TIMESTAMP).
// Every other timestamp is in milliseconds since 1970-01-01 UTC and may be negative.
const NoTimestamp int64 = -1

// Record is one record as a batch holds it.
//
// A nil Key or Value is null (a tombstone, for Value); an empty one is empty:
// the format keeps them apart and so does every function of this package.
type Record struct {
	Partition int32 // of its topic; filled in by whoever reads a topic, not part of a batch
	Offset    Offset
	Timestamp int64 // milliseconds since 1970-01-01 UTC, or NoTimestamp
	Key       []byte
	Value     []byte
	Headers   []Header // in order; keys may repeat
}

// Time is the record's timestamp; it is the zero time when there is none.
func (r *Record) Time() time.Time {
	if r.Timestamp == NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(r.Timestamp)
}

// Header is one header of a record. The key is never null; a nil Value is.
type Header struct {
	Key   string
	Value []byte
}
