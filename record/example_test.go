package record_test

import (
	"errors"
	"fmt"

	"github.com/varvelog/varve/record"
)

// A Builder makes batches, Parse reads them back.
func Example() {
	var b record.Builder
	b.Reset(nil, 4096, record.BatchOptions{Codec: record.Zstd})
	b.Add(1700000000000, []byte("lake"), []byte("frozen"), nil)
	b.Add(1700000000250, []byte("lake"), nil, []record.Header{{Key: "season", Value: []byte("thaw")}})
	stored := b.Finish()

	batch, err := record.Parse(stored)
	if err != nil {
		panic(err)
	}
	if err := batch.Verify(); err != nil {
		panic(err)
	}
	payload, err := batch.Payload(nil, record.DefaultMaxInflated)
	if err != nil {
		panic(err)
	}
	var r record.Record
	records := batch.Records(payload)
	for records.Next(&r) {
		fmt.Printf("%d at %d: %s = %s %v\n", r.Offset, r.Timestamp, r.Key, r.Value, r.Value == nil)
	}
	if err := records.Err(); err != nil {
		panic(err)
	}
	// Output:
	// 4096 at 1700000000000: lake = frozen false
	// 4097 at 1700000000250: lake =  true
}

// PeekSize tells a reader how much to fetch.
func ExamplePeekSize() {
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{})
	b.Add(record.NoTimestamp, nil, []byte("silt"), nil)
	stored := b.Finish()

	size, err := record.PeekSize(stored[:17])
	fmt.Println(size == int64(len(stored)), err)
	_, err = record.PeekSize(stored[:16])
	fmt.Println(errors.Is(err, record.ErrShort))
	// Output:
	// true <nil>
	// true
}

// Validate is for batches that come from outside.
func ExampleValidate() {
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{})
	b.Add(1700000000000, []byte("lake"), nil, nil)
	b.Add(1600000000000, nil, []byte("silt"), nil)
	batch, err := record.Parse(b.Finish())
	if err != nil {
		panic(err)
	}
	facts, err := record.Validate(&batch, record.Limits{})
	fmt.Println(facts.MaxTimestamp, facts.MaxTimestampOffset, facts.NullKeys, err)

	batch.Bytes()[70] ^= 1
	_, err = record.Validate(&batch, record.Limits{})
	fmt.Println(err)
	// Output:
	// 1700000000000 0 1 <nil>
	// record: batch byte 17: crc mismatch: stored a9653e3f, computed a60c3c14
}
