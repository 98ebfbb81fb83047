package index

import (
	"github.com/varvelog/varve/record"
)

// finder is one index that can be searched, of an active or a sealed segment.
//
// around gives the last entry whose key is not above key, and the first one
// behind it; noSlot and endSlot stand for what is not there. With an error the
// file could not be read: below is then an earlier entry, and above is nothing.
type finder interface {
	around(key int64) (below, above slot, err error)
}

// source is an index that can be searched as it is at one instant.
type source[F finder] interface{ snapshot() F }

// lookup finds the last entry whose offset is not above off.
func lookup[F finder, S source[F]](offsets S, base, off record.Offset) (Entry, error) {
	if off < base {
		return entryOf(base, noSlot), nil
	}
	below, _, err := offsets.snapshot().around(int64(off - base))
	return entryOf(base, below), err
}

// lookupTime finds where to start scanning for the first batch whose largest
// timestamp is at or after ts. The argument is in the package documentation.
func lookupTime[F finder, S source[F]](offsets, times S, base record.Offset, ts int64) (Entry, error) {
	if ts <= record.NoTimestamp {
		return entryOf(base, noSlot), nil // the time index knows nothing of times before 1970
	}
	entries := offsets.snapshot() // never newer than what the time index says
	older, next, timeErr := times.snapshot().around(ts - 1)
	limit := next.value - 1 // scanning may start at any entry before the one that reaches ts
	if timeErr != nil {
		limit = older.value // which is not known: start at one that certainly does not
	}
	below, _, err := entries.around(limit)
	if err == nil {
		err = timeErr
	}
	return entryOf(base, below), err
}

// entryOf decodes an entry of the offset index; noSlot is the start of the segment.
func entryOf(base record.Offset, s slot) Entry {
	if s == noSlot {
		return Entry{Offset: base - 1}
	}
	return Entry{base + record.Offset(s.key), record.Pos(s.value)}
}
