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

// varintSize returns the bytes that v takes.
func varintSize(v int64) int {
	return int((9*uint(bits.Len64(zigzag(v)|1)) + 64) >> 6) // ceil(len/7), without dividing
}

// putVarint writes v at p[i], where there is room, and returns the position after it.
func putVarint(p []byte, i int, v int64) int {
	u := zigzag(v)
	for u >= 0x80 {
		p[i] = byte(u) | 0x80
		i++
		u >>= 7
	}
	p[i] = byte(u)
	return i + 1
}

// varint32 reads a number of up to five bytes at p[i], still in zigzag form,
// and returns it with the position after it. Of its 35 bits the top three are
// for the caller to refuse, as every bound on a length or an offset does.
//
// It is small enough to be inlined, as varint64 is: a call costs more than the loop.
func varint32(p []byte, i int) (u uint64, next int) {
	for shift := 0; shift < 35 && uint(i) < uint(len(p)); shift += 7 {
		c := uint64(p[i])
		i++
		if c < 0x80 {
			return u | c<<shift, i
		}
		u |= c & 0x7f << shift
	}
	return badVarint, noPos
}

// varint64 is varint32 for up to ten bytes, the last of which has one bit.
func varint64(p []byte, i int) (u uint64, next int) {
	for shift := 0; shift < 70 && uint(i) < uint(len(p)); shift += 7 {
		c := uint64(p[i])
		i++
		if shift == 63 && c > 1 {
			break
		}
		if c < 0x80 {
			return u | c<<shift, i
		}
		u |= c & 0x7f << shift
	}
	return badVarint, noPos
}
