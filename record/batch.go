package record

import (
	"encoding/binary"
	"math"
)

const (
	// BatchOverhead is the size of a batch's header, in bytes.
	BatchOverhead = 61
	// LogOverhead is the part of the header that Length does not count:
	// base offset and length.
	LogOverhead = 12

	magicV2 = 2
)

// Positions of the header fields.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57
)

// Batch is the header of a record batch together with its bytes, which it
// shares with the slice it was parsed from. It is a value: copy it freely.
type Batch struct {
	BaseOffset      Offset
	Length          int32 // bytes after the length field
	LeaderEpoch     Epoch
	Magic           int8
	CRC             uint32 // CRC-32C of all bytes from the attributes on
	Attributes      Attributes
	LastOffsetDelta int32 // stays what it was when compaction takes the last record
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64 // -1: none
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32 // records in the batch; compaction may leave none

	raw []byte
}

// Bytes returns the whole batch as stored. The slice is shared: do not change it.
func (b *Batch) Bytes() []byte { return b.raw }

// Size returns the bytes the whole batch takes.
func (b *Batch) Size() int { return LogOverhead + int(b.Length) }

// LastOffset returns the last offset the batch accounts for, inclusive.
func (b *Batch) LastOffset() Offset { return b.BaseOffset + Offset(b.LastOffsetDelta) }

// NextOffset returns the offset that follows the batch.
func (b *Batch) NextOffset() Offset { return b.LastOffset() + 1 }

// PeekSize returns how many bytes the batch that prefix starts claims to take
// in all, so that a reader can fetch the rest. It needs the first HeadSize bytes
// and returns ErrShort with fewer; a claim that no batch can make is a
// *FormatError. The claim is unchecked otherwise: bound it before allocating.
func PeekSize(prefix []byte) (size int64, err error) {
	if len(prefix) < HeadSize {
		return 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(prefix[posLength:]))
	if !MayBegin(prefix) {
		return 0, headError(int8(prefix[posMagic]), length)
	}
	return LogOverhead + int64(length), nil
}

// headError tells an old message set from bytes that are nothing at all: zeros,
// for instance, would pass for magic 0.
func headError(magic int8, length int32) error {
	const smallestMessage = 14 // crc, magic, attributes, two null lengths
	if (magic == 0 || magic == 1) && length >= smallestMessage {
		e := formatErrorf(posMagic, "magic %d is a message set of Kafka before 0.11", magic)
		e.kind = ErrMagic
		return e
	}
	if length < BatchOverhead-LogOverhead {
		return formatErrorf(posLength, "length %d is below that of an empty batch", length)
	}
	return formatErrorf(posMagic, "unknown magic %d", magic)
}

// Parse reads the header of the batch that data starts with. It checks bounds
// and the header's own sense, not the checksum and not the records, and
// allocates nothing. The batch shares data.
//
// It returns ErrShort when data ends inside the batch, and a *FormatError for
// what more bytes cannot make a batch.
func Parse(data []byte) (Batch, error) {
	size, err := PeekSize(data)
	if err != nil {
		return Batch{}, err
	}
	if len(data) < BatchOverhead {
		return Batch{}, ErrShort
	}
	h := data[:BatchOverhead]
	b := Batch{
		BaseOffset:      Offset(binary.BigEndian.Uint64(h[posBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(h[posLength:])),
		LeaderEpoch:     Epoch(binary.BigEndian.Uint32(h[posLeaderEpoch:])),
		Magic:           int8(h[posMagic]),
		CRC:             CRC(h),
		Attributes:      Attributes(binary.BigEndian.Uint16(h[posAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(h[posLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(h[posBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(h[posMaxTimestamp:])),
		ProducerID:      int64(binary.BigEndian.Uint64(h[posProducerID:])),
		ProducerEpoch:   int16(binary.BigEndian.Uint16(h[posProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(h[posBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(h[posCount:])),
	}
	if err := b.checkHeader(); err != nil {
		return Batch{}, err
	}
	if int64(len(data)) < size {
		return Batch{}, ErrShort
	}
	b.raw = data[:size:size]
	return b, nil
}

func (b *Batch) checkHeader() error {
	switch {
	case b.BaseOffset < 0:
		return formatErrorf(posBaseOffset, "negative base offset %d", b.BaseOffset)
	case b.LastOffsetDelta < 0:
		return formatErrorf(posLastOffsetDelta, "negative last offset delta %d", b.LastOffsetDelta)
	case b.BaseOffset > math.MaxInt64-1-Offset(b.LastOffsetDelta):
		return formatErrorf(posBaseOffset, "base offset %d leaves no room for %d more", b.BaseOffset, b.LastOffsetDelta)
	case b.Count < 0:
		return formatErrorf(posCount, "negative record count %d", b.Count)
	}
	return nil
}

// Verify checks the checksum, which covers everything but base offset,
// length, leader epoch and magic. A batch that does not match is a *FormatError.
func (b *Batch) Verify() error {
	if sum := Checksum(0, b.raw[CoveredFrom:]); sum != b.CRC {
		return formatErrorf(posCRC, "crc mismatch: stored %08x, computed %08x", b.CRC, sum)
	}
	return nil
}
