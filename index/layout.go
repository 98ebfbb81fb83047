package index

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"sort"
)

// castagnoli is CRC-32C, the checksum of everything varve writes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pageSize bounds what an active index keeps in memory of each of its files.
const pageSize = 4096

// slot is one entry as a file stores it, still relative to the base offset.
//
//	file         key               value
//	.index       relative offset   position
//	.timeindex   timestamp         relative offset
//
// Within a file keys rise and values rise, and neither is ever negative.
type slot struct{ key, value int64 }

var (
	noSlot  = slot{-1, -1}                       // what the first entry must rise above
	endSlot = slot{math.MaxInt64, math.MaxInt64} // what stands above the last entry
)

// layout is the shape of one kind of index file: entries of width bytes, the
// last four of which are the value and those before it the key, big-endian.
type layout struct {
	suffix string
	width  int
}

var (
	offsetLayout = layout{".index", 8}
	timeLayout   = layout{".timeindex", 12}
)

// perPage is how many entries fill a page: 512 or 341.
func (l layout) perPage() int { return pageSize / l.width }

// pageBytes is the length of a full page: 4096 or 4092.
func (l layout) pageBytes() int { return l.perPage() * l.width }

// at decodes entry i of b.
func (l layout) at(b []byte, i int) slot {
	return slot{l.key(b, i), int64(int32(binary.BigEndian.Uint32(b[(i+1)*l.width-4:])))}
}

func (l layout) key(b []byte, i int) int64 {
	b = b[i*l.width : (i+1)*l.width]
	if l.width == 8 {
		return int64(int32(binary.BigEndian.Uint32(b)))
	}
	return int64(binary.BigEndian.Uint64(b))
}

// put encodes s as entry i of b.
func (l layout) put(b []byte, i int, s slot) {
	b = b[i*l.width : (i+1)*l.width]
	if l.width == 8 {
		binary.BigEndian.PutUint32(b, uint32(s.key))
	} else {
		binary.BigEndian.PutUint64(b, uint64(s.key))
	}
	binary.BigEndian.PutUint32(b[l.width-4:], uint32(s.value))
}

// floor is the last entry of b whose key is not above key, -1 when all are.
func (l layout) floor(b []byte, key int64) int {
	return sort.Search(len(b)/l.width, func(i int) bool { return l.key(b, i) > key }) - 1
}

// disorder is the first entry of b that does not rise above the one before it,
// the first of them being compared with prev; -1 when all do.
func (l layout) disorder(b []byte, prev slot) int {
	for i := range len(b) / l.width {
		s := l.at(b, i)
		if !s.above(prev) {
			return i
		}
		prev = s
	}
	return -1
}

// above says whether s may follow prev.
func (s slot) above(prev slot) bool { return s.key > prev.key && s.value > prev.value }
