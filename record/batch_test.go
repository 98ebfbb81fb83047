package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"
)

// handMade is a batch written down from the description of the format, not
// made by a program: two records of a producer in a transaction.
const handMade = `
00 00 00 01 00 00 00 07 # base offset 4294967303
00 00 00 4c             # length 76
00 00 00 05             # leader epoch
02                      # magic
f3 48 3d c1             # crc-32c
00 10                   # attributes: transactional
00 00 00 01             # last offset delta
00 00 01 8b cf e5 68 00 # base timestamp 1700000000000
00 00 01 8b cf e5 68 00 # max timestamp
00 00 00 00 00 00 00 2a # producer id 42
00 03                   # producer epoch
00 00 00 09             # base sequence
00 00 00 02             # count
1c                      # length 14
00 00 00                # attributes, timestamp delta 0, offset delta 0
04 6b 31 01             # key k1, value null
04                      # two headers
02 68 01 02 68 00       # h: null, h: empty
16                      # length 11
00 ef 2e 02             # attributes, timestamp delta -3000, offset delta 1
00 08 73 69 6c 74       # key empty, value silt
00                      # no headers
`

var handMadeRecords = []Record{
	{Offset: 4294967303, Timestamp: 1700000000000, Key: []byte("k1"), Headers: []Header{{"h", nil}, {"h", []byte{}}}},
	{Offset: 4294967304, Timestamp: 1699999997000, Key: []byte{}, Value: []byte("silt")},
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		bytes, _, _ := strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(bytes), ""))
	}
	raw, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestHandMadeBatch(t *testing.T) {
	raw := unhex(t, handMade)
	b := parse(t, raw)
	want := Batch{
		BaseOffset: 4294967303, Length: 76, LeaderEpoch: 5, Magic: 2, CRC: 0xf3483dc1, Attributes: 0x10,
		LastOffsetDelta: 1, BaseTimestamp: 1700000000000, MaxTimestamp: 1700000000000,
		ProducerID: 42, ProducerEpoch: 3, BaseSequence: 9, Count: 2,
	}
	got := b
	got.raw = nil
	if !sameHeader(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if b.Size() != len(raw) || b.LastOffset() != 4294967304 || b.NextOffset() != 4294967305 || !bytes.Equal(b.Bytes(), raw) {
		t.Errorf("size %d, last offset %d, next %d", b.Size(), b.LastOffset(), b.NextOffset())
	}
	for i, r := range decode(t, &b) {
		sameRecord(t, i, r, handMadeRecords[i])
	}
	again := build(t, b.BaseOffset, BatchOptions{
		Epoch: 5, HasProducer: true, ProducerID: 42, ProducerEpoch: 3, BaseSequence: 9, Transactional: true,
	}, handMadeRecords)
	if !bytes.Equal(again.Bytes(), raw) {
		t.Errorf("built\n %x\nwant\n %x", again.Bytes(), raw)
	}
}

func sameHeader(a, b Batch) bool {
	return bytes.Equal(headerOf(a), headerOf(b))
}

// headerOf writes the fields of a header one after another.
func headerOf(b Batch) []byte {
	var buf bytes.Buffer
	b.raw = nil
	for _, field := range []any{
		b.BaseOffset, b.Length, b.LeaderEpoch, b.Magic, b.CRC, b.Attributes, b.LastOffsetDelta,
		b.BaseTimestamp, b.MaxTimestamp, b.ProducerID, b.ProducerEpoch, b.BaseSequence, b.Count,
	} {
		if err := binary.Write(&buf, binary.BigEndian, field); err != nil {
			panic(err)
		}
	}
	return buf.Bytes()
}

func TestAttributes(t *testing.T) {
	a := Attributes(0x7b)
	if a.Codec() != LZ4 || !a.LogAppendTime() || !a.Transactional() || !a.Control() || !a.DeleteHorizon() {
		t.Errorf("%#x: bits missing", int16(a))
	}
	a = 0x04
	if a.Codec() != Zstd || a.LogAppendTime() || a.Transactional() || a.Control() || a.DeleteHorizon() {
		t.Errorf("%#x: bits too many", int16(a))
	}
}

// put returns a copy of the hand-made batch with v, big-endian, at position at.
func put(t testing.TB, at int, v any) []byte {
	raw := unhex(t, handMade)
	if _, err := binary.Encode(raw[at:], binary.BigEndian, v); err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		raw    []byte
		at     int
		reason string
		is     error
	}{
		{"length 48", put(t, posLength, int32(48)), posLength, "length 48 is below", nil},
		{"length 0", put(t, posLength, int32(0)), posLength, "length 0 is below", nil},
		{"length -1", put(t, posLength, int32(-1)), posLength, "length -1 is below", nil},
		{"length min", put(t, posLength, int32(math.MinInt32)), posLength, "is below", nil},
		{"magic 0", put(t, posMagic, int8(0)), posMagic, "magic 0 is a message set", ErrMagic},
		{"magic 1", put(t, posMagic, int8(1)), posMagic, "magic 1 is a message set", ErrMagic},
		{"magic 3", put(t, posMagic, int8(3)), posMagic, "unknown magic 3", nil},
		{"magic -1", put(t, posMagic, int8(-1)), posMagic, "unknown magic -1", nil},
		{"zeros", make([]byte, 4096), posLength, "length 0 is below", nil},
		{"base offset -1", put(t, posBaseOffset, int64(-1)), posBaseOffset, "negative base offset -1", nil},
		{"base offset max", put(t, posBaseOffset, int64(math.MaxInt64)), posBaseOffset, "leaves no room", nil},
		{"next offset overflows", put(t, posBaseOffset, int64(math.MaxInt64-1)), posBaseOffset, "leaves no room", nil},
		{"last offset delta -1", put(t, posLastOffsetDelta, int32(-1)), posLastOffsetDelta, "negative last offset delta -1", nil},
		{"count -1", put(t, posCount, int32(-1)), posCount, "negative record count -1", nil},
	} {
		_, err := Parse(c.raw)
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("%s: %v, want a *FormatError", c.name, err)
			continue
		}
		if format.At != c.at || !strings.Contains(format.Reason, c.reason) {
			t.Errorf("%s: byte %d, %q; want byte %d, %q", c.name, format.At, format.Reason, c.at, c.reason)
		}
		if errors.Is(err, ErrMagic) != (c.is == ErrMagic) || errors.Is(err, ErrShort) {
			t.Errorf("%s: %v matches a wrong sentinel", c.name, err)
		}
	}
	last := put(t, posBaseOffset, int64(math.MaxInt64-2))
	if b, err := Parse(last); err != nil || b.NextOffset() != math.MaxInt64 {
		t.Errorf("last batch there can be: next offset %d, %v", b.NextOffset(), err)
	}
}

func TestParseShort(t *testing.T) {
	raw := unhex(t, handMade)
	for n := range raw {
		if _, err := Parse(raw[:n]); err != ErrShort {
			t.Fatalf("%d of %d bytes: %v, want ErrShort", n, len(raw), err)
		}
	}
	if _, err := Parse(put(t, posLength, int32(math.MaxInt32))); err != ErrShort {
		t.Errorf("length 2^31-1: %v, want ErrShort", err)
	}
	b, err := Parse(append(raw, "the next batch"...))
	if err != nil || b.Size() != len(raw) || len(b.Bytes()) != len(raw) || cap(b.Bytes()) != len(raw) {
		t.Errorf("a batch followed by more: %d bytes, capacity %d, %v", len(b.Bytes()), cap(b.Bytes()), err)
	}
}

func TestPeekSize(t *testing.T) {
	raw := unhex(t, handMade)
	for n := range raw {
		size, err := PeekSize(raw[:n])
		if n < 17 && err != ErrShort {
			t.Errorf("%d bytes: %v, want ErrShort", n, err)
		}
		if n >= 17 && (err != nil || size != int64(len(raw))) {
			t.Errorf("%d bytes: %d, %v, want %d", n, size, err, len(raw))
		}
	}
	if size, err := PeekSize(put(t, posLength, int32(math.MaxInt32))); err != nil || size != LogOverhead+math.MaxInt32 {
		t.Errorf("largest claim: %d, %v", size, err)
	}
	var format *FormatError
	for _, raw := range [][]byte{put(t, posLength, int32(48)), put(t, posLength, int32(-1)), put(t, posMagic, int8(7)), make([]byte, 17)} {
		if _, err := PeekSize(raw); !errors.As(err, &format) {
			t.Errorf("%x: %v, want a *FormatError", raw[:17], err)
		}
	}
	if _, err := PeekSize(put(t, posMagic, int8(1))); !errors.Is(err, ErrMagic) {
		t.Errorf("magic 1: %v, want ErrMagic", err)
	}
}

// TestEveryFlipIsNoticed changes every bit of batches of every codec. What
// neither Parse nor Verify notices has to be in the fields that the checksum
// leaves out, and to show there.
func TestEveryFlipIsNoticed(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, 1<<40, BatchOptions{Codec: codec, Epoch: 7}, handMadeRecords)
		for at := range b.Size() {
			for bit := range 8 {
				raw := bytes.Clone(b.Bytes())
				raw[at] ^= 1 << bit
				got, err := Parse(raw)
				if err != nil {
					continue
				}
				if err := got.Verify(); err != nil {
					continue
				}
				switch {
				case at < posLength && got.BaseOffset != b.BaseOffset:
				case at >= posLeaderEpoch && at < posMagic && got.LeaderEpoch != b.LeaderEpoch:
				default:
					t.Errorf("%s: flip of bit %d in byte %d goes unnoticed", codec, bit, at)
				}
			}
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	raw := unhex(t, handMade)
	if n := testing.AllocsPerRun(100, func() {
		b, err := Parse(raw)
		if err != nil || b.Verify() != nil {
			t.Fatal(err)
		}
		if _, err := PeekSize(raw); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(raw[:70]); err != ErrShort {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
