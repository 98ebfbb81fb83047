package varve

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/uuid"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/segment"
)

// aCheckpoint is one with every field set to something of its own.
func aCheckpoint() *checkpointFile {
	return &checkpointFile{generation: 7, logs: map[logKey]keptLog{
		{Topic: uuid.UUID{1, 2, 3}, Partition: 4}: {round: 20, Checkpoint: partition.Checkpoint{
			Start: 5, Sparse: true, Epoch: 6, LastTime: 1_700_000_000_000,
			Active: segment.State{
				Base: 8, Next: 900, Size: 10_000, MaxTimestamp: 11, FirstTimestamp: math.MinInt64, FirstAppend: 13,
				LastAppend: 14, FirstEpoch: 1, LastEpoch: 6, HeaderSum: 0xdeadbeef, Dense: true,
				Index: index.Mark{
					Entries: 2, TimeEntries: 1, Sum: 15, TimeSum: 16,
					Tail: index.Tail{Since: 17, MaxTimestamp: 18, MaxOffset: 899, Missing: 19},
				},
			},
		}},
	}}
}

func TestCheckpointRoundTrip(t *testing.T) {
	want := aCheckpoint()
	data := want.encode()
	var got checkpointFile
	if err := got.decode(data); err != nil {
		t.Fatal(err)
	}
	if got.generation != want.generation || len(got.logs) != 1 {
		t.Fatalf("decoded generation %d, %d logs", got.generation, len(got.logs))
	}
	for key, cp := range want.logs {
		if got.logs[key] != cp {
			t.Errorf("decoded %+v\nencoded %+v", got.logs[key], cp)
		}
	}
	for bit := range len(data) * 8 {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := new(checkpointFile).decode(bad); err == nil {
			t.Fatalf("flip of bit %d is not noticed", bit)
		}
	}
	for n := range len(data) {
		if err := new(checkpointFile).decode(data[:n]); err == nil {
			t.Fatalf("a checkpoint cut to %d bytes is not noticed", n)
		}
	}
}

// Any bytes as a checkpoint: an error, or one that encodes to the same bytes.
func FuzzCheckpoint(f *testing.F) {
	f.Add(aCheckpoint().encode())
	f.Add((&checkpointFile{}).encode())
	f.Add([]byte(checkpointMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c checkpointFile
		if err := c.decode(data); err != nil {
			return
		}
		var again checkpointFile
		if err := again.decode(c.encode()); err != nil || len(again.logs) != len(c.logs) || again.generation != c.generation {
			t.Fatalf("what decoded does not encode: %v", err)
		}
	})
}

// Any key and value as a config: refused, or in force with sane figures.
func FuzzConfig(f *testing.F) {
	for _, k := range configKeys {
		f.Add(k.name, k.def)
	}
	f.Add("retention.ms", "9223372036854775807")
	f.Add("segment.bytes", "-1")
	f.Fuzz(func(t *testing.T, key, value string) {
		c, err := parseConfig(map[string]string{key: value})
		if err != nil {
			return
		}
		switch l := &c.log; {
		case l.SegmentBytes < 1, l.MaxBatchBytes < 1, l.MaxBatchBytes > maxBatchLimit, l.SegmentAge <= 0,
			l.RetentionAge < -1, l.RetentionBytes < -1, l.Index.Interval < 1, l.Index.MaxBytes < 1,
			l.Level < OS, l.Level > Fsync, l.FlushInterval <= 0:
			t.Fatalf("%s=%s gives %+v", key, value, *l)
		}
	})
}

// Any name: refused, or one path element that no file system takes for another.
func FuzzTopicName(f *testing.F) {
	for _, name := range []string{"orders", "a.b", "..", "a/b", "", "a\x00b", "Ⅷ", newPrefix, ".hidden", "con"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil {
			return
		}
		if name == "." || name == ".." || len(name) == 0 || len(name) > maxNameLen || bytes.ContainsAny([]byte(name), "/\\\x00~: ") {
			t.Fatalf("%q is taken for a topic name", name)
		}
	})
}
