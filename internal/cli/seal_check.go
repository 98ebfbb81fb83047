package cli

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// seals are what varve keeps of the sealed segments of a partition, outside
// them. Kafka has no such file.
type seals map[record.Offset]segment.Seal

// readSeals reads the seals of a partition directory. A seal that does not check
// is passed over: it was cut short by a crash, and costs no data.
func readSeals(dir string) (seals, error) {
	f, err := os.Open(filepath.Join(dir, "seals"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := seals{}
	var buf [segment.SealSize]byte
	for r := bufio.NewReader(f); ; {
		if _, err := io.ReadFull(r, buf[:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return found, nil
		} else if err != nil {
			return nil, err
		}
		if s, err := segment.DecodeSeal(buf[:]); err == nil {
			found[s.Base] = s // of several the last one counts
		}
	}
}

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
// sees what a comparison with the log cannot: entries cut off at the end.
func indexAgainst(path string, size int64, sum uint32) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := crc32.New(castagnoli)
	n, err := io.Copy(h, f)
	switch {
	case err != nil:
		return "", err
	case n != size:
		return fmt.Sprintf("index has %s, its seal says %d", count(n, "byte"), size), nil
	case h.Sum32() != sum:
		return "index is not what was written, says the seal", nil
	}
	return "", nil
}
