package record

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// lateRecord draws a record; its size crosses what numbers of one byte and two can say.
func lateRecord(t *rapid.T) Record {
	value := func(name string) []byte {
		n := rapid.SampledFrom([]int{-1, 0, 1, 50, 60, 70, 8200}).Draw(t, name)
		if n < 0 {
			return nil
		}
		return bytes.Repeat([]byte{byte(n)}, n)
	}
	rec := Record{Timestamp: rapid.Int64().Draw(t, "timestamp"), Key: value("key"), Value: value("value")}
	for i := range rapid.IntRange(0, 2).Draw(t, "headers") {
		rec.Headers = append(rec.Headers, Header{Key: fmt.Sprint("h", i), Value: value("header")})
	}
	return rec
}

// What is said late makes the same bytes as what is said at once.
func TestLateIsAsGoodAsEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codec := Codec(rapid.IntRange(int(None), int(Zstd)).Draw(t, "codec"))
		base, epoch := Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base")), Epoch(rapid.Int32Range(0, 9).Draw(t, "epoch"))
		shift := rapid.Int64().Draw(t, "shift")
		stamp := rapid.Bool().Draw(t, "stamp")
		var early, late Builder
		early.Reset(nil, base, BatchOptions{Codec: codec, Epoch: epoch, LogAppendTime: stamp, AppendTime: 77 * int64(b2i(stamp))})
		late.Reset(nil, 0, BatchOptions{Codec: codec})
		for range rapid.IntRange(1, 5).Draw(t, "records") {
			rec := lateRecord(t)
			rec.Timestamp >>= 2 // no sum leaves the range, where the largest would be another
			early.Add(rec.Timestamp+shift>>2, rec.Key, rec.Value, rec.Headers)
			late.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
		}
		late.PlaceAt(base, epoch)
		late.Shift(shift >> 2)
		if stamp {
			late.Stamp(77)
		}
		if a, b := early.Finish(), late.Finish(); !bytes.Equal(a, b) {
			t.Fatalf("early:\n%x\nlate:\n%x", a, b)
		}
	})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A record that is taken back leaves the batch that it was never added to.
func TestRemoveLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codec := Codec(rapid.IntRange(int(None), int(Zstd)).Draw(t, "codec"))
		n := rapid.IntRange(1, 70).Draw(t, "records")
		gone := rapid.IntRange(0, n-1).Draw(t, "gone")
		var with, without Builder
		with.Reset([]byte("front"), 3, BatchOptions{Codec: codec})
		without.Reset([]byte("front"), 3, BatchOptions{Codec: codec})
		few := []Record{lateRecord(t), lateRecord(t), lateRecord(t)}
		for i := range n {
			rec := few[i%len(few)]
			rec.Timestamp += int64(i)
			with.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
			if i != gone {
				without.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
			}
		}
		with.Remove(gone)
		if with.Count() != n-1 || with.Size() != without.Size() {
			t.Fatalf("%d records in %d bytes, want %d in %d", with.Count(), with.Size(), n-1, without.Size())
		}
		if a, b := with.Finish(), without.Finish(); !bytes.Equal(a, b) {
			t.Fatalf("with one removed:\n%x\nwithout it:\n%x", a, b)
		}
	})
}
