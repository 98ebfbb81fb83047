package record

import (
	"bytes"
	"errors"
	"testing"
)

const fuzzLimit = 1 << 20

// readAny takes raw through everything a reader does with bytes it does not
// trust, and checks what holds whatever they are.
func readAny(t *testing.T, raw []byte) {
	b, err := Parse(raw)
	if err != nil {
		checkError(t, err)
		return
	}
	if size, err := PeekSize(raw); err != nil || size != int64(b.Size()) || b.Size() > len(raw) {
		t.Fatalf("size %d, PeekSize %d, %v, of %d bytes", b.Size(), size, err, len(raw))
	}
	if b.NextOffset() <= b.BaseOffset {
		t.Fatalf("next offset %d after base %d", b.NextOffset(), b.BaseOffset)
	}
	facts, invalid := Validate(&b, Limits{MaxInflated: fuzzLimit})
	checkError(t, invalid)

	payload, err := b.Payload(nil, fuzzLimit)
	if err != nil {
		checkError(t, err)
		if invalid == nil {
			t.Fatalf("valid, but %v", err)
		}
		return
	}
	if len(payload) > fuzzLimit {
		t.Fatalf("%d bytes inflated", len(payload))
	}
	sameBothWays(t, &b, payload)
	records, err := walk(t, &b, payload)
	if invalid != nil {
		return
	}
	if err != nil || len(records) != int(b.Count) || facts.Inflated != len(payload) {
		t.Fatalf("valid with %+v, but %d of %d records and %v", facts, len(records), b.Count, err)
	}
	rebuild(t, &b, records)
}

// walk reads all records and checks that each lies where it may.
func walk(t *testing.T, b *Batch, payload []byte) ([]Record, error) {
	var records []Record
	var r Record
	it := b.Records(payload)
	next := b.BaseOffset
	for it.Next(&r) {
		if r.Offset < next || r.Offset > b.LastOffset() {
			t.Fatalf("offset %d, want %d to %d", r.Offset, next, b.LastOffset())
		}
		next = r.Offset + 1
		records = append(records, r)
	}
	checkError(t, it.Err())
	return records, it.Err()
}

// rebuild makes the batch anew from its records and wants the same records of it.
func rebuild(t *testing.T, b *Batch, records []Record) {
	var bld Builder
	bld.Reset(nil, b.BaseOffset, BatchOptions{Codec: b.Attributes.Codec()})
	for _, r := range records {
		bld.Add(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	again := parse(t, bld.Finish())
	for i, r := range decode(t, &again) {
		if !equalRecords(r, records[i]) {
			t.Fatalf("record %d: %+v became %+v", i, records[i], r)
		}
	}
}

// checkError wants errors of the documented kinds only.
func checkError(t *testing.T, err error) {
	var format *FormatError
	if err != nil && err != ErrShort && !errors.Is(err, ErrTooLarge) && !errors.As(err, &format) {
		t.Fatalf("undocumented error %T: %v", err, err)
	}
}

func FuzzParse(f *testing.F) {
	goldenFiles(f, func(_ string, data []byte, _ goldenFile) {
		if len(data) < 4<<10 {
			f.Add(data)
		}
	})
	f.Add(unhex(f, handMade))
	f.Fuzz(readAny)
}

// FuzzRecordsSection reaches behind the checksum.
func FuzzRecordsSection(f *testing.F) {
	goldenFiles(f, func(_ string, data []byte, _ goldenFile) {
		b := parse(f, data)
		if b.Size() > 4<<10 {
			return
		}
		f.Add(uint8(b.Attributes.Codec()), b.Count, b.LastOffsetDelta, b.raw[BatchOverhead:])
	})
	f.Fuzz(func(t *testing.T, codec uint8, count, lastOffsetDelta int32, section []byte) {
		readAny(t, wrap(Codec(codec&7), count, lastOffsetDelta, section))
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add(uint8(0), int64(0), int64(-1), []byte("k"), []byte("v"), "h", []byte("hv"), uint8(3), uint8(0))
	f.Add(uint8(4), int64(1<<62), int64(-1<<63), []byte{}, []byte{}, "", []byte{}, uint8(200), uint8(0xff))
	f.Fuzz(func(t *testing.T, codec uint8, ts1, ts2 int64, key, value []byte, header string, headerValue []byte, count, nulls uint8) {
		var want []Record
		for i := range int(count) + 1 {
			r := Record{Offset: Offset(i), Timestamp: ts1, Key: key, Value: value}
			if i%2 == 1 {
				r.Timestamp = ts2
			}
			if nulls>>(i%4)&1 != 0 {
				r.Key = nil
			}
			if nulls>>(i%4+4)&1 != 0 {
				r.Value = nil
			}
			for range i % 3 {
				r.Headers = append(r.Headers, Header{header, headerValue}, Header{header, nil})
			}
			want = append(want, r)
		}
		b := build(t, 0, BatchOptions{Codec: Codec(codec % 5)}, want)
		if _, err := Validate(&b, Limits{}); err != nil {
			t.Fatal(err)
		}
		for i, r := range decode(t, &b) {
			if !equalRecords(r, want[i]) {
				t.Fatalf("record %d: got %+v, want %+v", i, r, want[i])
			}
		}
	})
}

// FuzzInflate gives every codec any bytes. Twice, into nothing and into a
// buffer used before, it must find the same.
func FuzzInflate(f *testing.F) {
	for codec := Gzip; codec <= Zstd; codec++ {
		f.Add(uint8(codec), uint16(100), pack(codec, first))
		f.Add(uint8(codec), uint16(1<<15), deflate(codec, nil, sample(20_000), 0))
	}
	f.Fuzz(func(t *testing.T, codec uint8, limit uint16, src []byte) {
		c, most := Codec(codec%4+1), int(limit)+1
		got, err := inflate(c, nil, src, most)
		if len(got) > most {
			t.Fatalf("%s: %d bytes, limit %d", c, len(got), most)
		}
		used := bytes.Repeat([]byte("used"), 100)
		again, err2 := inflate(c, used[:0], src, most)
		if (err == nil) != (err2 == nil) || !bytes.Equal(got, again) || errors.Is(err, ErrTooLarge) != errors.Is(err2, ErrTooLarge) {
			t.Fatalf("%s: %d bytes (%v), then %d bytes (%v)", c, len(got), err, len(again), err2)
		}
		if err != nil {
			return
		}
		if more, err := inflate(c, nil, src, most+1<<16); err != nil || !bytes.Equal(got, more) {
			t.Fatalf("%s: %d bytes, but %d (%v) with more room", c, len(got), len(more), err)
		}
	})
}
