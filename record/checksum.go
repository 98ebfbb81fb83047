package record

import (
	"encoding/binary"
	"hash/crc32"
)

// What follows is for whoever has to judge a batch before all of it is in memory.

const (
	// HeadSize is the part of the header in front of the checksum, in bytes: base
	// offset, length, leader epoch and magic. The checksum leaves it out.
	HeadSize = posCRC
	// CoveredFrom is the byte of a batch from which on the checksum covers it, to
	// the end.
	CoveredFrom = posAttributes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MayBegin reports whether the first HeadSize bytes of prefix have the magic and
// a length that a batch may have. It is false where PeekSize fails and, unlike
// that, costs nothing then: a filter for who looks for a batch at each position.
func MayBegin(prefix []byte) bool {
	return len(prefix) >= HeadSize && prefix[posMagic] == magicV2 &&
		int32(binary.BigEndian.Uint32(prefix[posLength:])) >= BatchOverhead-LogOverhead
}

// CRC returns the checksum that a batch carries, from its first CoveredFrom bytes.
func CRC(head []byte) uint32 { return binary.BigEndian.Uint32(head[posCRC:]) }

// Checksum continues sum, that of the bytes before p or 0, with p: CRC-32C, which
// is the checksum of a batch when it has gone over all bytes from CoveredFrom on.
func Checksum(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }
