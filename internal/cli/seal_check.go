package cli

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// sealCheck gathers from the batches of a segment what a seal says of it.
type sealCheck struct {
	headers uint32
	largest int64
}

func newSealCheck() *sealCheck { return &sealCheck{largest: segment.NoMaxTimestamp} }

func (c *sealCheck) batch(b *record.Batch) {
	c.headers = crc32.Update(c.headers, castagnoli, b.Bytes()[:crcAt])
	c.largest = max(c.largest, b.MaxTimestamp)
}

// against says what differs from the seal, or "".
func (c *sealCheck) against(s segment.Seal, size int64, next record.Offset) string {
	switch {
	case size != int64(s.Size):
		return fmt.Sprintf("file has %s, its seal says %d", count(size, "byte"), s.Size)
	case next != s.Next:
		return fmt.Sprintf("segment ends at offset %d, its seal says %d", next, s.Next)
	case c.headers != s.HeaderSum:
		return "a base offset or leader epoch is not what was written, says the seal"
	case c.largest != s.MaxTimestamp:
		return fmt.Sprintf("largest timestamp is %d, the seal says %d", c.largest, s.MaxTimestamp)
	}
	return ""
}

// indexAgainst says what differs between an index file and its seal, or "". It
// sees what a comparison with the log cannot: entries that were cut off at the end,
// or put in the place of others and true as well.
func indexAgainst(path string, size int64, sum uint32) string {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && size == 0 {
		return ""
	} else if errors.Is(err, fs.ErrNotExist) {
		return indexMissing
	}
	if err != nil {
		return "cannot be read: " + plainCause(err).Error()
	}
	defer f.Close()
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		return "cannot be read: " + plainCause(err).Error()
	case n != size:
		return fmt.Sprintf("index has %s, its seal says %d", count(n, "byte"), size)
	case h.Sum32() != sum:
		return "index is not what was written, says the seal"
	}
	return ""
}
