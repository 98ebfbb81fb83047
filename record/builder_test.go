package record

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRoundTripNullAndEmpty(t *testing.T) {
	variants := [][]byte{nil, {}, []byte("x")}
	var want []Record
	for _, key := range variants {
		for _, value := range variants {
			r := Record{Offset: Offset(len(want)), Key: key, Value: value}
			for _, hv := range variants {
				r.Headers = append(r.Headers, Header{"same", hv}, Header{"", hv}, Header{"same", hv})
			}
			want = append(want, r)
		}
	}
	want = append(want, Record{Offset: Offset(len(want)), Headers: manyHeaders(200)})
	for codec := None; codec <= Zstd; codec++ {
		b := build(t, 0, BatchOptions{Codec: codec}, want)
		if b.Attributes.Codec() != codec {
			t.Errorf("codec %s, want %s", b.Attributes.Codec(), codec)
		}
		for i, r := range decode(t, &b) {
			sameRecord(t, i, r, want[i])
		}
	}
}

// TestExtremeTimestamps holds that every int64 comes back, in any order: the
// differences wrap around and wrap back.
func TestExtremeTimestamps(t *testing.T) {
	extremes := []int64{math.MinInt64, math.MinInt64 + 1, -1000, NoTimestamp, 0, 1, 1700000000000, math.MaxInt64 - 1, math.MaxInt64}
	for _, base := range extremes {
		want := []Record{{Timestamp: base}}
		for _, ts := range extremes {
			want = append(want, Record{Offset: Offset(len(want)), Timestamp: ts})
		}
		b := build(t, 0, BatchOptions{}, want)
		if b.BaseTimestamp != base || b.MaxTimestamp != math.MaxInt64 {
			t.Errorf("base timestamp %d, want %d; max %d", b.BaseTimestamp, base, b.MaxTimestamp)
		}
		for i, r := range decode(t, &b) {
			sameRecord(t, i, r, want[i])
		}
	}
	b := build(t, 0, BatchOptions{}, []Record{{Timestamp: -50}, {Offset: 1, Timestamp: -40}, {Offset: 2, Timestamp: -60}})
	if b.MaxTimestamp != -40 {
		t.Errorf("max of negative timestamps %d, want -40", b.MaxTimestamp)
	}
}

func TestBuilderHeader(t *testing.T) {
	var bld Builder
	prefix := []byte("already there")
	bld.Reset(bytes.Clone(prefix), 77, BatchOptions{})
	bld.Add(5, nil, nil, nil)
	out := bld.Finish()
	if !bytes.HasPrefix(out, prefix) {
		t.Fatalf("lost what was in dst: %q", out)
	}
	b := parse(t, out[len(prefix):])
	if b.ProducerID != -1 || b.ProducerEpoch != -1 || b.BaseSequence != -1 || b.Attributes != 0 || b.LeaderEpoch != 0 || b.BaseOffset != 77 {
		t.Errorf("zero options: %+v", b)
	}
	bld.Reset(nil, 0, BatchOptions{HasProducer: true, Control: true, Transactional: true, Codec: Zstd, LogAppendTime: true, Epoch: math.MaxInt32})
	bld.Add(5, nil, nil, nil)
	b = parse(t, bld.Finish())
	if b.ProducerID != 0 || b.ProducerEpoch != 0 || b.BaseSequence != 0 || b.Attributes != 0x3c || b.LeaderEpoch != math.MaxInt32 || b.MaxTimestamp != 0 {
		t.Errorf("all options: %+v", b)
	}
}

func TestBuilderWithoutRecords(t *testing.T) {
	for codec := None; codec <= Zstd; codec++ {
		var bld Builder
		bld.Reset([]byte("kept"), 0, BatchOptions{Codec: codec})
		if out := bld.Finish(); string(out) != "kept" {
			t.Errorf("%s: %q", codec, out)
		}
	}
}

// TestBuilderReuse builds batch after batch with one Builder and finds none
// in another: results stay what they were.
func TestBuilderReuse(t *testing.T) {
	var bld Builder
	var results, copies [][]byte
	for i := range 50 {
		bld.Reset(nil, Offset(i), BatchOptions{Codec: Codec(i % 5)})
		for k := range i + 1 {
			bld.Add(int64(k), []byte{byte(i)}, bytes.Repeat([]byte{byte(k)}, i*20), nil)
		}
		if bld.Count() != i+1 {
			t.Fatalf("count %d, want %d", bld.Count(), i+1)
		}
		out := bld.Finish()
		if bld.Size() != 0 {
			t.Fatalf("holds on to %d bytes it gave away", bld.Size())
		}
		results, copies = append(results, out), append(copies, bytes.Clone(out))
	}
	for i := range results {
		if !bytes.Equal(results[i], copies[i]) {
			t.Fatalf("batch %d changed after it was finished", i)
		}
		b := parse(t, results[i])
		for k, r := range decode(t, &b) {
			sameRecord(t, k, r, Record{Offset: Offset(i + k), Timestamp: int64(k), Key: []byte{byte(i)}, Value: bytes.Repeat([]byte{byte(k)}, i*20)})
		}
	}
}

// TestSize holds Size, RecordSize and SizeBound to the bytes that are really written.
func TestSize(t *testing.T) {
	var bld Builder
	for codec := None; codec <= Zstd; codec++ {
		bld.Reset([]byte("prefix"), 0, BatchOptions{Codec: codec})
		size := BatchOverhead
		for i := range 300 {
			value := bytes.Repeat([]byte("v"), i*i%1000)
			headers := manyHeaders(3)[:i%3]
			ts := int64(i) * int64(i) * 1000 * int64(i%2*2-1)
			var key []byte
			if i%2 == 0 {
				key = value[:i%7*len(value)/7]
			}
			if bld.Size() != size {
				t.Fatalf("%s: size %d before record %d, want %d", codec, bld.Size(), i, size)
			}
			bld.Add(ts, key, value, headers)
			exact := RecordSize(i, ts, key, value, headers)
			if most := SizeBound(key, value, headers); most < exact || most > exact+32+10*int64(len(headers)) {
				t.Fatalf("record %d takes %d bytes, and at most %d", i, exact, most)
			}
			size += int(exact)
		}
		if out := bld.Finish(); codec == None && len(out) != size+len("prefix") {
			t.Errorf("%d bytes, want %d", len(out), size+len("prefix"))
		}
	}
}

func TestVarintSizes(t *testing.T) {
	buf := make([]byte, 16)
	for bit := range 64 {
		for _, v := range []int64{1 << bit, 1<<bit - 1, -1 << bit, -1<<bit - 1, -1<<bit + 1} {
			n := putVarint(buf, 0, zigzag(v))
			if got := varintSize(zigzag(v)); got != n {
				t.Errorf("%d takes %d bytes, varintSize says %d", v, n, got)
			}
			if u, next := varint64(buf[:n], 0); unzigzag(u) != v || next != n {
				t.Errorf("varint64 of %d: %d, position %d", v, unzigzag(u), next)
			}
			if _, next := varint64(buf[:n-1], 0); next != noPos {
				t.Errorf("varint64 of %d cut short: position %d", v, next)
			}
			u, next := varint32(buf[:n], 0)
			if fits := v >= math.MinInt32 && v <= math.MaxInt32; fits && (unzigzag(u) != v || next != n) {
				t.Errorf("varint32 of %d: %d, position %d", v, unzigzag(u), next)
			}
		}
	}
}

func TestLevels(t *testing.T) {
	want := sample(30_000)
	for codec := Gzip; codec <= Zstd; codec++ {
		sizes := map[int]int{}
		for _, level := range []int{math.MinInt, -131072, -1, 0, 1, 3, 6, 9, 10, 17, 22, 100, math.MaxInt} {
			b := build(t, 0, BatchOptions{Codec: codec, Level: level}, []Record{{Value: want}})
			if got := decode(t, &b); !bytes.Equal(got[0].Value, want) {
				t.Errorf("%s level %d: other bytes", codec, level)
			}
			sizes[level] = b.Size()
		}
		if codec != Snappy && sizes[17] >= sizes[0] {
			t.Errorf("%s: level 17 makes %d bytes, the default %d", codec, sizes[17], sizes[0])
		}
	}
}

func TestIncompressible(t *testing.T) {
	noise := make([]byte, 200_000)
	state := uint64(88172645463325252)
	for i := range noise {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		noise[i] = byte(state)
	}
	for codec := Gzip; codec <= Zstd; codec++ {
		b := build(t, 0, BatchOptions{Codec: codec}, []Record{{Value: noise}})
		if got := decode(t, &b); !bytes.Equal(got[0].Value, noise) {
			t.Errorf("%s: other bytes", codec)
		}
		if b.Size() > len(noise)+len(noise)/100+1000 {
			t.Errorf("%s: %d bytes became %d", codec, len(noise), b.Size())
		}
	}
}

func TestBuilderAllocatesNothing(t *testing.T) {
	skipUnderRace(t)
	records := benchRecords(100)
	for codec := None; codec <= Zstd; codec++ {
		var bld Builder
		var dst []byte
		n := testing.AllocsPerRun(50, func() {
			bld.Reset(dst[:0], 0, BatchOptions{Codec: codec})
			for i := range records {
				bld.Add(records[i].Timestamp, nil, records[i].Value, nil)
			}
			dst = bld.Finish()
		})
		if n >= 1 {
			t.Errorf("%s: %v allocations a batch, want none", codec, n)
		}
	}
}

func TestMustFit(t *testing.T) {
	mustFit(math.MaxInt32)
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "batch of 2147483648 bytes does not fit") {
			t.Errorf("panic %q", p)
		}
	}()
	mustFit(math.MaxInt32 + 1)
}

// anyRecords draws records of every shape there is.
func anyRecords() *rapid.Generator[[]Record] {
	nullable := rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		b := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")
		return append([]byte{}, b...)
	})
	header := rapid.Custom(func(t *rapid.T) Header {
		return Header{Key: rapid.String().Draw(t, "key"), Value: nullable.Draw(t, "value")}
	})
	return rapid.Custom(func(t *rapid.T) []Record {
		records := make([]Record, rapid.IntRange(1, 40).Draw(t, "count"))
		for i := range records {
			records[i] = Record{
				Timestamp: rapid.Int64().Draw(t, "timestamp"),
				Key:       nullable.Draw(t, "key"),
				Value:     nullable.Draw(t, "value"),
				Headers:   rapid.SliceOfN(header, 0, 5).Draw(t, "headers"),
			}
		}
		return records
	})
}

// TestRoundTrip builds batches of any records under any options and wants
// everything back, with the facts that a plain loop over the records finds.
func TestRoundTrip(t *testing.T) {
	var bld Builder
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecords().Draw(t, "records")
		base := Offset(rapid.Int64Range(0, math.MaxInt64-100).Draw(t, "base"))
		o := BatchOptions{
			Codec:         Codec(rapid.IntRange(0, 4).Draw(t, "codec")),
			Level:         rapid.IntRange(0, 12).Draw(t, "level"),
			Epoch:         Epoch(rapid.Int32().Draw(t, "epoch")),
			HasProducer:   rapid.Bool().Draw(t, "producer"),
			ProducerID:    rapid.Int64Range(0, math.MaxInt64).Draw(t, "id"),
			ProducerEpoch: rapid.Int16Range(0, math.MaxInt16).Draw(t, "producer epoch"),
			BaseSequence:  rapid.Int32Range(0, math.MaxInt32).Draw(t, "sequence"),
			Control:       rapid.Bool().Draw(t, "control"),
		}
		o.Transactional = o.HasProducer && rapid.Bool().Draw(t, "transactional")
		bld.Reset(nil, base, o)
		model := Facts{NullKeys: -1, MaxTimestamp: math.MinInt64, MinTimestamp: NoTimestamp}
		for i, r := range want {
			want[i].Offset = base + Offset(i)
			bld.Add(r.Timestamp, r.Key, r.Value, r.Headers)
			if r.Timestamp > model.MaxTimestamp || i == 0 {
				model.MaxTimestamp, model.MaxTimestampOffset = r.Timestamp, int32(i)
			}
			if r.Timestamp != NoTimestamp && (model.MinTimestamp == NoTimestamp || r.Timestamp < model.MinTimestamp) {
				model.MinTimestamp = r.Timestamp
			}
			if r.Key == nil && model.NullKeys < 0 {
				model.NullKeys = i
			}
		}
		model.Inflated = bld.Size() - BatchOverhead

		b, err := Parse(bld.Finish())
		if err != nil {
			t.Fatal(err)
		}
		facts, err := Validate(&b, Limits{})
		if err != nil || facts != model {
			t.Fatalf("facts %+v, %v; want %+v", facts, err, model)
		}
		if b.MaxTimestamp != model.MaxTimestamp || b.Attributes != o.attributes() || b.LeaderEpoch != o.Epoch ||
			b.LastOffset() != base+Offset(len(want)-1) || o.HasProducer != (b.ProducerID >= 0) {
			t.Fatalf("header %+v", b)
		}
		payload, err := b.Payload(nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		it := b.Records(payload)
		for i := range want {
			var r Record
			if !it.Next(&r) {
				t.Fatalf("record %d: %v", i, it.Err())
			}
			if !equalRecords(r, want[i]) {
				t.Fatalf("record %d: got %+v, want %+v", i, r, want[i])
			}
		}
		var r Record
		if it.Next(&r) || it.Err() != nil {
			t.Fatalf("at the end: %v", it.Err())
		}
	})
}

func equalRecords(a, b Record) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	if a.Offset != b.Offset || a.Timestamp != b.Timestamp || !same(a.Key, b.Key) || !same(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}
