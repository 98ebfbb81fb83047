package record

import (
	"math"
	"math/bits"
)

// Numbers inside a record are base-128 varints over the zigzag form, as in
// Protocol Buffers: at most five bytes for 32 bits, ten for 64. A longer form
// than needed is read, as Kafka reads it; a number that does not fit its type
// is refused, where Kafka drops the bits too many.

// A number that is malformed or cut off reads as badVarint at position noPos:
// an odd number that is no length, at a place where reading fails again. So
// one check after several numbers is enough.
const (
	badVarint = math.MaxUint64
	noPos     = math.MaxInt
)

// zigzagNull is the length -1, null, in zigzag form.
const zigzagNull = 1

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// length is zigzag of what is known not to be negative.
func length(n int) uint64 { return uint64(n) << 1 }

// varintSize returns the bytes that u takes, a number in zigzag form.
func varintSize(u uint64) int {
	return int((9*uint(bits.Len64(u|1)) + 64) >> 6) // ceil(len/7), without dividing
}

// putVarint writes u, a number in zigzag form, at p[i], where there is room,
// and returns the position after it.
func putVarint(p []byte, i int, u uint64) int {
	for u >= 0x80 {
		p[i] = byte(u) | 0x80
		i++
		u >>= 7
	}
	p[i] = byte(u)
	return i + 1
}

// varint64 reads the number at p[i], leaves it in zigzag form, and returns it
// with the position after it.
func varint64(p []byte, i int) (u uint64, next int) {
	for shift := 0; shift < 70 && i < len(p); shift += 7 {
		c := uint64(p[i])
		i++
		if shift == 63 && c > 1 {
			break
		}
		u |= c & 0x7f << shift
		if c < 0x80 {
			return u, i
		}
	}
	return badVarint, noPos
}

// varint32 is varint64 for 32 bits.
func varint32(p []byte, i int) (u uint64, next int) {
	u, next = varint64(p, i)
	if u > math.MaxUint32 || next-i > 5 {
		return badVarint, noPos
	}
	return u, next
}

// shortVarint is varint64 for a number of one or two bytes, and fails for a
// longer one. It is small enough to be inlined.
func shortVarint(p []byte, i int) (u uint64, next int) {
	if uint(i) < uint(len(p)) {
		u = uint64(p[i])
		if u < 0x80 {
			return u, i + 1
		}
		if i+1 < len(p) && p[i+1] < 0x80 {
			return u&0x7f | uint64(p[i+1])<<7, i + 2
		}
	}
	return badVarint, noPos
}

// fits reports whether n, a length in zigzag form, is one and no more than room.
func fits(n uint64, room int) bool { return n&1 == 0 && n>>1 <= uint64(room) }

// nullable reads the nullable bytes at p[i], their length first. The slice
// shares p, but an append to it does not reach what follows.
func nullable(p []byte, i int) (b []byte, next int, ok bool) {
	n, i := varint32(p, i)
	if n == zigzagNull {
		return nil, i, true
	}
	if !fits(n, len(p)-i) {
		return nil, 0, false
	}
	end := i + int(n>>1)
	return p[i:end:end], end, true
}
