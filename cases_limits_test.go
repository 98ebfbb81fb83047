package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// batchSize is the size of a batch of one record with a value of n bytes and no
// timestamp of its own, as it is stored.
func batchSize(n int) int {
	return record.BatchOverhead + int(record.RecordSize(0, 0, nil, make([]byte, n), nil))
}

// valueFor is the length of the value that makes such a batch size bytes long.
func valueFor(t testing.TB, size int) int {
	t.Helper()
	for n := max(size-record.BatchOverhead-20, 0); n <= size; n++ {
		if batchSize(n) == size {
			return n
		}
	}
	t.Fatalf("no batch of one record has %d bytes", size)
	return 0
}

// One limit for writing and reading (narwhal#250, etcd-io/etcd ccf477d12): what
// is taken can be read after a restart; one byte more is refused before anything
// is written. It is the stored size that counts, the 12 bytes in front of what
// the length field counts included (redpanda-data/redpanda#6298).
func TestBatchSizeLimitIsExact(t *testing.T) {
	for _, limit := range []int{100, 1000, 70_000, 1 << 20} {
		t.Run(strconv.Itoa(limit), func(t *testing.T) {
			r := newRig(t)
			p := r.one("max.message.bytes="+strconv.Itoa(limit), "retention.ms=-1")
			ways := map[string]func(rec varve.Record) error{
				"publish": func(rec varve.Record) error {
					off, err := p.Publish(context.Background(), rec)
					if err == nil {
						r.note(p, off, rec)
					}
					return err
				},
				"async": func(rec varve.Record) error {
					pub := p.Topic().Publisher(varve.PublisherOptions{})
					var off varve.Offset
					err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) { off = pl.Offset })
					if err == nil {
						err = pub.Flush(context.Background())
					}
					if err == nil {
						r.note(p, off, rec)
					}
					return err
				},
				"batch": func(rec varve.Record) error {
					rec.Timestamp = r.now.Load()
					off, err := p.PublishBatch(context.Background(), batchOf(record.BatchOptions{}, rec))
					if err == nil {
						r.note(p, off, rec)
					}
					return err
				},
			}
			for way, publish := range ways {
				for size := limit - 1; size <= limit+2; size++ {
					before, end := p.Stats().Bytes, p.End()
					err := publish(varve.Record{Value: noise(size, valueFor(t, size))})
					var large *varve.TooLargeError
					switch {
					case size <= limit && err != nil:
						t.Errorf("%s of %d bytes: %v", way, size, err)
					case size <= limit && p.Stats().Bytes != before+int64(size):
						t.Errorf("%s of %d bytes took %d", way, size, p.Stats().Bytes-before)
					case size > limit && (!errors.As(err, &large) || large.Size != size || large.Limit != limit):
						t.Errorf("%s of %d bytes: %v, want a TooLargeError", way, size, err)
					case size > limit && (p.Stats().Bytes != before || p.End() != end || p.LogEnd() != end):
						t.Errorf("%s of %d bytes was refused and left something", way, size)
					}
				}
			}
			// Far over the limit, and far under it once it is compressed.
			squeezed := varve.Record{Value: make([]byte, 20*limit)}
			pub := p.Topic().Publisher(varve.PublisherOptions{Codec: "zstd"})
			if pl, err := pub.Publish(context.Background(), squeezed); err != nil {
				t.Errorf("compresses to less than the limit: %v", err)
			} else {
				r.note(p, pl.Offset, squeezed)
			}
			if _, err := p.Publish(context.Background(), squeezed); err == nil {
				t.Error("the same was taken uncompressed")
			}
		})
	}
}

// Small records that are published together share batches, none larger than the
// limit, and none of them is refused for the company it is in.
func TestMergedBatchesKeepToTheLimit(t *testing.T) {
	for _, codec := range allCodecs {
		r := newRig(t)
		p := r.one("max.message.bytes=700", "retention.ms=-1")
		pub := p.Topic().Publisher(varve.PublisherOptions{Codec: codec})
		for i := range 400 {
			rec := varve.Record{Value: noise(i, i*7%600)}
			err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) {
				if err == nil {
					r.note(p, pl.Offset, rec)
				} else if len(rec.Value) < 550 {
					t.Errorf("%s: %d bytes: %v", codec, len(rec.Value), err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		pub.Flush(context.Background())
		rd, err := p.Reader(varve.Earliest())
		if err != nil {
			t.Fatal(err)
		}
		for {
			b, ok, err := rd.PollBatch()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if b.Size() > 700 {
				t.Errorf("%s: a batch of %d bytes", codec, b.Size())
			}
		}
	}
}

// A record larger than a segment has one to itself (rabbitmq/ra#230,
// infinyon/fluvio#4195): it neither loops nor fails, before or after others.
func TestRecordLargerThanASegment(t *testing.T) {
	r := newRig(t)
	p := r.one("segment.bytes=200", "retention.ms=-1")
	for i, n := range []int{5000, 10, 5000, 5000, 10, 10, 300, 900_000, 1} {
		r.publish(p, varve.Record{Value: noise(i, n)})
	}
	for _, s := range p.Stats().Segments {
		if s.Bytes > 200 && s.Next-s.Base > 1 {
			t.Errorf("segment %d has %d bytes and %d records", s.Base, s.Bytes, s.Next-s.Base)
		}
	}
	r.kill()
	r.publish(r.part("t", 0), varve.Record{Value: noise(99, 4000)})
}

// A batch that is larger than what a reader asks for at once is returned all the
// same, whole (KIP-74, redpanda-data/redpanda#1532).
func TestBatchLargerThanEveryRead(t *testing.T) {
	for _, codec := range allCodecs {
		r := newRig(t)
		p := r.one("retention.ms=-1", "compression.type="+codecSetting(codec))
		big := varve.Record{Value: noise(7, 900<<10)}
		r.publish(p, text("small"))
		r.publish(p, big)
		r.publish(p, text("small"))
		for from := range varve.Offset(3) {
			rd, err := p.Reader(varve.At(from))
			if err != nil {
				t.Fatal(err)
			}
			for want := from; want < 3; want++ {
				b, err := rd.NextBatch(context.Background())
				if err != nil || b.BaseOffset != want || b.Verify() != nil {
					t.Fatalf("%s: batch at %d, want %d: %v", codec, b.BaseOffset, want, err)
				}
			}
		}
	}
}

// Records that just fit, just do not, and fit with a byte to spare, for every
// remainder of a segment (oxia-db/oxia#568): a segment is filled as far as whole
// batches go, and never passes its limit.
func TestRecordsAtEveryRemainderOfASegment(t *testing.T) {
	const limit = 1000
	least := batchSize(0)
	for rest := range 65 {
		for more := -1; more <= 1; more++ {
			// Segments of three kinds: filled to the brim by small ones, filled
			// up to rest bytes, and left with a remainder too small for a batch.
			sizes := []int{limit - rest - least, least, max(rest+more, least), limit - 2*least + more - rest, least, least, limit, least}
			r := newRig(t)
			p := r.one("segment.bytes="+strconv.Itoa(limit), "retention.ms=-1", "durability=os", "index.interval.bytes=1")
			var want []int64
			for i, size := range sizes {
				if n := len(want); n > 0 && want[n-1]+int64(size) <= limit {
					want[n-1] += int64(size)
				} else {
					want = append(want, int64(size))
				}
				r.publish(p, varve.Record{Value: noise(i, valueFor(t, size))})
			}
			var got []int64
			for _, s := range p.Stats().Segments {
				got = append(got, s.Bytes)
			}
			if !slices.Equal(got, want) {
				t.Errorf("batches of %v are in segments of %v, want %v", sizes, got, want)
			}
		}
	}
}

// Every limit near the ends of its type is either refused by name or right
// (KAFKA-1670, KAFKA-5584); none of them rolls or deletes for ever (KAFKA-6637).
func TestSettingsAtTheEndsOfTheirTypes(t *testing.T) {
	r := newRig(t)
	keys := map[string][2]int64{ // what is allowed
		"flush.ms": {1, math.MaxInt64}, "index.interval.bytes": {1, math.MaxInt32},
		"max.message.bytes": {record.BatchOverhead + 7, 256 << 20}, "message.timestamp.after.max.ms": {0, math.MaxInt64},
		"message.timestamp.before.max.ms": {0, math.MaxInt64}, "retention.bytes": {-1, math.MaxInt64},
		"retention.ms": {-1, math.MaxInt64}, "segment.bytes": {64, math.MaxInt32},
		"segment.index.bytes": {24, math.MaxInt32}, "segment.ms": {1, math.MaxInt64},
	}
	n := 0
	for key, allowed := range keys {
		for _, v := range []int64{
			math.MinInt64, math.MinInt32 - 1, math.MinInt32, -2, -1, 0, 1, math.MaxInt32 - 1, math.MaxInt32, math.MaxInt32 + 1,
			math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64 - 1, math.MaxInt64, allowed[0] - 1, allowed[0], allowed[1],
		} {
			if key == "flush.ms" && v == allowed[0]-1 {
				v = 0
			}
			name := fmt.Sprintf("t%d", n)
			n++
			topic, err := r.engine.CreateTopic(name, varve.TopicConfig{Config: config(key+"="+strconv.FormatInt(v, 10), "durability=os")})
			var wrong *varve.ConfigError
			if ok := v >= allowed[0] && v <= allowed[1]; !ok {
				if !errors.As(err, &wrong) || wrong.Key != key {
					t.Errorf("%s=%d: %v, want a ConfigError that names it", key, v, err)
				}
				continue
			} else if err != nil {
				t.Errorf("%s=%d: %v", key, v, err)
				continue
			}
			if key == "max.message.bytes" && v < 100 {
				continue
			}
			p := r.part(name, 0)
			for i := range 5 {
				r.publish(p, dated(r.now.Load(), "%d", i))
			}
			if segs := len(p.Stats().Segments); segs > 5 {
				t.Errorf("%s=%d: 5 records are in %d segments", key, v, segs)
			}
			_ = topic
		}
	}
	for range 3 {
		r.retain()
		r.advance(time.Second)
	}
	for key := range keys {
		for _, v := range []string{"", " 1", "1 ", "1e3", "0x10", "9223372036854775808", "-9223372036854775809", "abc", "1.5", "+", "NaN"} {
			var wrong *varve.ConfigError
			if _, err := r.engine.CreateTopic("bad", varve.TopicConfig{Config: map[string]string{key: v}}); !errors.As(err, &wrong) || wrong.Key != key {
				t.Errorf("%s=%q: %v", key, v, err)
			}
		}
	}
}

// Options that make no sense by themselves are taken for none, and never loop.
func TestOptionsBelowZero(t *testing.T) {
	r := newRig(t, func(r *rig) {
		r.opt = varve.Options{RetentionInterval: -1, MaxBytes: -1, OpenFiles: -1, CacheBytes: math.MinInt64}
	})
	p := r.one("compression.type=zstd", "segment.bytes=100")
	for i := range 20 {
		r.publish(p, text("%d", i))
	}
	r.retain()
	if p.Start() != 0 {
		t.Errorf("a negative budget deleted up to %d", p.Start())
	}
	r.close()
	r.opt.CacheBytes, r.opt.OpenFiles, r.opt.MaxBytes = 1, 1, math.MaxInt64
	r.open()
	r.retain()
	if n := len(collect(t, r.part("t", 0).Records(context.Background(), varve.Earliest()))); n != 20 {
		t.Errorf("%d records are readable, want 20", n)
	}
}

// Index positions are those of the stored bytes, whatever the codec
// (apache/iggy#2051): every offset is found through the index.
func TestIndexedReadsWithEveryCodec(t *testing.T) {
	for _, codec := range allCodecs {
		r := newRig(t)
		p := r.one("retention.ms=-1", "index.interval.bytes=1", "segment.bytes=4000", "compression.type="+codecSetting(codec))
		for i := range 120 {
			r.publish(p, text("record %d", i), varve.Record{Value: []byte(strings.Repeat("abc", i*3))}, varve.Record{Value: noise(i, i)})
		}
		for _, state := range []func(){func() {}, r.reopen, r.kill} {
			state()
			p = r.part("t", 0)
			for off := range p.End() {
				rd, err := p.Reader(varve.At(off))
				if err != nil {
					t.Fatal(err)
				}
				if rec, err := rd.Next(context.Background()); err != nil || rec.Offset != off {
					t.Fatalf("%s: at %d: offset %d, %v", codec, off, rec.Offset, err)
				}
			}
		}
	}
}

// Segments of the smallest size, of the smallest index and of every age: a roll
// for each batch and never one more.
func TestSmallestSegments(t *testing.T) {
	for _, settings := range [][]string{
		{"segment.bytes=64"}, {"segment.index.bytes=24", "index.interval.bytes=1"}, {"segment.ms=1"},
		{"segment.bytes=64", "segment.index.bytes=24", "index.interval.bytes=1", "segment.ms=1"},
	} {
		r := newRig(t, background)
		p := r.one(append(settings, "retention.ms=-1")...)
		for i := range 60 {
			r.publish(p, dated(int64(1+2*i), "%d", i))
			r.advance(2 * time.Millisecond)
			r.retain() // rolls by age, here between all records
		}
		bases := map[varve.Offset]bool{}
		for _, s := range p.Stats().Segments {
			if bases[s.Base] || (s.Next == s.Base && s.Base != p.End()) {
				t.Errorf("%v: segment [%d, %d)", settings, s.Base, s.Next)
			}
			bases[s.Base] = true
		}
		if len(bases) > 61 {
			t.Errorf("%v: 60 records are in %d segments", settings, len(bases))
		}
		for range 3 {
			r.advance(time.Hour)
			r.retain() // an empty active segment is not rolled again
		}
		if n := len(p.Stats().Segments); n != len(bases) && n != len(bases)+1 {
			t.Errorf("%v: %d segments became %d with nothing published", settings, len(bases), n)
		}
	}
}

// Null and empty are different, for keys, values and headers; headers keep their
// order and repeat (segmentio/kafka-go#340, tulios/kafkajs#1132, #1037); and the
// bytes are those that were published, in each way of publishing and reading.
func TestRecordsOfEveryShapeRoundTrip(t *testing.T) {
	many := make([]varve.Header, 200)
	for i := range many {
		many[i] = varve.Header{Key: fmt.Sprintf("header-%d", i%7), Value: noise(i, i)}
	}
	shapes := []varve.Record{
		{}, {Key: []byte{}}, {Value: []byte{}}, {Key: []byte{}, Value: []byte{}},
		{Key: []byte("k")}, {Key: []byte("k"), Value: []byte{}}, {Value: []byte("v")},
		{Headers: []varve.Header{{Key: "a"}}}, {Headers: []varve.Header{{Key: "", Value: nil}}},
		{Headers: []varve.Header{{Key: "a", Value: []byte{}}}}, {Headers: []varve.Header{}},
		{Key: []byte("k"), Value: []byte("v"), Headers: []varve.Header{
			{Key: "a", Value: []byte("1")}, {Key: "b"}, {Key: "a", Value: []byte("2")}, {Key: "a", Value: []byte("1")}, {Key: "\xff\x00"},
		}},
		{Headers: many}, {Key: noise(1, 70_000)}, {Key: []byte{0}, Value: []byte{0, 0, 0}}, {Timestamp: record.NoTimestamp},
		{Value: batchOf(record.BatchOptions{}, text("a batch in a value"))},
	}
	for _, codec := range allCodecs {
		r := newRig(t)
		p := r.one("retention.ms=-1")
		pub := p.Topic().Publisher(varve.PublisherOptions{Codec: codec})
		// One by one, all together, as a finished batch, asynchronously.
		for _, rec := range shapes {
			pl, err := pub.Publish(context.Background(), rec)
			if err != nil {
				t.Fatal(err)
			}
			r.note(p, pl.Offset, rec)
		}
		pls, err := pub.PublishAll(context.Background(), shapes)
		if err != nil {
			t.Fatal(err)
		}
		r.note(p, pls[0].Offset, shapes...)
		c, err := record.ParseCodec(codec)
		if err != nil {
			t.Fatal(err)
		}
		now := slices.Clone(shapes)
		for i := range now {
			now[i].Timestamp = 5
		}
		off, err := p.PublishBatch(context.Background(), batchOf(record.BatchOptions{Codec: c}, now...))
		if err != nil {
			t.Fatal(err)
		}
		r.note(p, off, now...)
		for _, rec := range shapes {
			if err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) { r.note(p, pl.Offset, rec) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := pub.Flush(context.Background()); err != nil {
			t.Fatal(err)
		}
		back := collect(t, p.Backward(context.Background(), varve.Latest()))
		slices.Reverse(back)
		for i, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
			if !equalRecords(rec, back[i]) {
				t.Errorf("%s: forward %s, backward %s", codec, recordText(rec), recordText(back[i]))
			}
		}
		if n := len(back); n != 4*len(shapes) {
			t.Errorf("%s: %d records, want %d", codec, n, 4*len(shapes))
		}
	}
}
