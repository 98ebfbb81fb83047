package record

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// An LZ4 frame as Kafka writes and reads it (its classes Lz4BlockOutputStream
// and Lz4BlockInputStream, KIP-57): version 1, independent blocks, one frame
// a batch. Dictionaries, dependent blocks, skippable and legacy frames are
// refused, as Kafka refuses them. A block checksum is verified; a content
// checksum or size is skipped: the batch's own checksum covers the same bytes.
//
//	magic 04 22 4d 18 | FLG | BD | content size u64, if FLG says so | HC
//	block: size u32 (top bit: stored as is) | bytes | xxh32, if FLG says so
//	… | end mark 00 00 00 00 | content xxh32, if FLG says so
const (
	lz4Magic     = 0x184D2204
	lz4BlockSize = 64 << 10
	lz4Stored    = 1 << 31

	lz4Version     = 0x40 // FLG, of two bits 0xc0
	lz4Independent = 0x20
	lz4BlockSum    = 0x10
	lz4ContentSize = 0x08
	lz4ContentSum  = 0x04
	lz4Reserved    = 0x03

	lz4MaxRatio = 255 // a length grows by 255 a byte, and nothing does better
)

// lz4Head is the head of every frame written: FLG, BD (64 KiB blocks) and the
// checksum of the two.
var lz4Head = []byte{0x04, 0x22, 0x4d, 0x18, lz4Version | lz4Independent, 0x40, 0x82}

var (
	errLZ4Cut      = errors.New("frame ends early")
	errLZ4Magic    = errors.New("no frame magic")
	errLZ4Flags    = errors.New("frame flags that Kafka does not read")
	errLZ4Head     = errors.New("frame head checksum mismatch")
	errLZ4Block    = errors.New("block larger than the frame allows")
	errLZ4BlockSum = errors.New("block checksum mismatch")
	errLZ4Rest     = errors.New("bytes after the frame")
)

// lz4Frame is what the head of a frame says.
type lz4Frame struct {
	blockSize  int
	blockSum   bool
	contentSum bool
}

// readLZ4Head returns the frame's head and what follows it.
func readLZ4Head(src []byte) (f lz4Frame, rest []byte, err error) {
	if len(src) < len(lz4Head) {
		return f, nil, errLZ4Cut
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return f, nil, errLZ4Magic
	}
	flags, sizes := src[4], src[5]
	end := 6
	if flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(src) <= end {
		return f, nil, errLZ4Cut
	}
	if src[end] != byte(xxh32(src[4:end])>>8) {
		return f, nil, errLZ4Head
	}
	sizeClass := sizes >> 4 // 4…7: 64 KiB, 256 KiB, 1 MiB, 4 MiB; the top bit is reserved
	if flags&0xc0 != lz4Version || flags&lz4Independent == 0 || flags&lz4Reserved != 0 ||
		sizes&0x0f != 0 || sizeClass < 4 || sizeClass > 7 {
		return f, nil, errLZ4Flags
	}
	f = lz4Frame{
		blockSize:  1 << (8 + 2*sizeClass),
		blockSum:   flags&lz4BlockSum != 0,
		contentSum: flags&lz4ContentSum != 0,
	}
	return f, src[end+1:], nil
}

func lz4Inflate(dst, src []byte, max int) ([]byte, error) {
	f, src, err := readLZ4Head(src)
	if err != nil {
		return nil, err
	}
	dst = firstGuess(dst, src, max)
	for {
		block, stored, rest, err := f.next(src)
		if err != nil {
			return nil, err
		}
		src = rest
		if block == nil {
			break
		}
		if dst, err = f.inflateBlock(dst, block, stored); err != nil {
			return nil, err
		}
		if len(dst) > max {
			return nil, ErrTooLarge
		}
	}
	if f.contentSum {
		if len(src) < 4 {
			return nil, errLZ4Cut
		}
		src = src[4:]
	}
	if len(src) > 0 {
		return nil, errLZ4Rest
	}
	return dst, nil
}

// next cuts the next block off src; a nil block is the end mark.
func (f *lz4Frame) next(src []byte) (block []byte, stored bool, rest []byte, err error) {
	if len(src) < 4 {
		return nil, false, nil, errLZ4Cut
	}
	word := binary.LittleEndian.Uint32(src)
	src = src[4:]
	size := int64(word &^ lz4Stored)
	if size == 0 {
		return nil, false, src, nil
	}
	if size > int64(f.blockSize) {
		return nil, false, nil, errLZ4Block
	}
	sum := int64(0)
	if f.blockSum {
		sum = 4
	}
	if size+sum > int64(len(src)) {
		return nil, false, nil, errLZ4Cut
	}
	block, rest = src[:size:size], src[size+sum:]
	if f.blockSum && xxh32(block) != binary.LittleEndian.Uint32(src[size:]) {
		return nil, false, nil, errLZ4BlockSum
	}
	return block, word&lz4Stored != 0, rest, nil
}

// inflateBlock appends one inflated block to dst. It may pass the caller's
// limit by what one block holds: a block has to be inflated to know its size.
func (f *lz4Frame) inflateBlock(dst, block []byte, stored bool) ([]byte, error) {
	if stored {
		return append(dst, block...), nil
	}
	room := min(f.blockSize, lz4MaxRatio*len(block)) // a block is 4 MiB at most: no overflow
	dst = slices.Grow(dst, room)
	n, err := lz4.UncompressBlock(block, dst[len(dst):len(dst)+room])
	if err != nil {
		return nil, err
	}
	return dst[:len(dst)+n], nil
}

// lz4Compressor is one of the library's two, made for reuse.
type lz4Compressor interface {
	CompressBlock(src, dst []byte) (int, error)
}

var (
	lz4Fast = sync.Pool{New: func() any { return new(lz4.Compressor) }}
	lz4High = sync.Pool{New: func() any { return new(lz4.CompressorHC) }}
)

// lz4Deflate takes Kafka's levels, 1 to 17, of which the default, 9, is the
// fast compressor and the others are depths of search (KIP-390).
func lz4Deflate(dst, src []byte, level int) []byte {
	const defaultLevel = 9
	if level <= 0 || level == defaultLevel {
		c := lz4Fast.Get().(*lz4.Compressor)
		defer lz4Fast.Put(c)
		return lz4AppendFrame(dst, src, c)
	}
	c := lz4High.Get().(*lz4.CompressorHC)
	defer lz4High.Put(c)
	const deepest = 9 // of the library
	c.Level = lz4.Level1 << (min(level, deepest) - 1)
	return lz4AppendFrame(dst, src, c)
}

// lz4AppendFrame appends src to dst as one frame.
func lz4AppendFrame(dst, src []byte, c lz4Compressor) []byte {
	dst = append(dst, lz4Head...)
	for len(src) > 0 {
		n := min(len(src), lz4BlockSize)
		dst = lz4AppendBlock(dst, src[:n], c)
		src = src[n:]
	}
	return append(dst, 0, 0, 0, 0)
}

func lz4AppendBlock(dst, block []byte, c lz4Compressor) []byte {
	bound := lz4.CompressBlockBound(len(block))
	dst = slices.Grow(dst, 4+bound)
	at := len(dst)
	room := dst[at+4 : at+4+bound]
	n, err := c.CompressBlock(block, room)
	must(err)
	word := uint32(n)
	if n == 0 || n >= len(block) {
		n = copy(room, block)
		word = uint32(n) | lz4Stored
	}
	dst = dst[:at+4+n]
	binary.LittleEndian.PutUint32(dst[at:], word)
	return dst
}
