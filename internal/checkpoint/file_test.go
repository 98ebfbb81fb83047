package checkpoint

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"math"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// aCheckpoint is one with every field set to something of its own.
func aCheckpoint() *File {
	return &File{Generation: 7, Logs: map[wal.Log]Entry{
		{Topic: [16]byte{1, 2, 3}, Partition: 4}: {Round: 20, Checkpoint: partition.Checkpoint{
			Start: 5, Sparse: true, Taken: 0xa7, Epoch: 6, LastTime: 1_700_000_000_000,
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
	data := want.Encode()
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Generation != want.Generation || !maps.Equal(got.Logs, want.Logs) {
		t.Errorf("decoded %+v\nencoded %+v", got, *want)
	}
	if got.Round() != 20 {
		t.Errorf("it speaks of round %d", got.Round())
	}
	for bit := range len(data) * 8 {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, err := Decode(bad); err == nil {
			t.Fatalf("flip of bit %d is not noticed", bit)
		}
	}
	for n := range len(data) {
		if _, err := Decode(data[:n]); err == nil {
			t.Fatalf("a checkpoint cut to %d bytes is not noticed", n)
		}
	}
}

// One of a directory of version 1 says the same, and knows no rounds.
func TestCheckpointOfVersion1(t *testing.T) {
	want := aCheckpoint()
	data := want.Encode()
	old := append([]byte(oldMagic), data[8:headSize+20]...)
	old = append(old, data[headSize+keySize:len(data)-sumSize]...)
	old = binary.BigEndian.AppendUint32(old, crc32.Checksum(old, castagnoli))
	got, err := Decode(old)
	if err != nil {
		t.Fatal(err)
	}
	for key, e := range want.Logs {
		e.Round = 0
		want.Logs[key] = e
	}
	if got.Generation != want.Generation || !maps.Equal(got.Logs, want.Logs) {
		t.Errorf("decoded %+v\nencoded %+v", got, *want)
	}
}

// Any bytes as a checkpoint: an error, or one that encodes to the same bytes.
func FuzzCheckpoint(f *testing.F) {
	f.Add(aCheckpoint().Encode())
	f.Add(new(File).Encode())
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(c.Encode())
		if err != nil || again.Generation != c.Generation || len(again.Logs) != len(c.Logs) {
			t.Fatalf("what decoded does not encode: %v", err)
		}
	})
}

func TestMarkRoundTrip(t *testing.T) {
	want := Mark{Generation: 7, Starts: 9}
	data := want.Encode()
	if got, ok := DecodeMark(data); !ok || got != want {
		t.Fatalf("decoded %+v, %v", got, ok)
	}
	for bit := range len(data) * 8 {
		bad := bytes.Clone(data)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, ok := DecodeMark(bad); ok {
			t.Fatalf("flip of bit %d is not noticed", bit)
		}
	}
	for n := range len(data) {
		if _, ok := DecodeMark(data[:n]); ok {
			t.Fatalf("a mark cut to %d bytes is not noticed", n)
		}
	}
}
