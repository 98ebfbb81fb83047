package docs

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/group/kafkaoffsets"
	"github.com/varvelog/varve/record"
)

// The dump of the page is a key and a value, as package kafkaoffsets reads and writes them.
func TestOffsetsPageDecodes(t *testing.T) {
	e := exampleOf(t, "docs/format/offsets.md")
	at := 0
	for _, f := range e.fields {
		if f.name == "version of the value" {
			at = f.pos
		}
	}
	key, err := kafkaoffsets.DecodeKey(e.data[:at])
	if err != nil {
		t.Fatal(err)
	}
	id, commit, err := kafkaoffsets.DecodeCommitValue(e.data[at:])
	if err != nil {
		t.Fatal(err)
	}
	wantKey := kafkaoffsets.Key{Kind: kafkaoffsets.CommitKind, Group: "g1", Topic: "orders", Partition: int32(e.fieldNamed(t, "partition"))}
	want := group.Commit{
		Offset:      record.Offset(e.fieldNamed(t, "offset")),
		LeaderEpoch: record.Epoch(e.fieldNamed(t, "leader epoch")),
		Metadata:    "m",
		Time:        time.UnixMilli(e.fieldNamed(t, "commit time")),
	}
	if key != wantKey || commit != want || "0x"+hex.EncodeToString(id[:]) != e.fields[len(e.fields)-1].value {
		t.Errorf("the page has %+v, %x, %+v", key, id, commit)
	}
	written, err := kafkaoffsets.AppendCommitKey(nil, key.Group, key.Topic, key.Partition)
	if err == nil {
		written, err = kafkaoffsets.AppendCommitValue(written, id, commit)
	}
	if err != nil || !bytes.Equal(written, e.data) {
		t.Errorf("% x is written, and the page says\n% x (%v)", written, e.data, err)
	}
}
