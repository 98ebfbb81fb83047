package index

import (
	"github.com/varvelog/varve/record"
)

// finder is one index that can be searched, of an active or a sealed segment.
//
// around gives the last entry whose key is not above key, and the two behind it;
// noSlot and endSlot stand for what is not there. With an error the file could not
// be read: below is then an earlier entry, and what is behind it is not told.
type finder interface {
	around(key int64) (near, error)
}

// near is an entry and the two that follow it.
type near struct{ below, above, beyond slot }

// source is an index that can be searched as it is at one instant.
type source[F finder] interface{ snapshot() F }

// lookup finds the last entry whose offset is not above off.
func lookup[F finder, S source[F]](offsets S, base, off record.Offset) (Stretch, error) {
	if off < base {
		off = base - 1
	}
	n, err := offsets.snapshot().around(int64(off - base))
	return stretchOf(base, n), err
}

// lookupTime finds where to start scanning for the first batch whose largest
// timestamp is at or after ts. The argument is in the package documentation.
func lookupTime[F finder, S source[F]](offsets, times S, base record.Offset, ts int64) (Stretch, error) {
	if ts <= record.NoTimestamp {
		return lookup[F](offsets, base, base-1) // the time index knows nothing of times before 1970
	}
	entries := offsets.snapshot() // never newer than what the time index says
	t, timeErr := times.snapshot().around(ts - 1)
	limit := t.above.value - 1 // scanning may start at any entry before the one that reaches ts
	if timeErr != nil {
		limit = t.below.value // which is not known: start at one that certainly does not
	}
	n, err := entries.around(limit)
	if err == nil {
		err = timeErr
	}
	return stretchOf(base, n), err
}

// stretchOf decodes an entry of the offset index and what is known behind it.
func stretchOf(base record.Offset, n near) Stretch {
	st := Stretch{Entry: entryOf(base, n.below)}
	if n.above != endSlot {
		st.Next = entryOf(base, n.above)
	}
	if n.beyond != endSlot {
		st.End = record.Pos(n.beyond.value)
	}
	return st
}

// entryOf decodes an entry of the offset index; noSlot is the start of the segment.
func entryOf(base record.Offset, s slot) Entry {
	if s == noSlot {
		return Entry{Offset: base - 1}
	}
	return Entry{base + record.Offset(s.key), record.Pos(s.value)}
}
