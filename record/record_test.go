package record

import (
	"bytes"
	"runtime"
	"testing"
)

// decode returns all records of b, each checked to be there once and in order.
func decode(t testing.TB, b *Batch) []Record {
	t.Helper()
	payload, err := b.Payload(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	it := b.Records(payload)
	var records []Record
	var r Record
	for it.Next(&r) {
		records = append(records, r)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	if len(records) != int(b.Count) {
		t.Fatalf("%d records, header says %d", len(records), b.Count)
	}
	return records
}

// build returns a batch of records at base, parsed and verified.
func build(t testing.TB, base Offset, o BatchOptions, records []Record) Batch {
	t.Helper()
	var bld Builder
	bld.Reset(nil, base, o)
	for _, r := range records {
		bld.Add(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	return parse(t, bld.Finish())
}

func parse(t testing.TB, raw []byte) Batch {
	t.Helper()
	b, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Verify(); err != nil {
		t.Fatal(err)
	}
	return b
}

func sameRecord(t testing.TB, i int, got, want Record) {
	t.Helper()
	if got.Offset != want.Offset || got.Timestamp != want.Timestamp {
		t.Errorf("record %d: offset %d at %d, want %d at %d", i, got.Offset, got.Timestamp, want.Offset, want.Timestamp)
	}
	sameBytes(t, i, "key", got.Key, want.Key)
	sameBytes(t, i, "value", got.Value, want.Value)
	if len(got.Headers) != len(want.Headers) {
		t.Fatalf("record %d: %d headers, want %d", i, len(got.Headers), len(want.Headers))
	}
	for k, h := range want.Headers {
		if got.Headers[k].Key != h.Key {
			t.Errorf("record %d header %d: key %q, want %q", i, k, got.Headers[k].Key, h.Key)
		}
		sameBytes(t, i, "header "+h.Key, got.Headers[k].Value, h.Value)
	}
}

// sameBytes tells null from empty.
func sameBytes(t testing.TB, i int, what string, got, want []byte) {
	t.Helper()
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		t.Errorf("record %d: %s %#v, want %#v", i, what, clip(got), clip(want))
	}
}

// allocatedBytes returns the bytes that f allocates, garbage included.
func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// skipUnderRace leaves out tests that count allocations of pooled things:
// under the race detector sync.Pool drops some of them on purpose.
func skipUnderRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector makes sync.Pool forget, so allocations say nothing")
	}
}
