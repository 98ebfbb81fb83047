package docs

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/varvelog/varve/segment"
)

func TestSealsPageDecodes(t *testing.T) {
	e := exampleOf(t, "docs/format/seals.md")
	seal := e.data[segment.SealSize:] // behind the head
	s, err := segment.DecodeSeal(seal)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Append(nil); !bytes.Equal(got, seal) || len(got) != segment.SealSize {
		t.Errorf("the seal is encoded as\n% x\nand the page says\n% x", got, seal)
	}
	for name, got := range map[string]int64{
		"base offset":                     int64(s.Base),
		"next offset":                     int64(s.Next),
		"length of the log file":          int64(s.Size),
		"largest timestamp":               s.MaxTimestamp,
		"time of the last append":         s.LastAppend,
		"leader epoch of the first batch": int64(s.FirstEpoch),
		"leader epoch of the last batch":  int64(s.LastEpoch),
		"entries of the offset index":     int64(s.Index.Entries),
		"entries of the time index":       int64(s.Index.TimeEntries),
	} {
		if want := e.fieldNamed(t, name); got != want {
			t.Errorf("%s: package segment reads %d, the page says %d", name, got, want)
		}
	}
	if !s.Dense {
		t.Error("the seal is not of a dense segment")
	}
}

// The seal's checksums are those of the segment that the index pages tell of.
func TestSealsPageFitsTheIndexPages(t *testing.T) {
	s, err := segment.DecodeSeal(exampleOf(t, "docs/format/seals.md").data[segment.SealSize:])
	if err != nil {
		t.Fatal(err)
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	if got := crc32.Checksum(exampleOf(t, "docs/format/index.md").data, table); got != s.Index.Sum {
		t.Errorf("the offset index has checksum %#x, the seal says %#x", got, s.Index.Sum)
	}
	if got := crc32.Checksum(exampleOf(t, "docs/format/timeindex.md").data, table); got != s.Index.TimeSum {
		t.Errorf("the time index has checksum %#x, the seal says %#x", got, s.Index.TimeSum)
	}
	var headers []byte
	for i := range uint64(15) {
		headers = binary.BigEndian.AppendUint64(headers, 4096+10*i)
		headers = binary.BigEndian.AppendUint32(headers, 1080-12)
		headers = binary.BigEndian.AppendUint32(headers, 3)
		headers = append(headers, 2)
	}
	if got := crc32.Checksum(headers, table); got != s.HeaderSum {
		t.Errorf("the headers have checksum %#x, the seal says %#x", got, s.HeaderSum)
	}
}
