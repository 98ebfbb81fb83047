package vfs

import (
	"bytes"
	"slices"
)

// content is what is in a file: live as callers see it, durable as it is after
// a power cut that loses every pending operation. live is always durable with
// all of pending applied, but for pages that a failed sync lost.
type content struct {
	live, durable []byte
	pending       []dataOp // not durable, oldest first

	// reserved bytes count against the limit even where the file is shorter.
	reserved, durableReserved int64

	// lost: a sync failed and left pages clean that are not on the disk.
	lost bool
}

// dataOp is one write, or with resize one change of length to pos.
type dataOp struct {
	pos    int
	data   []byte
	resize bool
}

func (op dataOp) end() int { return op.pos + len(op.data) }

// length is the length of a file after op that was before long.
func (op dataOp) length(before int) int {
	if op.resize {
		return op.pos
	}
	return max(before, op.end())
}

func (op dataOp) apply(b []byte) []byte {
	b = withLength(b, op.length(len(b)))
	copy(b[op.pos:], op.data)
	return b
}

// withLength cuts b or lengthens it with zeros. The room behind a cut holds old
// bytes, hence the clear.
func withLength(b []byte, n int) []byte {
	if n <= len(b) {
		return b[:n]
	}
	before := len(b)
	b = slices.Grow(b, n-before)[:n]
	clear(b[before:])
	return b
}

func (c *content) space() int64 { return max(int64(len(c.live)), c.reserved) }

func (c *content) write(p []byte, pos int) {
	c.live = dataOp{pos: pos, data: p}.apply(c.live)
	from, to := pos, pos+len(p)
	if c.lost {
		// The write makes its pages dirty again, with all that is on them.
		from = from / pageSize * pageSize
		to = min((to+pageSize-1)/pageSize*pageSize, len(c.live))
	}
	c.pending = append(c.pending, dataOp{pos: from, data: bytes.Clone(c.live[from:to])})
}

// resize gives up reserved space behind the new end, as ftruncate does.
func (c *content) resize(n int) {
	op := dataOp{pos: n, resize: true}
	c.live = op.apply(c.live)
	c.pending = append(c.pending, op)
	c.reserved = min(c.reserved, int64(n))
}

func (c *content) sync() {
	for _, op := range c.pending {
		c.durable = op.apply(c.durable)
	}
	c.pending = nil
	c.durableReserved = c.reserved
}

// failSync is a sync that the disk refused, on a kernel that then takes the
// pages for clean (Linux since 4.13, with its error reported once): reads go on
// showing them, no later sync writes them. Lengths are metadata and go their
// own way, so they stay pending.
func (c *content) failSync() {
	c.pending = slices.DeleteFunc(c.pending, func(op dataOp) bool { return !op.resize })
	c.pending = append(c.pending, dataOp{pos: len(c.live), resize: true})
	c.lost = true
}

// replace puts b there, durable at once.
func (c *content) replace(b []byte) {
	*c = content{live: bytes.Clone(b), durable: bytes.Clone(b)}
}
