package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
)

// MarkName is the file of the mark of a clean stop in a data directory.
const MarkName = "clean"

const (
	markMagic = "varvecl1"
	markSize  = 28
)

// Mark says that nothing was written after a checkpoint.
type Mark struct {
	Generation uint64 // of the checkpoint
	// Starts are those of engines on the directory, up to the one that stopped. It
	// tells a mark that was put back from an old copy.
	Starts uint64
}

// Encode returns the bytes of the file.
func (m Mark) Encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte(markMagic), m.Generation)
	b = binary.BigEndian.AppendUint64(b, m.Starts)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// DecodeMark reads the bytes of a file, if they are a mark.
func DecodeMark(b []byte) (m Mark, ok bool) {
	be := binary.BigEndian
	if len(b) != markSize || string(b[:8]) != markMagic || crc32.Checksum(b[:markSize-4], castagnoli) != be.Uint32(b[markSize-4:]) {
		return Mark{}, false
	}
	return Mark{Generation: be.Uint64(b[8:]), Starts: be.Uint64(b[16:])}, true
}
