package varve_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// Bytes of a batch header that its checksum does not cover and the log fills in.
const (
	baseOffsetAt  = 0
	lengthAt      = 8
	leaderEpochAt = 12
	crcAt         = 17
	attributesAt  = 21
	recordsAt     = record.BatchOverhead
)

// refused checks that a finished batch is not taken and leaves nothing.
func (r *rig) refused(p *varve.Partition, what string, raw []byte) {
	r.t.Helper()
	before, end := p.Stats().Bytes, p.LogEnd()
	off, err := p.PublishBatch(context.Background(), raw)
	if err == nil {
		r.t.Errorf("%s: taken, at %d", what, off)
	}
	if off != -1 && err != nil {
		r.t.Errorf("%s: offset %d with the error %v", what, off, err)
	}
	if p.Stats().Bytes != before || p.LogEnd() != end {
		r.t.Errorf("%s: something was stored: %v", what, err)
	}
}

// sealed makes the checksum of a batch right.
func sealed(raw []byte) []byte {
	raw = slices.Clone(raw)
	binary.BigEndian.PutUint32(raw[crcAt:], crc32.Checksum(raw[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// Only the part that the checksum covers counts, and all of it does: any flipped
// bit of it is refused; base offset and leader epoch are the log's to fill in
// (KAFKA-8729).
func TestFinishedBatchWithAFlippedBit(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	recs := []varve.Record{dated(1000, "first"), dated(1001, "second")}
	raw := batchOf(record.BatchOptions{}, recs...)
	for bit := range 8 * len(raw) {
		flipped := slices.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		switch at := bit / 8; {
		case at < lengthAt && flipped[baseOffsetAt]&0x80 == 0, at >= leaderEpochAt && at < leaderEpochAt+4:
			off, err := p.PublishBatch(context.Background(), flipped)
			if err != nil {
				t.Fatalf("bit %d: %v", bit, err)
			}
			r.note(p, off, recs...)
			rd, err := p.Reader(varve.At(off))
			if err != nil {
				t.Fatal(err)
			}
			b, err := rd.NextBatch(context.Background())
			if err != nil || b.BaseOffset != off || b.LeaderEpoch != p.Stats().Epoch || b.Verify() != nil ||
				!bytes.Equal(b.Bytes()[leaderEpochAt+4:], raw[leaderEpochAt+4:]) {
				t.Errorf("bit %d: stored as %+v, %v", bit, b.Batch, err)
			}
		default:
			r.refused(p, "flipped bit", flipped)
		}
	}
}

// Exactly one batch at a time, all of it (KAFKA-8428, KAFKA-6559): two, none, a
// part, one with bytes behind it are refused whole.
func TestFinishedBatchIsExactlyOne(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	a, b := batchOf(record.BatchOptions{}, dated(1, "a"), dated(2, "b")), batchOf(record.BatchOptions{}, dated(3, "c"))
	r.refused(p, "nil", nil)
	r.refused(p, "empty", []byte{})
	r.refused(p, "two batches", slices.Concat(a, b))
	r.refused(p, "a byte behind", append(slices.Clone(a), 0))
	for n := range len(a) {
		r.refused(p, "a prefix", a[:n])
	}
	r.refused(p, "zeros", make([]byte, 1000))
	for _, magic := range []byte{0, 1, 3, 255} {
		old := slices.Clone(a)
		old[16] = magic
		r.refused(p, "another magic", old)
	}
	none := slices.Clone(b[:recordsAt]) // a header that says there are no records
	binary.BigEndian.PutUint32(none[lengthAt:], recordsAt-12)
	binary.BigEndian.PutUint32(none[57:], 0)
	r.refused(p, "no records", sealed(none))
	for _, length := range []int32{math.MinInt32, -1, 0, 1, 48, 49, math.MaxInt32} {
		bad := slices.Clone(a)
		binary.BigEndian.PutUint32(bad[lengthAt:], uint32(length))
		r.refused(p, "a wrong length", bad)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if off, err := p.PublishBatch(gone, a); !errors.Is(err, context.Canceled) || off != -1 || p.LogEnd() != 0 {
		t.Errorf("with a context that had ended: %d, %v", off, err)
	}
}

// The counts of a batch have to agree with its records.
func TestFinishedBatchThatMiscounts(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Zstd} {
		raw := batchOf(record.BatchOptions{Codec: codec}, dated(1, "a"), dated(2, "b"), dated(3, "c"))
		for _, c := range []struct {
			at     int
			values []int32
		}{{23, []int32{-1, 0, 1, 3, math.MaxInt32, math.MinInt32}}, {57, []int32{-1, 0, 1, 2, 4, math.MaxInt32, math.MinInt32}}} {
			for _, v := range c.values {
				bad := slices.Clone(raw)
				binary.BigEndian.PutUint32(bad[c.at:], uint32(v))
				r.refused(p, "a wrong count", sealed(bad))
			}
		}
		both := slices.Clone(raw)
		binary.BigEndian.PutUint32(both[23:], 3)
		binary.BigEndian.PutUint32(both[57:], 4)
		r.refused(p, "a record too few", sealed(both))
	}
}

// Codecs 5 to 7 exist in no version of the format: never stored. A codec that is
// named and not used is damage.
func TestFinishedBatchOfAnUnknownCodec(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	raw := batchOf(record.BatchOptions{}, dated(1, "a"))
	for codec := byte(1); codec <= 7; codec++ {
		bad := slices.Clone(raw)
		bad[attributesAt+1] = codec
		r.refused(p, "records that are not compressed as they say", sealed(bad))
	}
}

// A claim is never believed before it is checked (segmentio/kafka-go#882): header
// counts and lengths that are negative, null or beyond the end cost no memory.
func TestFinishedBatchWithImpossibleHeaders(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	varint := func(v int64) []byte { return binary.AppendVarint(nil, v) }
	build := func(tail ...[]byte) []byte {
		body := append([]byte{0, 0, 0, 1, 1}, slices.Concat(tail...)...) // attributes, deltas, null key, null value
		payload := slices.Concat(varint(int64(len(body))), body)
		raw := slices.Concat(batchOf(record.BatchOptions{}, dated(1, ""))[:recordsAt], payload)
		binary.BigEndian.PutUint32(raw[lengthAt:], uint32(len(raw)-12))
		return sealed(raw)
	}
	fine := build(varint(1), varint(1), []byte("k"), varint(-1))
	if off, err := p.PublishBatch(context.Background(), fine); err != nil {
		t.Fatalf("a batch made in the same way, with nothing wrong: %v", err)
	} else {
		r.note(p, off, varve.Record{Timestamp: 1, Headers: []varve.Header{{Key: "k"}}})
	}
	bad := [][]byte{
		build(varint(-1)), build(varint(math.MaxInt32)), build(varint(math.MinInt32)), build(varint(math.MaxInt64)),
		build(varint(2), varint(1), []byte("k"), varint(-1)),
		build(varint(1), varint(-1), varint(-1)), build(varint(1), varint(math.MinInt32), varint(-1)),
		build(varint(1), varint(100), []byte("k")), build(varint(1), varint(math.MaxInt32), []byte("k"), varint(-1)),
		build(varint(1), varint(1), []byte("k"), varint(5)), build(varint(1), varint(1), []byte("k"), varint(-2)),
		build(varint(1), varint(1), []byte("k"), varint(math.MaxInt32)), build(varint(0), []byte("more")), build(),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 100
	for range rounds {
		for _, raw := range bad {
			r.refused(p, "impossible headers", raw)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(rounds*len(bad)); each > 64<<10 && !raceDetector {
		t.Errorf("refusing a batch of %d bytes allocates %d", len(fine), each)
	}
}

// What a codec makes of little may be much: it is bounded, and refused.
func TestFinishedBatchThatInflatesBeyondBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compresses 300 MB, which takes seconds and gigabytes; make test runs it")
	}
	r := newRig(t)
	p := r.one("retention.ms=-1", "max.message.bytes=1048576")
	raw := batchOf(record.BatchOptions{Codec: record.Zstd}, varve.Record{Timestamp: 1, Value: make([]byte, 300<<20)})
	if len(raw) > 1<<20 {
		t.Fatalf("%d bytes are too many to get past the limit", len(raw))
	}
	r.refused(p, "inflates to 300 MB", raw)
}

// Control batches are the log's own, and a client forges none (KAFKA-14916);
// the bits and numbers of an idempotent or transactional producer are kept.
func TestFinishedBatchOfAProducer(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	producer := record.BatchOptions{HasProducer: true, ProducerID: 77, ProducerEpoch: 3, BaseSequence: 5}
	control, noID := producer, record.BatchOptions{Transactional: true}
	control.Control, control.Transactional = true, true
	r.refused(p, "control batch", batchOf(control, dated(1, "commit")))
	r.refused(p, "control batch of nobody", batchOf(record.BatchOptions{Control: true}, dated(1, "commit")))
	r.refused(p, "transaction without a producer", batchOf(noID, dated(1, "a")))
	for _, o := range []record.BatchOptions{
		{HasProducer: true, ProducerID: -2}, {HasProducer: true, ProducerID: 1, ProducerEpoch: -1}, {HasProducer: true, ProducerID: 1, BaseSequence: -1},
	} {
		r.refused(p, "producer that cannot be", batchOf(o, dated(1, "a")))
	}
	for _, setting := range []string{"producer", "uncompressed", "zstd"} {
		if err := p.Topic().Alter(map[string]string{"compression.type": setting}); err != nil {
			t.Fatal(err)
		}
		for _, o := range []record.BatchOptions{producer, {HasProducer: true, ProducerID: 1, Transactional: true, Codec: record.LZ4}} {
			recs := []varve.Record{dated(5, "a"), {Timestamp: 6, Key: []byte("k"), Headers: []varve.Header{{Key: "h"}}}}
			off, err := p.PublishBatch(context.Background(), batchOf(o, recs...))
			if err != nil {
				t.Fatal(err)
			}
			r.note(p, off, recs...)
			rd, err := p.Reader(varve.At(off))
			if err != nil {
				t.Fatal(err)
			}
			b, err := rd.NextBatch(context.Background())
			if err != nil || b.ProducerID != o.ProducerID || b.ProducerEpoch != o.ProducerEpoch || b.BaseSequence != o.BaseSequence ||
				b.Attributes.Transactional() != o.Transactional || b.Attributes.Control() {
				t.Errorf("%s: %+v is stored as %+v, %v", setting, o, b.Batch, err)
			}
			want := o.Codec
			if setting != "producer" {
				want = map[string]record.Codec{"uncompressed": record.None, "zstd": record.Zstd}[setting]
			}
			if b.Attributes.Codec() != want {
				t.Errorf("compression.type=%s: stored with %s, want %s", setting, b.Attributes.Codec(), want)
			}
		}
	}
}

// The caller may use its bytes again as soon as PublishBatch has returned, and
// what is stored is what it gave, byte for byte, from the checksum on.
func TestFinishedBatchIsCopiedAndStoredAsItCame(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1", "durability=os")
	for i, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		recs := []varve.Record{dated(int64(i), "%s", noise(i, 300)), dated(int64(i), "b")}
		raw := batchOf(record.BatchOptions{Codec: codec}, recs...)
		right := slices.Clone(raw)
		record.SetMaxTimestamp(raw, 1<<40) // which the log puts right, in its own copy
		given := slices.Clone(raw)
		off, err := p.PublishBatch(context.Background(), raw)
		if err != nil {
			t.Fatal(err)
		}
		// Publishes that come after do not write into the caller's bytes either.
		for k := range 8 {
			rec := dated(9, "%s", noise(k, 100_000))
			r.publish(p, rec)
		}
		if !bytes.Equal(raw, given) {
			t.Errorf("%s: the caller's bytes have changed", codec)
		}
		clear(raw)
		recs[0].Timestamp, recs[1].Timestamp = int64(i), int64(i)
		rd, err := p.Reader(varve.At(off + 1)) // inside the batch: all of it is handed out
		if err != nil {
			t.Fatal(err)
		}
		b, err := rd.NextBatch(context.Background())
		if err != nil || b.BaseOffset != off || !bytes.Equal(b.Bytes()[leaderEpochAt+4:], right[leaderEpochAt+4:]) {
			t.Errorf("%s: stored is\n%x\ngiven was\n%x", codec, b.Bytes(), right)
		}
		if rd.Offset(0) != off+2 {
			t.Errorf("%s: the reader goes on at %d, want %d", codec, rd.Offset(0), off+2)
		}
		rec, err := func() (varve.Record, error) {
			rd, err := p.Reader(varve.At(off + 1))
			if err != nil {
				return varve.Record{}, err
			}
			return rd.Next(context.Background())
		}()
		if err != nil || rec.Offset != off+1 || string(rec.Value) != "b" {
			t.Errorf("%s: inside the batch: %s, %v", codec, recordText(rec), err)
		}
		if i == 0 {
			recs[0].Timestamp = 0
		}
		r.note(p, off, recs...)
	}
}

func batchOfText(recs ...varve.Record) []byte { return batchOf(record.BatchOptions{}, recs...) }
