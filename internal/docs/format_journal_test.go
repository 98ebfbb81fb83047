package docs

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

const (
	journalPage = "docs/format/journal.md"
	journalFile = "wal/0000000001.wal"
)

// journalOf is a disk with the journal in data, and what package wal reads there.
func journalOf(t *testing.T, data []byte) []wal.Round {
	t.Helper()
	disk := vfs.NewMem()
	if err := disk.Mkdir("wal"); err != nil {
		t.Fatal(err)
	}
	put(t, disk, journalFile, data)
	var rounds []wal.Round
	old, err := wal.Read(disk, "wal", func(r wal.Round) error {
		rounds = append(rounds, r)
		return nil
	})
	if err != nil || len(old.Damaged) > 0 {
		t.Fatal(err, old.Damaged)
	}
	return rounds
}

// The journal of the page is what package wal reads in it: a round of two frames and
// a closing mark.
func TestJournalPageDecodes(t *testing.T) {
	e := exampleOf(t, journalPage)
	rounds := journalOf(t, e.data)
	if len(rounds) != 2 || len(rounds[0].Frames) != 2 || len(rounds[1].Frames) != 0 {
		t.Fatalf("package wal reads %+v", rounds)
	}
	round, mark := rounds[0], rounds[1]
	if round.Damaged != "" || round.Last || mark.Damaged != "" || !mark.Last {
		t.Errorf("the round is %+v, the mark %+v", round, mark)
	}
	data, direct := round.Frames[0], round.Frames[1]
	if data.Kind != wal.Data || direct.Kind != wal.Direct || data.Log.Topic != direct.Log.Topic {
		t.Errorf("the frames are %+v and %+v", data, direct)
	}
	if want := exampleOf(t, "docs/format/log.md").data; !bytes.Equal(data.Payload, want) {
		t.Errorf("the payload is % x, the batch of log.md % x", data.Payload, want)
	}
	if _, topic := find(t, e, "first frame: topic"); topic != "0x"+hex.EncodeToString(data.Log.Topic[:]) {
		t.Errorf("package wal reads topic %x, the page says %s", data.Log.Topic, topic)
	}
	for name, got := range map[string]int64{
		"size of the file":                         int64(len(e.data)),
		"number of the round":                      int64(round.Number),
		"frames of the round":                      int64(len(round.Frames)),
		"bytes of the round":                       40 + data.Size() + direct.Size(),
		"first frame: kind":                        int64(data.Kind),
		"first frame: partition":                   int64(data.Log.Partition),
		"first frame: base offset of the segment":  int64(data.Base),
		"first frame: position in its log file":    int64(data.Pos),
		"first frame: next offset":                 int64(data.Next),
		"first frame: bytes of payload":            data.Length,
		"second frame: kind":                       int64(direct.Kind),
		"second frame: bytes of payload":           wal.DirectPayload,
		"second frame: partition":                  int64(direct.Log.Partition),
		"second frame: base offset of the segment": int64(direct.Base),
		"second frame: position in its log file":   int64(direct.Pos),
		"second frame: next offset":                int64(direct.Next),
		"payload: length of the range":             direct.Length,
		"number of the mark":                       int64(mark.Number),
		"frames of the mark":                       int64(len(mark.Frames)),
	} {
		if want := e.fieldNamed(t, name); got != want {
			t.Errorf("%s: package wal reads %d, the page says %d", name, got, want)
		}
	}
	for name, got := range map[string]int64{
		"checksum of the header of the round": round.Pos, "checksum of the header of the mark": mark.Pos,
	} {
		if at, _ := find(t, e, name); int64(at) != got {
			t.Errorf("package wal reads the %s at %d, the page has it at %d", name, got, at)
		}
	}
}

// The frames of the page, written by package wal, are the file that the page shows,
// but for the id: that is random, and the checksums with it.
func TestJournalPageIsWhatTheWriterWrites(t *testing.T) {
	e := exampleOf(t, journalPage)
	disk := vfs.NewMem()
	if err := disk.Mkdir("wal"); err != nil {
		t.Fatal(err)
	}
	before := uint64(e.fieldNamed(t, "number of the round")) - 1
	j := wal.Open(disk, "wal", wal.Options{MaxBytes: wal.MinBytes}, &wal.Old{}, before)
	defer j.Close()
	for _, r := range journalOf(t, e.data) {
		if _, err := j.Write(r.Frames); err != nil {
			t.Fatal(err)
		}
	}
	got, err := disk.ReadFile(journalFile)
	if err != nil {
		t.Fatal(err)
	}
	written := bytes.Clone(got)
	if reseed(t, e, got, got[24:32]); !bytes.Equal(got, written) {
		t.Error("the checksums of package wal are not those that the page describes")
	}
	if reseed(t, e, got, e.data[24:32]); !bytes.Equal(got, e.data) {
		for i := range got {
			if i >= len(e.data) || got[i] != e.data[i] {
				t.Fatalf("%d bytes against %d; the first that differs is at %d", len(got), len(e.data), i)
			}
		}
	}
}

// reseed gives a journal file laid out as the example another id, and all its
// checksums anew, as the page describes them.
func reseed(t *testing.T, e *example, data, id []byte) {
	t.Helper()
	table := crc32.MakeTable(crc32.Castagnoli)
	id = bytes.Clone(id)
	seal := func(at, pos int, covered []byte) {
		seed := binary.BigEndian.AppendUint64(bytes.Clone(id), uint64(pos))
		binary.BigEndian.PutUint32(data[at:], crc32.Checksum(append(seed, covered...), table))
	}
	for _, suffix := range []string{"", ", copy"} {
		at, _ := find(t, e, "mark"+suffix)
		copy(data[at+24:], id)
		binary.BigEndian.PutUint32(data[at+8:], crc32.Checksum(data[at+12:at+48], table))
	}
	for _, frame := range []string{"first", "second"} {
		at, _ := find(t, e, frame+" frame: checksum of its header")
		payload := data[at+64:][:binary.BigEndian.Uint32(data[at+8:])]
		seal(at+12, at, payload)
		seal(at, at, data[at+4:at+64])
	}
	for _, round := range []string{"the round", "the mark"} {
		at, _ := find(t, e, "checksum of the header of "+round)
		seal(at, at, data[at+4:at+40])
	}
}

// find is the position of a field and its value as written.
func find(t *testing.T, e *example, name string) (pos int, value string) {
	t.Helper()
	for _, f := range e.fields {
		if f.name == name {
			return f.pos, f.value
		}
	}
	t.Fatalf("%s:%d: no field %q", e.page.name, e.line, name)
	return 0, ""
}
