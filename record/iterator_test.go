package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// wrap puts a header with a right checksum around any records section.
func wrap(codec Codec, count, lastOffsetDelta int32, section []byte) []byte {
	raw := append(make([]byte, BatchOverhead), section...)
	binary.BigEndian.PutUint32(raw[posLength:], uint32(len(raw)-LogOverhead))
	raw[posMagic] = magicV2
	binary.BigEndian.PutUint16(raw[posAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(raw[posLastOffsetDelta:], uint32(lastOffsetDelta))
	binary.BigEndian.PutUint64(raw[posProducerID:], math.MaxUint64)
	binary.BigEndian.PutUint16(raw[posProducerEpoch:], math.MaxUint16)
	binary.BigEndian.PutUint32(raw[posBaseSequence:], math.MaxUint32)
	binary.BigEndian.PutUint32(raw[posCount:], uint32(count))
	putCRC(raw)
	return raw
}

// TestIteratorRefuses walks records sections that are wrong in one way each.
// They carry a right checksum: that is how a careless or hostile client sends them.
func TestIteratorRefuses(t *testing.T) {
	for _, c := range []struct {
		name      string
		count     int32
		lastDelta int32
		section   string // hex
		at        int    // in the section
		reason    string
	}{
		{"no bytes", 1, 0, "", 0, "record length"},
		{"length cut", 1, 0, "80", 0, "record length"},
		{"length negative", 1, 0, "01", 0, "record length"},
		{"length past the end", 1, 0, "0e 000000 01 01", 0, "record length"},
		{"length of six bytes", 1, 0, "8c8080808000 000000 01 01 00", 0, "record length"},
		{"length past 32 bits", 1, 0, "8c80808010 000000 01 01 00", 0, "record length"},
		{"length zero", 1, 0, "00", 0, "record key"},
		{"attributes only", 1, 0, "02 00", 0, "record key"},
		{"length too small for key", 1, 0, "0a 00 00 00 04 6b 31 01 00", 0, "record key"},
		{"length one too small", 1, 0, "0a 000000 01 01 00", 0, "header count"},
		{"length one too large", 1, 0, "0e 000000 01 01 00 00", 0, "content differ"},
		{"timestamp delta of eleven bytes", 1, 0, "20 00 8080808080808080808001 00 01 01 00", 0, "record key"},
		{"timestamp delta past 64 bits", 1, 0, "1e 00 80808080808080808002 00 01 01 00", 0, "record key"},
		{"key length -2", 1, 0, "0c 000000 03 01 00", 0, "record key"},
		{"key length min", 1, 0, "14 000000 ffffffff0f 01 00", 0, "record key"},
		{"key past the end", 1, 0, "0c 000000 08 01 00", 0, "record key"},
		{"value length -2", 1, 0, "0c 000000 01 03 00", 0, "record value"},
		{"value past the end", 1, 0, "0c 000000 01 04 00", 0, "record value"},
		{"value length max", 1, 0, "14 000000 01 feffffff0f 00", 0, "record value"},
		{"header count -1", 1, 0, "0c 000000 01 01 01", 0, "header count"},
		{"header count 2^31-1", 1, 0, "14 000000 01 01 feffffff0f", 0, "header count"},
		{"header count one too many", 1, 0, "10 000000 01 01 04 0000", 0, "header count"},
		{"header key null", 1, 0, "10 000000 01 01 02 01 00", 0, "header key"},
		{"header key past the end", 1, 0, "10 000000 01 01 02 02 00", 0, "header value"},
		{"header key longer than all", 1, 0, "10 000000 01 01 02 7e 00", 0, "header key"},
		{"header value length -2", 1, 0, "10 000000 01 01 02 00 03", 0, "header value"},
		{"header value past the end", 1, 0, "10 000000 01 01 02 00 02", 0, "header value"},
		{"bytes after the headers", 1, 0, "12 000000 01 01 02 0000 00", 0, "content differ"},
		{"offset delta -1", 1, 5, "0c 000001 01 01 00", 0, "offset delta -1"},
		{"offset delta past the last", 1, 5, "0c 00000c 01 01 00", 0, "offset delta 6, want one of 0 to 5"},
		{"offset delta past 32 bits", 1, 5, "14 0000 8080808010 01 01 00", 0, "record key or a number"},
		{"offset delta repeats", 2, 5, "0c 000004 01 01 00 0c 000004 01 01 00", 7, "offset delta 2, want one of 3 to 5"},
		{"offset delta falls", 2, 5, "0c 000004 01 01 00 0c 000002 01 01 00", 7, "offset delta 1, want one of 3 to 5"},
		{"fewer records than counted", 2, 1, "0c 000000 01 01 00", 7, "record length"},
		{"more records than counted", 1, 1, "0c 000000 01 01 00 0c 000002 01 01 00", 7, "bytes after the last record"},
		{"records in an empty batch", 0, 0, "0c 000000 01 01 00", 0, "bytes after the last record"},
	} {
		section := unhex(t, c.section)
		for codec := None; codec <= Zstd; codec++ {
			stored := section
			if codec != None {
				stored = deflate(codec, nil, section, 0)
			}
			b := parse(t, wrap(codec, c.count, c.lastDelta, stored))
			payload, err := b.Payload(nil, 0)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, codec, err)
				continue
			}
			sameBothWays(t, &b, payload)
			it := b.Records(payload)
			var r Record
			for it.Next(&r) {
			}
			var format *FormatError
			if !errors.As(it.Err(), &format) || format.At != BatchOverhead+c.at || !strings.Contains(format.Reason, c.reason) {
				t.Errorf("%s, %s: %v; want byte %d, %q", c.name, codec, it.Err(), BatchOverhead+c.at, c.reason)
			}
			if first := it.Err(); it.Next(&r) || it.Err() != first {
				t.Errorf("%s, %s: after the error %v", c.name, codec, it.Err())
			}
			if _, err := Validate(&b, Limits{}); err == nil {
				t.Errorf("%s, %s: Validate finds nothing", c.name, codec)
			}
		}
	}
}

// sameBothWays walks the records with Next and with nextFull alone, and wants
// the same of both: Next is nextFull, only faster.
func sameBothWays(t testing.TB, b *Batch, payload []byte) {
	t.Helper()
	fast, full := b.Records(payload), b.Records(payload)
	for i := 0; ; i++ {
		var r, want Record
		more := fast.Next(&r)
		if full.left <= 0 {
			full.finish()
		} else if full.nextFull(&want) {
			if !more || !equalRecords(r, want) {
				t.Fatalf("record %d: Next %v %+v, nextFull %+v", i, more, r, want)
			}
			continue
		}
		var a, b *FormatError
		if more || errors.As(fast.Err(), &a) != errors.As(full.Err(), &b) || a != nil && *a != *b {
			t.Fatalf("record %d: Next ends with %v, nextFull with %v", i, fast.Err(), full.Err())
		}
		return
	}
}

// TestIteratorReads holds sections that look odd and are right.
func TestIteratorReads(t *testing.T) {
	for _, c := range []struct {
		name      string
		count     int32
		lastDelta int32
		section   string
		want      []Record
	}{
		{"none", 0, 9, "", nil},
		{"smallest", 1, 0, "0c 000000 01 01 00", []Record{{}}},
		{"attributes are not looked at", 1, 0, "0c ff0000 01 01 00", []Record{{}}},
		{"empty key and value", 1, 0, "0c 000000 00 00 00", []Record{{Key: []byte{}, Value: []byte{}}}},
		{"numbers longer than needed", 1, 0, "968000 00 8000 8000 8100 8100 8000", []Record{{}}},
		{"empty header key", 1, 0, "10 000000 01 01 02 00 01", []Record{{Headers: []Header{{}}}}},
		{"gaps", 2, 9, "0c 000004 01 01 00 0c 000010 01 01 00", []Record{{Offset: 2}, {Offset: 8}}},
		{"last record gone", 1, 9, "0c 000000 01 01 00", []Record{{}}},
	} {
		b := parse(t, wrap(None, c.count, c.lastDelta, unhex(t, c.section)))
		sameBothWays(t, &b, b.raw[BatchOverhead:])
		for i, r := range decode(t, &b) {
			sameRecord(t, i, r, c.want[i])
		}
	}
}

// TestShortAndLong crosses the sizes where a number takes another byte, and
// Next hands over to nextFull.
func TestShortAndLong(t *testing.T) {
	var want []Record
	for _, size := range []int{0, 1, 63, 64, 65, 8180, 8191, 8192, 8193, 1<<20 - 1, 1 << 20} {
		for _, ts := range []int64{0, 63, -64, 64, 8191, -8192, 8192, 1 << 40} {
			r := Record{Offset: Offset(len(want)), Timestamp: ts, Key: make([]byte, size/3), Value: make([]byte, size)}
			want = append(want, r, Record{Offset: r.Offset + 1, Timestamp: -ts, Value: r.Value})
		}
	}
	b := build(t, 0, BatchOptions{}, want)
	sameBothWays(t, &b, b.raw[BatchOverhead:])
	for i, r := range decode(t, &b) {
		sameRecord(t, i, r, want[i])
	}
}

func TestIteratorKeepsEarlierHeaders(t *testing.T) {
	var want []Record
	for i := range 300 {
		r := Record{Offset: Offset(i), Timestamp: int64(i)}
		for k := range i % 7 * (i % 11) {
			r.Headers = append(r.Headers, Header{strings.Repeat("h", k%5), []byte{byte(i), byte(k)}})
		}
		want = append(want, r)
	}
	want[100].Headers = manyHeaders(200)
	want[150].Headers = manyHeaders(5000)
	b := build(t, 0, BatchOptions{}, want)
	for i, r := range decode(t, &b) {
		sameRecord(t, i, r, want[i])
		if len(r.Headers) > 0 && cap(r.Headers) != len(r.Headers) {
			t.Errorf("record %d: an append to its headers would write over the next record's", i)
		}
	}
}

func manyHeaders(n int) []Header {
	var headers []Header
	for i := range n {
		headers = append(headers, Header{"k" + strings.Repeat("x", i%3), []byte{byte(i), byte(i >> 8)}})
	}
	headers[n/2].Value = nil
	headers[n/3].Value = []byte{}
	return headers
}

// TestIteratorClipsCapacity makes sure that no slice handed out reaches into
// what follows it.
func TestIteratorClipsCapacity(t *testing.T) {
	record := Record{Key: []byte("key"), Value: []byte("value"), Headers: []Header{{"h", []byte("hv")}, {"i", []byte{}}}}
	plain := Record{Key: []byte("key"), Value: []byte("value")}
	b := build(t, 0, BatchOptions{}, []Record{record, plain, record, plain})
	for _, r := range decode(t, &b) {
		slices := [][]byte{r.Key, r.Value}
		for _, h := range r.Headers {
			slices = append(slices, h.Value)
		}
		for _, s := range slices {
			if cap(s) != len(s) {
				t.Errorf("%q has capacity %d", s, cap(s))
			}
		}
	}
}

func TestLogAppendTime(t *testing.T) {
	records := []Record{{Offset: 5, Timestamp: 100}, {Offset: 6, Timestamp: 50}}
	b := build(t, 5, BatchOptions{LogAppendTime: true, AppendTime: 1234}, records)
	if !b.Attributes.LogAppendTime() || b.MaxTimestamp != 1234 || b.BaseTimestamp != 100 {
		t.Errorf("attributes %#x, max timestamp %d, base %d", int16(b.Attributes), b.MaxTimestamp, b.BaseTimestamp)
	}
	for _, r := range decode(t, &b) {
		if r.Timestamp != 1234 {
			t.Errorf("offset %d: timestamp %d, want 1234", r.Offset, r.Timestamp)
		}
	}
}

func TestManyTinyRecords(t *testing.T) {
	const n = 300_000
	for _, codec := range []Codec{None, Zstd} {
		var bld Builder
		bld.Reset(nil, 0, BatchOptions{Codec: codec})
		for i := range n {
			bld.Add(int64(i), nil, []byte{byte(i)}, nil)
		}
		b := parse(t, bld.Finish())
		if facts, err := Validate(&b, Limits{}); err != nil || facts.MaxTimestamp != n-1 {
			t.Fatalf("%s: %+v, %v", codec, facts, err)
		}
		for i, r := range decode(t, &b) {
			if r.Offset != Offset(i) || r.Timestamp != int64(i) || !bytes.Equal(r.Value, []byte{byte(i)}) {
				t.Fatalf("%s: record %d: %+v", codec, i, r)
			}
		}
	}
}

func TestIteratorAllocatesNothing(t *testing.T) {
	plain := benchRecords(100)
	b := build(t, 0, BatchOptions{}, plain)
	payload, err := b.Payload(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var r Record
	walk := func() {
		it := b.Records(payload)
		for it.Next(&r) {
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
	}
	if n := testing.AllocsPerRun(100, walk); n != 0 {
		t.Errorf("%v allocations for 100 records, want none", n)
	}
	for i := range plain {
		plain[i].Headers = manyHeaders(3)
	}
	b = build(t, 0, BatchOptions{}, plain)
	if payload, err = b.Payload(nil, 0); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, walk); n > 4 {
		t.Errorf("%v allocations for 300 headers, want a few chunks", n)
	}
}

// TestHostileHeaderCount checks that memory does not follow a count: the
// section claims half a million headers and breaks off at the second.
func TestHostileHeaderCount(t *testing.T) {
	const claimed = 500_000
	body := []byte{0, 0, 0, 1, 1}
	body = binary.AppendUvarint(body, claimed*2)
	body = append(body, 0, 1, 1) // one good header, then a null key
	body = append(body, make([]byte, 2*claimed)...)
	section := append(binary.AppendUvarint(nil, uint64(len(body))*2), body...)
	b := parse(t, wrap(None, 1, 0, section))
	var r Record
	allocated := allocatedBytes(func() {
		it := b.Records(b.raw[BatchOverhead:])
		if it.Next(&r) || it.Err() == nil {
			t.Fatal("no error")
		}
	})
	if allocated > 64<<10 {
		t.Errorf("%d bytes allocated for a count that is not true", allocated)
	}
}

// TestIteratorNextOffset: it follows the record before, also where reading ends.
func TestIteratorNextOffset(t *testing.T) {
	section := unhex(t, "0c 000000 01 01 00 0c 000004 01 01 00 0e 000006 01 01 00") // deltas 0, 2 and, broken, 3
	b := parse(t, wrap(None, 3, 3, section))
	it := b.Records(section)
	var r Record
	for _, want := range []Offset{0, 1, 3} {
		if got := it.NextOffset(); got != want {
			t.Errorf("next offset %d, want %d", got, want)
		}
		it.Next(&r)
	}
	if it.Err() == nil || r.Offset != 2 || it.NextOffset() != 3 {
		t.Errorf("ended with %v behind offset %d, next offset %d", it.Err(), r.Offset, it.NextOffset())
	}
}
