//go:build interop

package interop

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/varvelog/varve/record"
)

const (
	t0       int64 = 1_700_000_000_000
	producer int64 = 1<<32 + 3 // so that a halved field shows
)

var codecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}

// batchSpec is a batch as a test wants it: what goes into the Builder, and
// from that alone, what Kafka must read.
type batchSpec struct {
	name    string
	base    record.Offset
	options record.BatchOptions
	records []record.Record // their offsets are not looked at
}

func (s batchSpec) build(builder *record.Builder, dst []byte) []byte {
	builder.Reset(dst, s.base, s.options)
	for _, r := range s.records {
		builder.Add(r.Timestamp, r.Key, r.Value, r.Headers)
	}
	return builder.Finish()
}

func (s batchSpec) lastOffset() record.Offset {
	return s.base + record.Offset(len(s.records)) - 1
}

func (s batchSpec) maxTimestamp() int64 {
	if s.options.LogAppendTime {
		return s.options.AppendTime
	}
	largest := s.records[0].Timestamp
	for _, r := range s.records {
		largest = max(largest, r.Timestamp)
	}
	return largest
}

// want is the batch as Kafka must read it; of the built bytes it uses the
// length and, computed anew, the checksum.
func (s batchSpec) want(built []byte) batchJSON {
	o := s.options
	want := batchJSON{
		BaseOffset:      int64(s.base),
		Length:          int32(len(built) - record.LogOverhead),
		LeaderEpoch:     int32(o.Epoch),
		Magic:           2,
		CRC:             crc32.Checksum(built[21:], crc32.MakeTable(crc32.Castagnoli)),
		Attributes:      int16(o.Codec) | bit(o.LogAppendTime, 3) | bit(o.Transactional, 4) | bit(o.Control, 5),
		LastOffsetDelta: int32(len(s.records) - 1),
		BaseTimestamp:   s.records[0].Timestamp,
		MaxTimestamp:    s.maxTimestamp(),
		ProducerID:      -1,
		ProducerEpoch:   -1,
		BaseSequence:    -1,
		Count:           int32(len(s.records)),
		Codec:           o.Codec.String(),
		LogAppendTime:   o.LogAppendTime,
		Transactional:   o.Transactional,
		Control:         o.Control,
		Records:         make([]recordJSON, 0, len(s.records)),
	}
	if o.HasProducer {
		want.ProducerID, want.ProducerEpoch, want.BaseSequence = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	for i, r := range s.records {
		read := recordJSON{int64(s.base) + int64(i), r.Timestamp, r.Key, r.Value, make([]headerJSON, 0, len(r.Headers))}
		if o.LogAppendTime {
			read.Timestamp = o.AppendTime
		}
		for _, h := range r.Headers {
			read.Headers = append(read.Headers, headerJSON(h))
		}
		want.Records = append(want.Records, read)
	}
	return want
}

func bit(set bool, n int) int16 {
	if set {
		return 1 << n
	}
	return 0
}

// place gives the batches offsets that follow on from base.
func place(specs []batchSpec, base record.Offset) []batchSpec {
	placed := make([]batchSpec, len(specs))
	for i, spec := range specs {
		spec.base = base
		base = spec.lastOffset() + 1
		placed[i] = spec
	}
	return placed
}

// allSpecs is every codec with every shape of batch.
func allSpecs() []batchSpec {
	var specs []batchSpec
	for _, codec := range codecs {
		for _, spec := range append(shapes(), randomShapes(uint64(codec), 100)...) {
			spec.name = codec.String() + " " + spec.name
			spec.options.Codec = codec
			specs = append(specs, spec)
		}
	}
	return specs
}

func shapes() []batchSpec {
	idempotent := record.BatchOptions{HasProducer: true, ProducerID: producer, ProducerEpoch: 3, BaseSequence: 17}
	wrapping := record.BatchOptions{HasProducer: true, ProducerID: math.MaxInt64, ProducerEpoch: math.MaxInt16, BaseSequence: math.MaxInt32 - 4}
	transactional := idempotent
	transactional.Transactional = true
	marker := record.BatchOptions{HasProducer: true, ProducerID: producer, ProducerEpoch: 3, BaseSequence: -1, Transactional: true, Control: true}

	return []batchSpec{
		{name: "plain", records: plainRecords()},
		{name: "level 1", options: record.BatchOptions{Level: 1}, records: plainRecords()},
		{name: "level 9", options: record.BatchOptions{Level: 9}, records: plainRecords()},
		{name: "headers", records: headerRecords()},
		{name: "nulls", records: nullRecords()},
		{name: "one", records: plainRecords()[:1]},
		{name: "one empty", records: []record.Record{{Timestamp: t0}}},
		{name: "5000 records", records: manyRecords(5000)},
		{name: "large", records: []record.Record{{Timestamp: t0, Key: []byte("k"), Value: text(200_000, 7)}, {Timestamp: t0}}},
		{name: "large and incompressible", records: []record.Record{{Timestamp: t0, Value: noise(200_000, 7)}}},
		{name: "idempotent", options: idempotent, records: plainRecords()},
		{name: "sequence wraps", options: wrapping, records: plainRecords()},
		{name: "transactional", options: transactional, records: plainRecords()},
		{name: "abort marker", options: marker, records: []record.Record{markerRecord(0)}},
		{name: "commit marker", options: marker, records: []record.Record{markerRecord(1)}},
		{name: "log append time", options: record.BatchOptions{LogAppendTime: true, AppendTime: t0 + 1_000_000}, records: plainRecords()},
		{name: "epoch", options: record.BatchOptions{Epoch: math.MaxInt32}, records: plainRecords()},
		{name: "no epoch", options: record.BatchOptions{Epoch: -1}, records: plainRecords()},
		{name: "falling timestamps", records: stamped(t0, t0-1, t0-1_000_000, t0+1, 0)},
		{name: "no timestamps", records: stamped(-1, -1, -1)},
		{name: "negative timestamps", records: stamped(-5000, -4000, -6000, -2)},
		{name: "negative after positive", records: stamped(0, math.MinInt64, -2, math.MaxInt64, -1)},
		{name: "delta wraps up", records: stamped(math.MinInt64, math.MaxInt64, -1, 0, math.MinInt64+1)},
		{name: "delta wraps down", records: stamped(math.MaxInt64, math.MinInt64, -1, 0)},
	}
}

func plainRecords() []record.Record {
	var records []record.Record
	for i := range 10 {
		records = append(records, record.Record{
			Timestamp: t0 + int64(i)*250,
			Key:       []byte("key-" + strconv.Itoa(i%3)),
			Value:     text(20+13*i, uint64(i)),
		})
	}
	return records
}

func manyRecords(n int) []record.Record {
	records := make([]record.Record, n)
	for i := range records {
		records[i] = record.Record{Timestamp: t0 + int64(i), Key: []byte(strconv.Itoa(i)), Value: text(i%50, uint64(i))}
	}
	return records
}

func headerRecords() []record.Record {
	many := make([]record.Header, 200)
	for i := range many {
		many[i] = record.Header{Key: "h" + strconv.Itoa(i), Value: []byte(strconv.Itoa(i))}
	}
	of := func(headers ...record.Header) record.Record {
		return record.Record{Timestamp: t0, Key: []byte("k"), Value: []byte("v"), Headers: headers}
	}
	return []record.Record{
		of(),
		of(record.Header{Key: "null"}),
		of(record.Header{Key: "empty", Value: []byte{}}),
		of(record.Header{Value: []byte("x")}, record.Header{}, record.Header{Value: []byte{}}),
		of(record.Header{Key: "a", Value: []byte("1")}, record.Header{Key: "b", Value: []byte("2")},
			record.Header{Key: "a", Value: []byte("3")}, record.Header{Key: "a", Value: []byte("1")}),
		of(record.Header{Key: "schlüssel-鍵-🔑", Value: noise(256, 3)}),
		of(record.Header{Key: strings.Repeat("long", 100), Value: text(10_000, 4)}),
		of(many...),
		{Timestamp: t0, Headers: []record.Header{{Key: "tombstone", Value: []byte("yes")}}},
	}
}

func nullRecords() []record.Record {
	kinds := [][]byte{nil, {}, []byte("x")}
	var records []record.Record
	for _, key := range kinds {
		for _, value := range kinds {
			records = append(records, record.Record{Timestamp: t0, Key: key, Value: value})
		}
	}
	return records
}

func stamped(timestamps ...int64) []record.Record {
	records := make([]record.Record, len(timestamps))
	for i, ts := range timestamps {
		records[i] = record.Record{Timestamp: ts, Key: []byte{byte(i)}, Value: []byte("v")}
	}
	return records
}

// markerRecord is the record of a transaction marker: type 0 aborts, 1
// commits (Kafka's EndTransactionMarker, version 0).
func markerRecord(kind uint16) record.Record {
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, 7)
	return record.Record{Timestamp: t0, Key: key, Value: value}
}

// randomShapes are batches that nobody thought of; the same ones every time.
func randomShapes(seed uint64, n int) []batchSpec {
	random := rand.New(rand.NewPCG(seed, 2))
	specs := make([]batchSpec, n)
	for i := range specs {
		records := make([]record.Record, 1+random.IntN(30))
		for j := range records {
			records[j] = randomRecord(random)
		}
		specs[i] = batchSpec{name: "random " + strconv.Itoa(i), records: records}
	}
	return specs
}

func randomRecord(random *rand.Rand) record.Record {
	bytes := func() []byte {
		if random.IntN(4) == 0 {
			return nil
		}
		return noise(random.IntN(300), random.Uint64())
	}
	r := record.Record{Timestamp: t0 + random.Int64N(1<<20) - 1<<19, Key: bytes(), Value: bytes()}
	if random.IntN(5) == 0 {
		r.Timestamp = int64(random.Uint64())
	}
	for range random.IntN(4) {
		r.Headers = append(r.Headers, record.Header{Key: string(text(random.IntN(10), random.Uint64())), Value: bytes()})
	}
	return r
}

func noise(size int, seed uint64) []byte {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	data := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(data) // it never fails
	return data
}

// text compresses about as well as a log does.
func text(size int, seed uint64) []byte {
	words := strings.Fields("amber basin clay delta erosion fjord glacier humus isotope kettle lamina moraine outwash pollen")
	random := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(words[random.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()[:size:size]
}
