package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/varvelog/varve/record"
)

// page is the alignment of rounds.
const page = 4096

// The header of a file; integers are big-endian. It stands twice in the first
// page, at 0 and at headerCopy, because without its id nothing in the file checks.
//
//	 0  8  "varvewal"
//	 8  4  CRC-32C of bytes 12 to 47
//	12  4  version, 2
//	16  8  number of the file, rising by one
//	24  8  id, random: it seeds every checksum in the file
//	32  8  size of the file
//	40  8  rounds up to this one were not needed any more when this life began
const (
	fileMagic  = "varvewal"
	version    = 2 // 1 has no frames of kind Cut
	fileHeader = 48
	headerCopy = 2048
)

// A round, at a multiple of a page.
//
//	 0  4  CRC-32C of bytes 4 to 39, seeded
//	 4  4  "vrnd"
//	 8  8  number of the round, rising by one over all files
//	16  8  bytes, this header and the frames, without padding
//	24  4  number of frames
//	28  4  reserved, 0
//	32  8  rounds up to this one were not needed any more when it was written
const (
	roundMagic  = "vrnd"
	roundHeader = 40
)

// A frame, at a multiple of 8.
//
//	 0  4  CRC-32C of bytes 4 to 63, seeded
//	 4  1  kind
//	 5  3  reserved, 0
//	 8  4  bytes of payload
//	12  4  CRC-32C of the payload, seeded
//	16 16  topic
//	32  4  partition
//	36  4  reserved, 0
//	40  8  base offset of the segment
//	48  8  position in the segment
//	56  8  next offset: the one behind the last of the range
//	64     payload, padded to a multiple of 8
//
// The payload of a Direct frame is the length of the range (8). A Cut frame has none.
const frameHeader = 64

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind is what a frame says.
type Kind uint8

const (
	// Data: the payload stands at Pos of the segment.
	Data Kind = 1
	// Direct: Length bytes at Pos of the segment were synced there.
	Direct Kind = 2
	// Cut: the log ends at Pos of the segment, at the offset Next. What the round right in
	// front of this one has behind that was refused by the segment and is taken back.
	Cut Kind = 3
)

// Log names a partition.
type Log struct {
	Topic     [16]byte
	Partition int32
}

// Frame is one range of one segment that a round makes durable: whole batches.
type Frame struct {
	Kind    Kind
	Log     Log
	Base    record.Offset // of the segment
	Pos     record.Pos    // in its log file
	Next    record.Offset // behind the last one in the range
	Length  int64         // bytes of the range
	Payload []byte        // Data: the bytes; nil when read back and they do not check
	// TakenBack is how many bytes behind Length and Payload the next round took back,
	// see Cut: read back, a frame is what is left of it.
	TakenBack int64
}

// takenBack has the frames in front of a Cut be what it leaves of them.
func takenBack(frames []Frame, cut *Frame) {
	for i := range frames {
		f := &frames[i]
		more := int64(f.Pos) - int64(cut.Pos) + f.Length
		if f.Kind != Data || f.Log != cut.Log || f.Base != cut.Base || more <= 0 {
			continue
		}
		more = min(more, f.Length)
		f.Length, f.TakenBack, f.Next = f.Length-more, f.TakenBack+more, min(f.Next, cut.Next)
		if f.Payload = f.Payload[:min(f.Length, int64(len(f.Payload)))]; f.Length == 0 {
			f.Payload = nil
		}
	}
}

// DirectPayload is the length of the payload of a Direct frame.
const DirectPayload = 8

// Size is what the frame takes in a round.
func (f *Frame) Size() int64 {
	if f.Kind == Direct {
		return FrameBytes(DirectPayload)
	}
	return FrameBytes(f.Length)
}

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// seed starts a checksum of something that stands at a position of a file: it is the
// CRC-32C of both, big-endian. A slice for crc32 would be an allocation a frame.
func seed(id uint64, pos int64) uint32 {
	crc := ^uint32(0)
	for _, v := range [...]uint64{id, uint64(pos)} {
		for shift := 56; shift >= 0; shift -= 8 {
			crc = castagnoli[byte(crc)^byte(v>>shift)] ^ crc>>8
		}
	}
	return ^crc
}

func sum(id uint64, pos int64, data []byte) uint32 {
	return crc32.Update(seed(id, pos), castagnoli, data)
}

// fileHead is a decoded file header.
type fileHead struct {
	number   uint64
	id       uint64
	size     int64
	released uint64
}

func (h fileHead) encode() []byte {
	b := make([]byte, page)
	be := binary.BigEndian
	copy(b, fileMagic)
	be.PutUint32(b[12:], version)
	be.PutUint64(b[16:], h.number)
	be.PutUint64(b[24:], h.id)
	be.PutUint64(b[32:], uint64(h.size))
	be.PutUint64(b[40:], h.released)
	be.PutUint32(b[8:], crc32.Checksum(b[12:fileHeader], castagnoli))
	copy(b[headerCopy:], b[:fileHeader])
	return b
}

// formatError says why bytes are no header of a journal file.
type formatError struct{ reason string }

func (e *formatError) Error() string { return e.reason }

// decodeFileHead reads the first page of a file.
func decodeFileHead(b []byte) (fileHead, error) {
	h, err := decodeOneHead(b)
	if err != nil && len(b) > headerCopy {
		if copied, cerr := decodeOneHead(b[headerCopy:]); cerr == nil {
			return copied, nil
		}
	}
	return h, err
}

func decodeOneHead(b []byte) (fileHead, error) {
	be := binary.BigEndian
	switch {
	case len(b) < fileHeader || string(b[:8]) != fileMagic:
		return fileHead{}, &formatError{"is no journal file"}
	case crc32.Checksum(b[12:fileHeader], castagnoli) != be.Uint32(b[8:]):
		return fileHead{}, &formatError{"header does not check"}
	case be.Uint32(b[12:]) < 1 || be.Uint32(b[12:]) > version:
		return fileHead{}, &formatError{fmt.Sprintf("has version %d, this varve knows %d", be.Uint32(b[12:]), version)}
	}
	h := fileHead{number: be.Uint64(b[16:]), id: be.Uint64(b[24:]), size: int64(be.Uint64(b[32:])), released: be.Uint64(b[40:])}
	if h.size < page {
		return fileHead{}, &formatError{fmt.Sprintf("claims a size of %d", h.size)}
	}
	return h, nil
}

// roundHead is a decoded round header.
type roundHead struct {
	number   uint64
	bytes    int64
	frames   int
	released uint64
}

func (r roundHead) put(b []byte, id uint64, pos int64) {
	be := binary.BigEndian
	clear(b[:roundHeader])
	copy(b[4:], roundMagic)
	be.PutUint64(b[8:], r.number)
	be.PutUint64(b[16:], uint64(r.bytes))
	be.PutUint32(b[24:], uint32(r.frames))
	be.PutUint64(b[32:], r.released)
	be.PutUint32(b, sum(id, pos, b[4:roundHeader]))
}

func decodeRoundHead(b []byte, id uint64, pos int64) (roundHead, bool) {
	be := binary.BigEndian
	if len(b) < roundHeader || string(b[4:8]) != roundMagic || be.Uint32(b) != sum(id, pos, b[4:roundHeader]) {
		return roundHead{}, false
	}
	r := roundHead{number: be.Uint64(b[8:]), bytes: int64(be.Uint64(b[16:])), frames: int(int32(be.Uint32(b[24:]))), released: be.Uint64(b[32:])}
	return r, r.bytes >= roundHeader && r.frames >= 0
}

// appendFrame encodes f behind b, which starts at position start of the file.
func appendFrame(b []byte, f *Frame, id uint64, start int64) []byte {
	be := binary.BigEndian
	at := len(b)
	sum := seed(id, start+int64(at))
	b = append(b, make([]byte, frameHeader)...)
	if f.Kind == Direct {
		b = be.AppendUint64(b, uint64(f.Length))
	} else {
		b = append(b, f.Payload...)
	}
	payload := b[at+frameHeader:]
	h := b[at:]
	h[4] = byte(f.Kind)
	be.PutUint32(h[8:], uint32(len(payload)))
	be.PutUint32(h[12:], crc32.Update(sum, castagnoli, payload))
	copy(h[16:], f.Log.Topic[:])
	be.PutUint32(h[32:], uint32(f.Log.Partition))
	be.PutUint64(h[40:], uint64(f.Base))
	be.PutUint64(h[48:], uint64(f.Pos))
	be.PutUint64(h[56:], uint64(f.Next))
	be.PutUint32(h, crc32.Update(sum, castagnoli, h[4:frameHeader]))
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// decodeFrame decodes the frame at the start of b, which stands at pos of the file:
// size is that of the frame, 0 where none begins. Where only its header checks, the
// frame is there without what its payload says.
func decodeFrame(b []byte, id uint64, pos int64) (f Frame, size int64, whole bool) {
	be := binary.BigEndian
	if len(b) < frameHeader || be.Uint32(b) != sum(id, pos, b[4:frameHeader]) {
		return f, 0, false
	}
	n := int64(be.Uint32(b[8:]))
	f = Frame{
		Kind: Kind(b[4]),
		Log:  Log{Topic: [16]byte(b[16:32]), Partition: int32(be.Uint32(b[32:]))},
		Base: record.Offset(be.Uint64(b[40:])),
		Pos:  record.Pos(be.Uint64(b[48:])),
		Next: record.Offset(be.Uint64(b[56:])),
	}
	if f.Base < 0 || f.Pos < 0 || f.Next < f.Base || f.Log.Partition < 0 {
		return Frame{}, 0, false
	}
	size = FrameBytes(n)
	whole = n <= int64(len(b))-frameHeader && be.Uint32(b[12:]) == sum(id, pos, b[frameHeader:frameHeader+n])
	switch {
	case f.Kind == Data:
		if f.Length = n; whole {
			f.Payload = b[frameHeader : frameHeader+n]
		}
	case f.Kind == Direct && n == DirectPayload:
		if whole {
			f.Length = int64(be.Uint64(b[frameHeader:]))
			whole = f.Length >= 0
		}
	case f.Kind == Cut && n == 0:
	default:
		return Frame{}, 0, false
	}
	return f, size, whole
}
