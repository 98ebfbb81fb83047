package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// sealed returns the hand-made batch with v at position at and the checksum redone.
func sealed(t testing.TB, at int, v any) []byte {
	raw := put(t, at, v)
	putCRC(raw)
	return raw
}

func TestValidateRefuses(t *testing.T) {
	noProducer := func(at int, v any) []byte {
		raw := sealed(t, posProducerID, int64(-1))
		if _, err := binary.Encode(raw[at:], binary.BigEndian, v); err != nil {
			t.Fatal(err)
		}
		putCRC(raw)
		return raw
	}
	for _, c := range []struct {
		name   string
		raw    []byte
		at     int
		reason string
	}{
		{"checksum", put(t, posCount, int32(1)), posCRC, "crc mismatch: stored f3483dc1"},
		{"count 0", sealed(t, posCount, int32(0)), posCount, "no records"},
		{"count too small", sealed(t, posCount, int32(1)), posLastOffsetDelta, "last offset delta 1 for 1 records"},
		{"count too large", sealed(t, posCount, int32(3)), posLastOffsetDelta, "last offset delta 1 for 3 records"},
		{"last offset delta max", sealed(t, posLastOffsetDelta, int32(math.MaxInt32-10)), posLastOffsetDelta, "for 2 records"},
		{"producer id -2", sealed(t, posProducerID, int64(-2)), posProducerID, "negative producer id -2"},
		{"producer epoch -1", sealed(t, posProducerEpoch, int16(-1)), posProducerEpoch, "producer 42 with epoch -1"},
		{"sequence -1", sealed(t, posBaseSequence, int32(-1)), posBaseSequence, "producer 42 with sequence -1"},
		{"transaction without producer", noProducer(posProducerEpoch, int16(-1)), posProducerID, "transaction without a producer id"},
		{"codec 5", sealed(t, posAttributes, int16(0x15)), posAttributes, "unknown compression"},
		{"gap between records", wrap(None, 2, 1, unhex(t, "0c 000000 01 01 00 0c 000004 01 01 00")), BatchOverhead + 7, "offset delta 2, want one of 1 to 1"},
		{"first record at 1", wrap(None, 1, 0, unhex(t, "0c 000002 01 01 00")), BatchOverhead, "offset delta 1"},
	} {
		b, err := Parse(c.raw)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		_, err = Validate(&b, Limits{})
		var format *FormatError
		if !errors.As(err, &format) || format.At != c.at || !strings.Contains(format.Reason, c.reason) {
			t.Errorf("%s: %v; want byte %d, %q", c.name, err, c.at, c.reason)
		}
	}
}

func TestValidateAccepts(t *testing.T) {
	for name, raw := range map[string][]byte{
		"hand made":                     unhex(t, handMade),
		"control without sequence":      markSequence(t),
		"max timestamp that is not so":  sealed(t, posMaxTimestamp, int64(-1)),
		"append time":                   sealed(t, posAttributes, int16(0x18)),
		"delete horizon":                sealed(t, posAttributes, int16(0x50)),
		"bits that mean nothing so far": sealed(t, posAttributes, int16(0x7f10)),
	} {
		b, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Validate(&b, Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// markSequence is a control batch: commit markers carry a producer and no sequence.
func markSequence(t testing.TB) []byte {
	raw := put(t, posBaseSequence, int32(-1))
	raw[posAttributes+1] |= byte(flagControl)
	putCRC(raw)
	return raw
}

func TestValidateFacts(t *testing.T) {
	records := []Record{
		{Timestamp: 5, Key: []byte{}},
		{Timestamp: 9, Key: []byte("k")},
		{Timestamp: -7},
		{Timestamp: 9},
	}
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, 100, BatchOptions{Codec: codec}, records)
		got, err := Validate(&b, Limits{})
		want := Facts{MaxTimestamp: 9, MaxTimestampOffset: 1, MinTimestamp: -7, NullKeys: 2, Inflated: 7 + 8 + 7 + 7}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", codec, got, err, want)
		}
		if _, err := Validate(&b, Limits{MaxInflated: want.Inflated}); err != nil {
			t.Errorf("%s: at the limit: %v", codec, err)
		}
		if _, err := Validate(&b, Limits{MaxInflated: want.Inflated - 1}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: past the limit: %v", codec, err)
		}
	}
	b := build(t, 0, BatchOptions{LogAppendTime: true, AppendTime: 77}, records)
	if got, err := Validate(&b, Limits{}); err != nil || got.MaxTimestamp != 77 || got.MinTimestamp != 77 || got.MaxTimestampOffset != 0 {
		t.Errorf("append time: %+v, %v", got, err)
	}
}

func TestValidateAllocatesNothing(t *testing.T) {
	skipUnderRace(t)
	records := benchRecords(100)
	for i := range records {
		records[i].Headers = manyHeaders(3)
	}
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, 0, BatchOptions{Codec: codec}, records)
		if n := testing.AllocsPerRun(50, func() {
			if _, err := Validate(&b, Limits{}); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %v allocations, want none", codec, n)
		}
	}
}

// TestValidateGolden holds that whatever Kafka's producer classes make passes,
// except what compaction and the broker itself leave behind.
func TestValidateGolden(t *testing.T) {
	goldenFiles(t, func(name string, data []byte, want goldenFile) {
		for i, w := range want.Batches {
			b := parse(t, data)
			data = data[b.Size():]
			if _, err := Validate(&b, Limits{}); (err == nil) != dense(&w) {
				t.Errorf("%s batch %d: %v, dense %v", name, i, err, dense(&w))
			}
		}
	})
}

func TestPatch(t *testing.T) {
	records := []Record{{Timestamp: 10, Value: []byte("v")}, {Offset: 1, Timestamp: 20}}
	for codec := None; codec <= Zstd; codec++ {
		raw := bytes.Clone(build(t, 0, BatchOptions{Codec: codec}, records).raw)
		sum := raw[posCRC:posAttributes]

		before := bytes.Clone(sum)
		SetBaseOffset(raw, 1<<40)
		SetLeaderEpoch(raw, 9)
		b := parse(t, raw)
		if b.BaseOffset != 1<<40 || b.LeaderEpoch != 9 || !bytes.Equal(sum, before) {
			t.Errorf("%s: %+v", codec, b)
		}
		SetMaxTimestamp(raw, 12345)
		if b = parse(t, raw); b.MaxTimestamp != 12345 || bytes.Equal(sum, before) {
			t.Errorf("%s: max timestamp %d", codec, b.MaxTimestamp)
		}
		if got := decode(t, &b); got[0].Timestamp != 10 || got[1].Timestamp != 20 || got[1].Offset != 1<<40+1 {
			t.Errorf("%s: %+v", codec, got)
		}
		StampAppendTime(raw, 999)
		b = parse(t, raw)
		if got := decode(t, &b); got[0].Timestamp != 999 || got[1].Timestamp != 999 || b.Attributes.Codec() != codec {
			t.Errorf("%s: stamped %+v, %+v", codec, b, got)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		if got, err := ParseCodec(codec.String()); err != nil || got != codec {
			t.Errorf("%s: %v, %v", codec, got, err)
		}
	}
	if got, err := ParseCodec("uncompressed"); err != nil || got != None {
		t.Errorf("uncompressed: %v, %v", got, err)
	}
	for _, name := range []string{"", "producer", "GZIP", "brotli", "codec(5)"} {
		if got, err := ParseCodec(name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if Codec(5).String() != "codec(5)" {
		t.Error(Codec(5))
	}
}
