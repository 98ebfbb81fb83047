package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// castagnoli is CRC-32C, the checksum of everything varve writes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal is what is kept outside a sealed segment, so that it can be found,
// judged by retention and searched by time without being opened, and so that
// damage which no batch checksum covers is noticed.
//
// The checksum of a batch leaves out its base offset, length, leader epoch and
// magic. HeaderSum covers exactly those bytes, of every batch in order.
type Seal struct {
	Base         record.Offset
	Next         record.Offset // one past the last offset
	Size         record.Pos    // length of the log file
	MaxTimestamp int64         // ms; NoTimestamp when no record has one
	LastAppend   int64         // ms of the wall clock, when the last batch was appended
	FirstEpoch   record.Epoch
	LastEpoch    record.Epoch
	HeaderSum    uint32
	Dense        bool // no offset between Base and Next is missing
	Index        index.Mark
}

// SealSize is the length of an encoded seal. All integers are big-endian.
//
//	 0  4  CRC-32C of bytes 4 to 79
//	 4  4  "vsl1"
//	 8  8  base offset
//	16  8  next offset
//	24  8  size of the log file
//	32  8  largest timestamp
//	40  8  time of the last append
//	48  4  leader epoch of the first batch
//	52  4  leader epoch of the last batch
//	56  4  checksum of the header bytes that no batch checksum covers
//	60  4  flags: 1 = dense
//	64  4  entries of the offset index
//	68  4  entries of the time index
//	72  4  CRC-32C of the offset index
//	76  4  CRC-32C of the time index
const SealSize = 80

var sealMagic = [4]byte{'v', 's', 'l', '1'}

// Append encodes s behind dst.
func (s *Seal) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(dst, sealMagic[:]...)
	be := binary.BigEndian
	for _, v := range [...]int64{int64(s.Base), int64(s.Next), int64(s.Size), s.MaxTimestamp, s.LastAppend} {
		dst = be.AppendUint64(dst, uint64(v))
	}
	var flags uint32
	if s.Dense {
		flags = 1
	}
	for _, v := range [...]uint32{
		uint32(s.FirstEpoch), uint32(s.LastEpoch), s.HeaderSum, flags,
		uint32(s.Index.Entries), uint32(s.Index.TimeEntries), s.Index.Sum, s.Index.TimeSum,
	} {
		dst = be.AppendUint32(dst, v)
	}
	be.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

// DecodeSeal decodes the seal at the start of b.
func DecodeSeal(b []byte) (Seal, error) {
	if len(b) < SealSize {
		return Seal{}, fmt.Errorf("seal is cut short: %d of %d bytes", len(b), SealSize)
	}
	b = b[:SealSize]
	be := binary.BigEndian
	if [4]byte(b[4:8]) != sealMagic {
		return Seal{}, fmt.Errorf("seal has no mark %q", sealMagic)
	}
	if crc32.Checksum(b[4:], castagnoli) != be.Uint32(b) {
		return Seal{}, fmt.Errorf("seal has a wrong checksum")
	}
	s := Seal{
		Base:         record.Offset(be.Uint64(b[8:])),
		Next:         record.Offset(be.Uint64(b[16:])),
		Size:         record.Pos(be.Uint64(b[24:])),
		MaxTimestamp: int64(be.Uint64(b[32:])),
		LastAppend:   int64(be.Uint64(b[40:])),
		FirstEpoch:   record.Epoch(be.Uint32(b[48:])),
		LastEpoch:    record.Epoch(be.Uint32(b[52:])),
		HeaderSum:    be.Uint32(b[56:]),
		Dense:        be.Uint32(b[60:])&1 != 0,
		Index: index.Mark{
			Entries:     int(int32(be.Uint32(b[64:]))),
			TimeEntries: int(int32(be.Uint32(b[68:]))),
			Sum:         be.Uint32(b[72:]),
			TimeSum:     be.Uint32(b[76:]),
		},
	}
	if s.Base < 0 || s.Next < s.Base || s.Size < 0 || s.Index.Entries < 0 || s.Index.TimeEntries < 0 {
		return Seal{}, fmt.Errorf("seal of base offset %d contradicts itself", s.Base)
	}
	return s, nil
}
