package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"
)

// snappyMagic opens the framing of snappy-java's SnappyOutputStream, which is
// what Kafka's clients write: two int32 versions follow it, then blocks, each
// behind its int32 size. Clients not built on Java may send one raw block.
var snappyMagic = []byte("\x82SNAPPY\x00")

const (
	snappyHeaderSize = 16
	snappyBlockSize  = 32 << 10 // of input; snappy-java's default

	// A copy of 64 bytes takes three, and nothing in the format does better.
	snappyMaxRatio = 22
)

var (
	errSnappyCut   = errors.New("block runs past the end")
	errSnappyClaim = errors.New("block claims more than it can hold")
	errSnappyS2    = errors.New("block uses the S2 extension")
)

func snappyInflate(dst, src []byte, max int) ([]byte, error) {
	if !bytes.HasPrefix(src, snappyMagic) {
		return snappyBlock(dst, src, max)
	}
	dst = firstGuess(dst, src, max)
	for len(src) > 0 {
		// A header may come again: snappy-java reads streams laid end to end.
		if bytes.HasPrefix(src, snappyMagic) {
			if len(src) < snappyHeaderSize {
				return nil, errSnappyCut
			}
			src = src[snappyHeaderSize:]
			continue
		}
		if len(src) < 4 {
			return nil, errSnappyCut
		}
		size := int64(binary.BigEndian.Uint32(src))
		if src = src[4:]; size > int64(len(src)) {
			return nil, errSnappyCut
		}
		var err error
		if dst, err = snappyBlock(dst, src[:size], max); err != nil {
			return nil, err
		}
		src = src[size:]
	}
	return dst, nil
}

// snappyBlock appends one inflated block to dst.
func snappyBlock(dst, block []byte, max int) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	switch {
	case err != nil:
		return nil, err
	case int64(size) > int64(snappyMaxRatio)*int64(len(block)):
		return nil, errSnappyClaim
	case size > max-len(dst):
		return nil, ErrTooLarge
	case usesS2(block):
		return nil, errSnappyS2
	}
	dst = slices.Grow(dst, size)
	if _, err := s2.Decode(dst[len(dst):len(dst)+size], block); err != nil {
		return nil, err
	}
	return dst[:len(dst)+size], nil
}

// usesS2 reports whether the block has a short copy from offset 0, which S2
// takes for "repeat" and snappy for damage: no Kafka client reads such a
// block. Any other damage is for the decoder to find.
func usesS2(block []byte) bool {
	_, i := binary.Uvarint(block) // the inflated size
	for i < len(block) {
		tag := block[i]
		switch tag & 3 {
		case 0:
			i += snappyLiteral(block[i:])
		case 1:
			if tag>>5 == 0 && i+1 < len(block) && block[i+1] == 0 {
				return true
			}
			i += 2
		case 2:
			i += 3
		case 3:
			i += 5
		}
	}
	return false
}

// snappyLiteral returns the bytes that the literal p starts with takes, tag
// and size included, or all of p.
func snappyLiteral(p []byte) int {
	const longest = 59 // from 60 on the tag says in how many bytes the size follows
	n := int64(p[0] >> 2)
	head := 1
	if n > longest {
		head += int(n) - longest
		var size [8]byte
		copy(size[:head-1], p[1:])
		n = int64(binary.LittleEndian.Uint64(size[:]))
	}
	return int(min(int64(head)+n+1, int64(len(p))))
}

func snappyDeflate(dst, src []byte) []byte {
	dst = append(dst, snappyMagic...)
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1) // version, lowest compatible version
	for len(src) > 0 {
		n := min(len(src), snappyBlockSize)
		at := len(dst)
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(n))
		block := s2.EncodeSnappy(dst[at+4:cap(dst)], src[:n])
		dst = dst[:at+4+len(block)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		src = src[n:]
	}
	return dst
}
