package record

import (
	"encoding/binary"
	"math/bits"
)

const (
	xxhPrime1 = 2654435761
	xxhPrime2 = 2246822519
	xxhPrime3 = 3266489917
	xxhPrime4 = 668265263
	xxhPrime5 = 374761393
)

// xxh32 is the XXH32 hash with seed 0, which LZ4 frames use.
func xxh32(p []byte) uint32 {
	size := uint32(len(p))
	h := uint32(xxhPrime5)
	if len(p) >= 16 {
		h, p = xxh32Stripes(p)
	}
	h += size
	for ; len(p) >= 4; p = p[4:] {
		h += binary.LittleEndian.Uint32(p) * xxhPrime3
		h = bits.RotateLeft32(h, 17) * xxhPrime4
	}
	for _, c := range p {
		h += uint32(c) * xxhPrime5
		h = bits.RotateLeft32(h, 11) * xxhPrime1
	}
	h = (h ^ h>>15) * xxhPrime2
	h = (h ^ h>>13) * xxhPrime3
	return h ^ h>>16
}

// xxh32Stripes folds all whole stripes of 16 bytes and returns what is left.
func xxh32Stripes(p []byte) (h uint32, rest []byte) {
	p1, p2 := uint32(xxhPrime1), uint32(xxhPrime2)
	lanes := [4]uint32{p1 + p2, p2, 0, -p1}
	for ; len(p) >= 16; p = p[16:] {
		for i := range lanes {
			lanes[i] += binary.LittleEndian.Uint32(p[4*i:]) * p2
			lanes[i] = bits.RotateLeft32(lanes[i], 13) * p1
		}
	}
	h = bits.RotateLeft32(lanes[0], 1) + bits.RotateLeft32(lanes[1], 7) +
		bits.RotateLeft32(lanes[2], 12) + bits.RotateLeft32(lanes[3], 18)
	return h, p
}
