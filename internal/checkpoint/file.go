package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// Name is the file of a checkpoint in a data directory.
const Name = "checkpoint"

const (
	magic    = "varvecp2"
	oldMagic = "varvecp1"
	headSize = 24
	keySize  = 28
	sumSize  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// File is a checkpoint of all logs. The zero File is that of a directory which never
// had one.
type File struct {
	Generation uint64            // rising by one with every save
	Logs       map[wal.Log]Entry // nil: there is no checkpoint
}

// Entry is what a checkpoint has of a log: how it stood, and up to which round of
// the journal its files have everything.
type Entry struct {
	partition.Checkpoint
	Round uint64
}

// Round is the highest round of the journal that it speaks of.
func (f *File) Round() (round uint64) {
	for _, e := range f.Logs {
		round = max(round, e.Round)
	}
	return round
}

// Covered is the round of the journal up to which the files of each log in it have
// everything: of none, where all topics were deleted, that is any.
func (f *File) Covered() (round uint64) {
	if f.Logs != nil && len(f.Logs) == 0 {
		return math.MaxUint64
	}
	first := true
	for _, e := range f.Logs {
		if first || e.Round < round {
			round, first = e.Round, false
		}
	}
	return round
}

// Encode returns the bytes of the file.
func (f *File) Encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 0, headSize+len(f.Logs)*(keySize+partition.CheckpointSize)+sumSize)
	b = append(b, magic...)
	b = be.AppendUint64(b, f.Generation)
	b = be.AppendUint32(b, uint32(len(f.Logs)))
	b = be.AppendUint32(b, 0)
	for k, e := range f.Logs {
		b = append(b, k.Topic[:]...)
		b = be.AppendUint32(b, uint32(k.Partition))
		b = be.AppendUint64(b, e.Round)
		b = e.Append(b)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Decode reads the bytes of a file. An error says what is wrong with it as the end
// of a sentence that begins with its name.
func Decode(data []byte) (File, error) {
	be := binary.BigEndian
	if len(data) < headSize+sumSize || string(data[:8]) != magic && string(data[:8]) != oldMagic {
		return File{}, errors.New("is not a checkpoint")
	}
	body, sum := data[:len(data)-sumSize], be.Uint32(data[len(data)-sumSize:])
	if crc32.Checksum(body, castagnoli) != sum {
		return File{}, errors.New("has a wrong checksum")
	}
	key := keySize
	if string(data[:8]) == oldMagic {
		key -= 8
	}
	entry := key + partition.CheckpointSize
	n, entries := int(be.Uint32(body[16:])), body[headSize:]
	if n != len(entries)/entry || len(entries)%entry != 0 {
		return File{}, fmt.Errorf("has %d bytes for %d logs", len(entries), n)
	}
	f := File{Generation: be.Uint64(body[8:]), Logs: make(map[wal.Log]Entry, n)}
	for b := entries; len(b) > 0; b = b[entry:] {
		cp, err := partition.DecodeCheckpoint(b[key:])
		if err != nil {
			return File{}, err
		}
		e := Entry{Checkpoint: cp}
		if key == keySize {
			e.Round = be.Uint64(b[20:])
		}
		f.Logs[wal.Log{Topic: [16]byte(b[:16]), Partition: int32(be.Uint32(b[16:]))}] = e
	}
	return f, nil
}
