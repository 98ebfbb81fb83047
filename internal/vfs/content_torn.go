package vfs

import (
	"bytes"
	"math/rand/v2"
)

// pageSize is the unit in which a kernel keeps and writes a file; a disk may
// tear it into sectors.
const (
	pageSize   = 4096
	sectorSize = 512
)

// after is what a power cut leaves in the file.
func (c *content) after(how Unsynced, rng *rand.Rand) []byte {
	switch how {
	case UnsyncedPrefix:
		return c.prefix(rng)
	case UnsyncedSectors:
		return c.torn(rng, sectorSize)
	case UnsyncedPages:
		return c.torn(rng, pageSize)
	case UnsyncedKept:
		return c.replay(len(c.pending))
	default:
		return c.replay(0)
	}
}

// replay is the durable content with the first n pending operations.
func (c *content) replay(n int) []byte {
	b := bytes.Clone(c.durable)
	for _, op := range c.pending[:n] {
		b = op.apply(b)
	}
	return b
}

// prefix ends inside the first operation it lacks as often as before it.
func (c *content) prefix(rng *rand.Rand) []byte {
	n := rng.IntN(len(c.pending) + 1)
	b := c.replay(n)
	if n == len(c.pending) || c.pending[n].resize || rng.IntN(2) == 0 {
		return b
	}
	op := c.pending[n]
	op.data = op.data[:rng.IntN(len(op.data)+1)]
	return op.apply(b)
}

// torn models writeback. The kernel writes a page when it likes, as the page is
// at that moment, and the length when it likes: so each unit shows the file as
// of a moment of its own, 0 to len(pending), and so does the length, which may
// run ahead of the data (zeros) or lag behind it.
//
// One order holds. A length that is on disk has brought with it every cut before
// it: what was cut off and lies below the new length reads as zeros or as what
// was written there later, never as what was there before.
func (c *content) torn(rng *rand.Rand, unit int) []byte {
	moment := rng.IntN(len(c.pending) + 1)
	length, longest := c.lengths(rng, unit, moment)
	b := withLength(bytes.Clone(c.durable), longest)

	seen := map[int]int{} // unit → how many operations it shows
	shows := func(u int) int {
		if _, ok := seen[u]; !ok {
			seen[u] = rng.IntN(len(c.pending) + 1)
		}
		return seen[u]
	}
	for i, op := range c.pending {
		end := op.end()
		if op.resize {
			end = longest
		}
		for at := op.pos; at < end; {
			next := min((at/unit+1)*unit, end)
			if shows(at/unit) > i || op.resize && i < moment {
				op.applyBetween(b, at, next)
			}
			at = next
		}
	}
	return b[:length]
}

// applyBetween is apply for the bytes at positions from to to.
func (op dataOp) applyBetween(b []byte, from, to int) {
	if op.resize {
		clear(b[from:to])
		return
	}
	copy(b[from:to], op.data[from-op.pos:])
}

// lengths are the one on disk, which is of the moment or on its way to the next
// at a unit's boundary, and the longest there was.
func (c *content) lengths(rng *rand.Rand, unit, moment int) (length, longest int) {
	at := len(c.durable)
	length, longest = at, at
	next := at
	for i, op := range c.pending {
		at = op.length(at)
		longest = max(longest, at)
		if i < moment {
			length = at
		}
		if i <= moment {
			next = at
		}
	}
	boundaries := (next-1)/unit - length/unit // strictly between the two
	if boundaries > 0 && rng.IntN(2) == 0 {
		length = (length/unit + 1 + rng.IntN(boundaries)) * unit
	}
	return length, longest
}
