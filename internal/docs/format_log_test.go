package docs

import (
	"bytes"
	"testing"

	"github.com/varvelog/varve/record"
)

// exampleOf is the only worked example of a page.
func exampleOf(t *testing.T, name string) *example {
	t.Helper()
	all := examples(t, pageNamed(t, name))
	if len(all) != 1 {
		t.Fatalf("%s has %d worked examples, want 1", name, len(all))
	}
	return &all[0]
}

func TestBatchPageDecodes(t *testing.T) {
	e := exampleOf(t, "docs/format/log.md")
	b, err := record.Parse(e.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]int64{
		"base offset":              int64(b.BaseOffset),
		"length of what follows":   int64(b.Length),
		"leader epoch":             int64(b.LeaderEpoch),
		"magic":                    int64(b.Magic),
		"checksum of what follows": int64(b.CRC),
		"attributes":               int64(b.Attributes),
		"last offset delta":        int64(b.LastOffsetDelta),
		"base timestamp":           b.BaseTimestamp,
		"largest timestamp":        b.MaxTimestamp,
		"producer id: none":        b.ProducerID,
		"producer epoch: none":     int64(b.ProducerEpoch),
		"base sequence: none":      int64(b.BaseSequence),
		"record count":             int64(b.Count),
	} {
		if want := e.fieldNamed(t, name); got != want {
			t.Errorf("%s: package record reads %d, the page says %d", name, got, want)
		}
	}
	if b.Size() != len(e.data) {
		t.Errorf("the batch has %d bytes, the dump %d", b.Size(), len(e.data))
	}
}

// The dump is what this code writes, and its records are those the page tells of.
func TestBatchPageIsWhatTheBuilderWrites(t *testing.T) {
	e := exampleOf(t, "docs/format/log.md")
	var b record.Builder
	b.Reset(nil, 4096, record.BatchOptions{Epoch: 3})
	b.Add(1700000000000, []byte("user-7"), []byte("login"), []record.Header{{Key: "source", Value: []byte("web")}})
	b.Add(1700000000250, nil, []byte{}, nil)
	if got := b.Finish(); !bytes.Equal(got, e.data) {
		t.Errorf("the builder writes\n% x\nand the page says\n% x", got, e.data)
	}
}
