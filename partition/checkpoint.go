package partition

import (
	"encoding/binary"
	"errors"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Checkpoint is what is kept of a log so that opening it needs no look at its
// records. What it says is on stable storage.
type Checkpoint struct {
	Start    record.Offset
	Sparse   bool
	Taken    uint8 // how often the log was taken over, see Claim
	Epoch    record.Epoch
	LastTime int64 // milliseconds, of the last append
	Active   segment.State
}

// CheckpointSize is the length of an encoded checkpoint of one log. All integers
// are big-endian; the checksum is that of the file it stands in.
//
//	  0  8  log start offset
//	  8  8  time of the last append
//	 16  4  leader epoch
//	 20  4  flags: 1 = the log is sparse, 2 = the active segment is dense; the third
//	        byte is how often the log was taken over
//	 24  8  active segment: base offset
//	 32  8    next offset
//	 40  8    bytes
//	 48  8    largest timestamp
//	 56  8    largest timestamp of the first batch
//	 64  8    time of the first append
//	 72  8    time of the last append
//	 80  4    leader epoch of the first batch
//	 84  4    leader epoch of the last batch
//	 88  4    checksum of the header bytes that no batch checksum covers
//	 92  4  its indexes: entries of the offset index
//	 96  4    entries of the time index
//	100  4    CRC-32C of the offset index
//	104  4    CRC-32C of the time index
//	108  4    entries that were due and could not be made
//	112  8    bytes since the last entry
//	120  8    largest timestamp so far
//	128  8    last offset of the batch that carries it
const CheckpointSize = 136

// Append encodes c behind dst.
func (c *Checkpoint) Append(dst []byte) []byte {
	be := binary.BigEndian
	a, x := &c.Active, &c.Active.Index
	flags := uint32(c.Taken) << 8
	if c.Sparse {
		flags |= 1
	}
	if a.Dense {
		flags |= 2
	}
	dst = be.AppendUint64(dst, uint64(c.Start))
	dst = be.AppendUint64(dst, uint64(c.LastTime))
	dst = be.AppendUint32(dst, uint32(c.Epoch))
	dst = be.AppendUint32(dst, flags)
	for _, v := range [...]int64{
		int64(a.Base), int64(a.Next), int64(a.Size), a.MaxTimestamp, a.FirstTimestamp, a.FirstAppend, a.LastAppend,
	} {
		dst = be.AppendUint64(dst, uint64(v))
	}
	for _, v := range [...]uint32{
		uint32(a.FirstEpoch), uint32(a.LastEpoch), a.HeaderSum,
		uint32(x.Entries), uint32(x.TimeEntries), x.Sum, x.TimeSum, uint32(x.Tail.Missing),
	} {
		dst = be.AppendUint32(dst, v)
	}
	for _, v := range [...]int64{x.Tail.Since, x.Tail.MaxTimestamp, int64(x.Tail.MaxOffset)} {
		dst = be.AppendUint64(dst, uint64(v))
	}
	return dst
}

var errCheckpoint = errors.New("checkpoint contradicts itself")

// DecodeCheckpoint decodes the checkpoint at the start of b, which holds at
// least CheckpointSize bytes.
func DecodeCheckpoint(b []byte) (Checkpoint, error) {
	b = b[:CheckpointSize]
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	i64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	flags := u32(20)
	c := Checkpoint{
		Start:    record.Offset(i64(0)),
		LastTime: i64(8),
		Epoch:    record.Epoch(u32(16)),
		Sparse:   flags&1 != 0,
		Taken:    uint8(flags >> 8),
		Active: segment.State{
			Base: record.Offset(i64(24)), Next: record.Offset(i64(32)), Size: record.Pos(i64(40)),
			MaxTimestamp: i64(48), FirstTimestamp: i64(56), FirstAppend: i64(64), LastAppend: i64(72),
			FirstEpoch: record.Epoch(u32(80)), LastEpoch: record.Epoch(u32(84)), HeaderSum: u32(88),
			Dense: flags&2 != 0,
			Index: index.Mark{
				Entries: int(int32(u32(92))), TimeEntries: int(int32(u32(96))), Sum: u32(100), TimeSum: u32(104),
				Tail: index.Tail{Since: i64(112), MaxTimestamp: i64(120), MaxOffset: record.Offset(i64(128)), Missing: int(int32(u32(108)))},
			},
		},
	}
	a := &c.Active
	if c.Start < 0 || a.Base < 0 || a.Next < a.Base || a.Size < 0 || a.Index.Entries < 0 || a.Index.TimeEntries < 0 {
		return c, errCheckpoint
	}
	return c, nil
}
