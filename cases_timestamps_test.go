package varve_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

const tenYears = 10 * 365 * 24 * time.Hour

// A record dated far ahead keeps nothing alive, neither its own segment nor those
// behind it (KAFKA-6482, KAFKA-14991, redpanda-data/redpanda#9820): its segment
// goes when the time of its append is due.
func TestRetentionOfFarFutureTimestamps(t *testing.T) {
	for name, ahead := range map[string]func(now int64) int64{
		"ten years":   func(now int64) int64 { return now + tenYears.Milliseconds() },
		"microscale":  func(now int64) int64 { return now * 1000 }, // microseconds taken for milliseconds
		"end of time": func(int64) int64 { return math.MaxInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, background)
			p := r.one("segment.bytes=400", "retention.ms=3600000")
			r.publish(p, dated(ahead(r.now.Load()), "from the future"))
			for round := range 4 {
				for i := range 20 {
					r.publish(p, dated(r.now.Load(), "round %d record %d", round, i))
				}
				r.advance(50 * time.Minute)
				r.retain()
				if round == 0 && p.Start() != 0 {
					t.Fatalf("gone after 50 minutes: the start is %d", p.Start())
				}
				if round%2 == 1 {
					r.reopen()
					p = r.part("t", 0)
				}
			}
			r.advance(2 * time.Hour)
			r.retain()
			if p.Start() != 81 || p.End() != 81 {
				t.Errorf("from %d to %d, want all 81 records gone", p.Start(), p.End())
			}
		})
	}
	// With a limit set, such a record is refused at the door.
	r := newRig(t)
	p := r.one("message.timestamp.after.max.ms=3600000", "message.timestamp.before.max.ms=86400000")
	now := r.now.Load()
	for _, c := range []struct {
		ts int64
		ok bool
	}{
		{now, true}, {now + 3_600_000, true}, {now + 3_600_001, false}, {math.MaxInt64, false},
		{now - 86_400_000, true}, {now - 86_400_001, false}, {math.MinInt64, false}, {1, false},
		{record.NoTimestamp, true}, {0, true},
	} {
		_, err := p.Publish(context.Background(), text("fine"), dated(c.ts, "dated"))
		var refused *varve.RecordError
		if c.ok != (err == nil) || (!c.ok && (!errors.As(err, &refused) || refused.Index != 1)) {
			t.Errorf("dated %d with the clock at %d: %v, want refused: %t", c.ts, now, err, !c.ok)
			continue
		}
		if c.ok {
			r.note(p, p.End()-2, text("fine"), dated(c.ts, "dated"))
		}
		raw := batchOf(record.BatchOptions{}, dated(now, "fine"), dated(c.ts, "dated"))
		if c.ts == 0 {
			continue // in a finished batch 0 is a date, in 1970
		}
		if off, err := p.PublishBatch(context.Background(), raw); c.ok != (err == nil) {
			t.Errorf("in a batch, dated %d with the clock at %d: %v, want refused: %t", c.ts, now, err, !c.ok)
		} else if c.ok {
			r.note(p, off, dated(now, "fine"), dated(c.ts, "dated"))
		}
	}
}

// batchOf is a finished batch at offset 0.
func batchOf(o record.BatchOptions, recs ...varve.Record) []byte {
	var b record.Builder
	b.Reset(nil, 0, o)
	for _, rec := range recs {
		b.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
	}
	return b.Finish()
}

// Timestamps at the ends of the scale, missing ones and falling ones: nothing
// overflows, the order is that of the offsets, and retention stays sane
// (redpanda-data/redpanda#4035, #4010).
func TestExtremeTimestampsAreOnlyData(t *testing.T) {
	extremes := []int64{math.MaxInt64, math.MinInt64, -1, 1, math.MinInt64 + 1, -2, math.MaxInt64 - 1}
	for name, order := range map[string]func([]int64){
		"mixed": func([]int64) {}, "rising": slices.Sort[[]int64],
		"falling": func(s []int64) { slices.Sort(s); slices.Reverse(s) },
	} {
		for _, perBatch := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d", name, perBatch), func(t *testing.T) {
				list := slices.Clone(extremes)
				order(list)
				r := newRig(t, background)
				p := r.one("segment.bytes=300", "retention.ms=3600000", "segment.ms=3600000")
				var want []int64
				for range 5 {
					for part := range slices.Chunk(list, perBatch) {
						var batch []varve.Record
						for _, ts := range part {
							batch = append(batch, dated(ts, "%d", ts))
						}
						r.publish(p, batch...)
						want = append(want, part...)
					}
				}
				var got []int64
				for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
					got = append(got, rec.Timestamp)
				}
				if !slices.Equal(got, want) {
					t.Errorf("read the timestamps %d, published %d", got, want)
				}
				if n := len(p.Stats().Segments); n > len(want) {
					t.Errorf("%d records are in %d segments", len(want), n)
				}
				r.retain() // old ones may go at once, but never with an error
				r.advance(30 * time.Minute)
				r.reopen()
				r.retain()
				r.advance(90 * time.Minute)
				r.retain()
				if p := r.part("t", 0); p.Start() != p.End() || p.End() != varve.Offset(len(want)) {
					t.Errorf("two hours later there is [%d, %d), want nothing below %d", p.Start(), p.End(), len(want))
				}
			})
		}
	}
}

// Replaying old data rolls by the span of the records' own times, not by their
// distance from the clock: one roll at the step, not thousands (KAFKA-4099).
func TestReplayOfOldRecordsRollsOnce(t *testing.T) {
	r := newRig(t, background)
	p := r.one("segment.ms=3600000", "retention.ms=-1", "durability=os")
	const n = 10_000
	then := r.now.Load() - 2*365*24*time.Hour.Milliseconds()
	publish := func(from int64, count int) {
		t.Helper()
		for i := range count {
			ts := from + int64(i)*600_000/int64(count)
			r.publish(p, dated(ts, "%d", ts))
		}
	}
	publish(then, n)
	r.retain()
	if got := len(p.Stats().Segments); got != 1 {
		t.Errorf("%d batches that span ten minutes are in %d segments, want 1", n, got)
	}
	publish(then+3*time.Hour.Milliseconds(), 100)
	if got := len(p.Stats().Segments); got != 2 {
		t.Errorf("a step of three hours makes %d segments, want 2", got)
	}
	// Falling back again is no reason to roll, nor is a restart.
	publish(then, 100)
	r.reopen()
	p = r.part("t", 0)
	publish(then+3*time.Hour.Milliseconds(), 100)
	if got := len(p.Stats().Segments); got != 2 {
		t.Errorf("going back in time makes %d segments, want 2", got)
	}
	// The other reason: the time since the first append.
	r.advance(61 * time.Minute)
	publish(then+3*time.Hour.Milliseconds(), 1)
	if got := len(p.Stats().Segments); got != 3 {
		t.Errorf("an hour after the first append there are %d segments, want 3", got)
	}
}

// Within one batch of work too: a roll by age falls between two batches that are
// written together.
func TestRollByAgeInsideAWrite(t *testing.T) {
	r := newRig(t, background)
	p := r.one("segment.ms=1000", "retention.ms=-1", "max.message.bytes=100") // one record a batch
	pub := p.Topic().Publisher(varve.PublisherOptions{})
	const n = 50
	offs := make([]varve.Offset, n)
	for i := range n {
		err := pub.PublishAsync(context.Background(), dated(int64(1+i*400), "%d", i), func(pl varve.Place, err error) {
			offs[i] = pl.Offset
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := pub.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r.note(p, offs[i], dated(int64(1+i*400), "%d", i))
	}
	recs := collect(t, p.Records(context.Background(), varve.Earliest()))
	for _, s := range p.Stats().Segments {
		var low, high int64 = math.MaxInt64, math.MinInt64
		for _, rec := range recs {
			if rec.Offset >= s.Base && rec.Offset < s.Next {
				low, high = min(low, rec.Timestamp), max(high, rec.Timestamp)
			}
		}
		if s.Next > s.Base && high-low > 1000+400 {
			t.Errorf("segment %d spans %d ms of record times, limit 1000 and one batch", s.Base, high-low)
		}
	}
}

// The largest timestamp of a batch is taken from its records, whatever its header
// says; lookups and the time index go by it (redpanda-data/redpanda#25200, #27529).
func TestMaxTimestampIsRecomputed(t *testing.T) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		for name, claim := range map[string]int64{"none": -1, "the first": 1000, "too large": math.MaxInt64, "right": 3000} {
			t.Run(codec.String()+"/"+name, func(t *testing.T) {
				r := newRig(t, background)
				p := r.one("retention.ms=-1", "segment.bytes=300", "index.interval.bytes=1")
				recs := []varve.Record{dated(1000, "a"), dated(2000, "b"), dated(3000, "c")}
				raw := batchOf(record.BatchOptions{Codec: codec}, recs...)
				record.SetMaxTimestamp(raw, claim)
				off, err := p.PublishBatch(context.Background(), raw)
				if err != nil {
					t.Fatal(err)
				}
				r.note(p, off, recs...)
				rd, err := p.Reader(varve.Earliest())
				if err != nil {
					t.Fatal(err)
				}
				b, err := rd.NextBatch(context.Background())
				if err != nil || b.MaxTimestamp != 3000 || b.Verify() != nil {
					t.Errorf("stored with the largest timestamp %d (%v, %v), want 3000", b.MaxTimestamp, err, b.Verify())
				}
				for ask, want := range map[int64]varve.Offset{1000: 0, 1001: 1, 3000: 2, 3001: 3} {
					if got := lookUp(t, p, ask); got != want {
						t.Errorf("at or after %d: offset %d, want %d", ask, got, want)
					}
				}
				r.publish(p, dated(1, "%s", strings.Repeat("x", 300))) // rolls
				r.reopen()                                             // and finishes
				if got := lastTimeEntry(t, r.disk, "topics/t/0/00000000000000000000.timeindex"); got != 3000 {
					t.Errorf("the time index ends with %d, want 3000", got)
				}
				if st := r.part("t", 0).Stats(); st.Segments[0].MaxTimestamp != 3000 {
					t.Errorf("the segment's largest timestamp is %d, want 3000", st.Segments[0].MaxTimestamp)
				}
			})
		}
	}
}

// lastTimeEntry is the timestamp of the last entry of a time index.
func lastTimeEntry(t testing.TB, disk *vfs.Mem, name string) int64 {
	t.Helper()
	data, err := disk.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) == 0 || len(data)%12 != 0 {
		t.Fatalf("%s has %d bytes", name, len(data))
	}
	return int64(binary.BigEndian.Uint64(data[len(data)-12:]))
}

// On a topic of append time every record has the time of the append, in the
// header of its batch too; what clients dated influences neither lookup nor
// retention (redpanda-data/redpanda#626, #11922).
func TestAppendTimeReplacesEveryTimestamp(t *testing.T) {
	r := newRig(t, background)
	p := r.one("message.timestamp.type=LogAppendTime", "retention.ms=3600000", "segment.bytes=500",
		"message.timestamp.after.max.ms=1000", "message.timestamp.before.max.ms=1000")
	y2100, y1970 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), int64(1)
	first := r.now.Load()
	for i, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		r.advance(time.Minute)
		now := r.now.Load()
		recs := []varve.Record{dated(y2100, "a%d", i), dated(y1970, "b%d", i), dated(math.MinInt64, "c%d", i)}
		off, err := p.PublishBatch(context.Background(), batchOf(record.BatchOptions{Codec: codec}, recs...))
		if err != nil {
			t.Fatal(err)
		}
		for k := range recs {
			recs[k].Timestamp = now
		}
		r.note(p, off, recs...)
		r.publishStamped(p, dated(y2100, "x%d", i), dated(y1970, "y%d", i))
		rd, err := p.Reader(varve.At(off))
		if err != nil {
			t.Fatal(err)
		}
		b, err := rd.NextBatch(context.Background())
		if err != nil || !b.Attributes.LogAppendTime() || b.MaxTimestamp != now || b.Verify() != nil || b.Attributes.Codec() != codec {
			t.Errorf("%s: stored as %+v, %v", codec, b.Batch, err)
		}
	}
	for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
		if rec.Timestamp <= first || rec.Timestamp > r.now.Load() {
			t.Errorf("offset %d is dated %d", rec.Offset, rec.Timestamp)
		}
	}
	if got := lookUp(t, p, r.now.Load()+1); got != p.End() {
		t.Errorf("after now: offset %d, want the end", got)
	}
	if got := lookUp(t, p, first+1); got != 0 {
		t.Errorf("from the start: offset %d, want 0", got)
	}
	r.retain()
	if p.Start() != 0 {
		t.Errorf("retention went by the dates of clients: the start is %d", p.Start())
	}
	r.advance(2 * time.Hour)
	r.retain()
	if p.Start() != p.End() {
		t.Errorf("[%d, %d) is left after two hours", p.Start(), p.End())
	}
	if _, err := p.PublishBatch(context.Background(), stamped(t)); err == nil {
		t.Error("a batch that sets the time of the append itself was taken")
	}
}

func stamped(t testing.TB) []byte {
	t.Helper()
	raw := batchOf(record.BatchOptions{}, dated(5, "a"))
	record.StampAppendTime(raw, 77)
	return raw
}

// The clock may go back while the engine runs, over a clean stop, or over a
// crash: times of appends never do (slatedb/slatedb#323).
func TestAppendTimeNeverGoesBack(t *testing.T) {
	r := newRig(t, background)
	p := r.one("message.timestamp.type=LogAppendTime", "retention.ms=-1", "segment.bytes=200")
	rng := rand.New(rand.NewPCG(8, 8))
	high := r.now.Load()
	for i := range 60 {
		off, err := p.Publish(context.Background(), text("%d", i))
		if err != nil {
			t.Fatal(err)
		}
		rd, err := p.Reader(varve.At(off))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := rd.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if rec.Timestamp < high {
			t.Fatalf("record %d is stamped %d ms before the one in front of it", i, high-rec.Timestamp)
		}
		high = rec.Timestamp
		r.note(p, off, dated(rec.Timestamp, "%d", i))
		switch i % 6 {
		case 1:
			r.reopen()
		case 3:
			r.kill()
		case 5:
			r.cut(vfs.CrashOptions{Seed: uint64(i)})
		}
		p = r.part("t", 0)
		r.now.Add(-rng.Int64N(3_600_000))
		if rng.IntN(4) == 0 {
			r.now.Store(high + rng.Int64N(1000))
		}
	}
}

// A record without a timestamp gets the time of its append, which is never before
// that of an append in front of it, whatever the size of what is published together.
func TestTimesNeverGoBackWithTheClock(t *testing.T) {
	r := newRig(t, background)
	for _, codec := range []string{"uncompressed", "zstd"} {
		topic := r.topic(codec, 1, "retention.ms=-1", "compression.type="+codec)
		p, err := topic.Partition(0)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range []int{10, 20_000, 10, 100_000, 300_000, 10} {
			r.publish(p, varve.Record{Value: noise(i, size)})
			r.advance(-time.Hour)
		}
		high := int64(0)
		for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
			if rec.Timestamp < high {
				t.Errorf("%s: record %d is stamped %d ms before the one in front of it", codec, rec.Offset, high-rec.Timestamp)
			}
			high = rec.Timestamp
		}
		if _, err := p.Trim(p.End()); err != nil { // no segment says any more when that was
			t.Fatal(err)
		}
		r.reopen()
		p = r.part(codec, 0)
		off := r.publish(p, text("after a start"))
		for _, rec := range collect(t, p.Records(context.Background(), varve.At(off))) {
			if rec.Timestamp < high {
				t.Errorf("%s: after a start a record is stamped %d ms before those that are gone", codec, high-rec.Timestamp)
			}
		}
	}
}

// The limits on timestamps hold for every record of a finished batch. Those without
// a timestamp (-1) are let through, as by Kafka; 0 is one, of 1970.
func TestTimestampLimitsHoldInFinishedBatches(t *testing.T) {
	r := newRig(t, background)
	p := r.one("retention.ms=-1", "message.timestamp.before.max.ms=1000", "message.timestamp.after.max.ms=1000")
	now := r.now.Load()
	for _, c := range []struct {
		times []int64
		ok    bool
	}{
		{[]int64{now}, true},
		{[]int64{-1}, true},
		{[]int64{-1, now, -1}, true},
		{[]int64{now - 1000, now + 1000}, true},
		{[]int64{0}, false},
		{[]int64{0, now}, false},
		{[]int64{-1, 5, now}, false},
		{[]int64{now, -1, now - 1001}, false},
		{[]int64{now, now + 1001, -1}, false},
		{[]int64{-2, now}, false},
	} {
		var b record.Builder
		b.Reset(nil, 0, record.BatchOptions{})
		var recs []varve.Record
		for _, ts := range c.times {
			b.Add(ts, nil, []byte("x"), nil)
			recs = append(recs, dated(ts, "x"))
		}
		end := p.End()
		off, err := p.PublishBatch(context.Background(), b.Finish())
		if (err == nil) != c.ok {
			t.Errorf("%v: %v", c.times, err)
		}
		if err == nil {
			r.note(p, off, recs...)
		}
		if !c.ok && p.End() != end {
			t.Errorf("%v: something was stored", c.times)
		}
	}
}
