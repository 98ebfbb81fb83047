package record

import (
	"bytes"
	"fmt"
	"testing"
)

// benchRecords returns records of 100 bytes of value, a millisecond apart.
func benchRecords(n int) []Record {
	records := make([]Record, n)
	for i := range records {
		value := fmt.Appendf(nil, `{"seq":%06d,"user":"u%04d","path":"/api/v1/items/%05d","status":200,"ms":%3d,"agent":"Mozilla/5.0 "`,
			i, i*7919%10007, i*104729%99991, i*31%500)
		records[i] = Record{
			Offset:    Offset(i),
			Timestamp: 1700000000000 + int64(i),
			Value:     append(value, bytes.Repeat([]byte{' '}, 100)...)[:100],
		}
	}
	return records
}

func benchBatch(b *testing.B, codec Codec) Batch {
	b.Helper()
	return build(b, 0, BatchOptions{Codec: codec}, benchRecords(100))
}

func BenchmarkIterator(b *testing.B) {
	batch := benchBatch(b, None)
	payload, _ := batch.Payload(nil, 0)
	b.ReportAllocs()
	var r Record
	for b.Loop() {
		it := batch.Records(payload)
		for it.Next(&r) {
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
}

func BenchmarkBuilder(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			records := benchRecords(100)
			var bld Builder
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				bld.Reset(dst[:0], 0, BatchOptions{Codec: codec})
				for i := range records {
					bld.Add(records[i].Timestamp, records[i].Key, records[i].Value, nil)
				}
				dst = bld.Finish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	value := make([]byte, 100)
	var bld Builder
	dst := make([]byte, 0, 1<<20)
	b.ReportAllocs()
	n := 100
	for b.Loop() {
		if n == 100 {
			bld.Reset(dst, 0, BatchOptions{})
			n = 0
		}
		bld.Add(1700000000000+int64(n), nil, value, nil)
		n++
	}
}

func BenchmarkParseVerify(b *testing.B) {
	batch := benchBatch(b, None)
	b.SetBytes(int64(batch.Size()))
	b.ReportAllocs()
	for b.Loop() {
		got, err := Parse(batch.Bytes())
		if err != nil || got.Verify() != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPayload(b *testing.B) {
	for codec := Gzip; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			batch := benchBatch(b, codec)
			var dst []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = batch.Payload(dst, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(dst)))
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for codec := None; codec <= Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			batch := benchBatch(b, codec)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(&batch, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/record")
		})
	}
}
