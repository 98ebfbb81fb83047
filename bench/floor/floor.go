// Package floor is the least a log can do: length, CRC-32C, batch; one buffer, one write.
package floor

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
)

// Log is one file. With Sync, which is fdatasync, it was written in full length before.
type Log struct {
	File *os.File
	Sync func(*os.File) error
	buf  []byte
}

var be, castagnoli = binary.BigEndian, crc32.MakeTable(crc32.Castagnoli)

func (l *Log) Append(batches ...[]byte) error {
	l.buf = l.buf[:0]
	for _, b := range batches {
		l.buf = be.AppendUint32(be.AppendUint32(l.buf, uint32(len(b))), crc32.Checksum(b, castagnoli))
		l.buf = append(l.buf, b...)
	}
	if _, err := l.File.Write(l.buf); err != nil || l.Sync == nil {
		return err
	}
	return l.Sync(l.File)
}

// Serve appends what callers send and wait for: those who wait together share a sync.
func (l *Log) Serve(batch <-chan []byte, done chan<- error) {
	for b := range batch {
		round := [][]byte{b}
		for len(batch) > 0 {
			round = append(round, <-batch)
		}
		err := l.Append(round...)
		for range round {
			done <- err // callers are alike: any of the round may take it
		}
	}
}

// Read checks all batches, through buf, which holds the largest, and ends in io.EOF.
func (l *Log) Read(buf []byte) (at int64, err error) {
	for n := 0; err == nil; {
		n, err = l.File.ReadAt(buf, at)
		for b := buf[:n]; len(b) >= 8 && len(b)-8 >= int(be.Uint32(b)); {
			size := 8 + int(be.Uint32(b))
			if crc32.Checksum(b[8:size], castagnoli) != be.Uint32(b[4:]) {
				return at, errors.New("a batch does not have its checksum")
			}
			b, at = b[size:], at+int64(size)
		}
	}
	return at, err
}
