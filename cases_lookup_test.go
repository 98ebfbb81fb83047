package varve_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// firstDated is the answer of a lookup by time, by looking at every record.
func firstDated(recs []varve.Record, start, end varve.Offset, ts int64) varve.Offset {
	for _, rec := range recs {
		if rec.Offset >= start && rec.Offset < end && rec.Timestamp >= ts && rec.Timestamp != record.NoTimestamp {
			return rec.Offset
		}
	}
	return end
}

// lookUp asks for a time in milliseconds.
func lookUp(t testing.TB, p *varve.Partition, ts int64) varve.Offset {
	t.Helper()
	off, err := p.OffsetFor(context.Background(), time.UnixMilli(ts))
	if err != nil {
		t.Fatalf("look up %d: %v", ts, err)
	}
	return off
}

// askedTimes are the times worth asking for: each that occurs, those beside it,
// and the ends of the scale.
func askedTimes(recs []varve.Record) []int64 {
	asked := []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, rec := range recs {
		asked = append(asked, rec.Timestamp)
		if rec.Timestamp > math.MinInt64 && rec.Timestamp < math.MaxInt64 {
			asked = append(asked, rec.Timestamp-1, rec.Timestamp+1)
		}
	}
	slices.Sort(asked)
	return slices.Compact(asked)
}

// checkLookups holds every lookup against the scan of all that is there.
func checkLookups(t testing.TB, when string, p *varve.Partition, all []varve.Record) {
	t.Helper()
	for _, ts := range askedTimes(all) {
		if got, want := lookUp(t, p, ts), firstDated(all, p.Start(), p.End(), ts); got != want {
			t.Errorf("%s: the first record at or after %d is at %d, the lookup says %d", when, ts, want, got)
		}
	}
}

// shapes are ways in which timestamps may follow each other; i counts records.
// 0 would become the time of the append, so no shape gives it.
var shapes = map[string]func(rng *rand.Rand, i int) int64{
	"rising":     func(_ *rand.Rand, i int) int64 { return 1_000_000 + int64(i)*10 },
	"equal":      func(*rand.Rand, int) int64 { return 1_700_000_000_000 },
	"steps":      func(_ *rand.Rand, i int) int64 { return 1_000_000 + int64(i/40)*100 },
	"falling":    func(_ *rand.Rand, i int) int64 { return 1_000_000 - int64(i) },
	"random":     func(rng *rand.Rand, _ int) int64 { return 1 + rng.Int64N(5000) },
	"negative":   func(rng *rand.Rand, _ int) int64 { return -2 - rng.Int64N(5000) },
	"none":       func(*rand.Rand, int) int64 { return record.NoTimestamp },
	"far future": func(rng *rand.Rand, i int) int64 { return farFuture(rng, i) },
	"mixed": func(rng *rand.Rand, i int) int64 {
		return []int64{record.NoTimestamp, -7, 5, 900 + int64(i), math.MaxInt64, math.MinInt64, 1 + rng.Int64N(1000)}[rng.IntN(7)]
	},
	"extremes": func(rng *rand.Rand, _ int) int64 {
		return []int64{math.MinInt64, math.MinInt64 + 1, -1, 1, math.MaxInt64 - 1, math.MaxInt64}[rng.IntN(6)]
	},
}

func farFuture(rng *rand.Rand, i int) int64 {
	if rng.IntN(60) == 0 {
		return math.MaxInt64 - rng.Int64N(3)
	}
	return 1_000_000 + int64(i)
}

var allCodecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// The answer is the lowest offset dated at or after the time, whatever order the
// timestamps are in, in a batch (KAFKA-16310, KAFKA-16342), over batches and over
// segments (redpanda-data/redpanda#6606), with every codec, index spacing and
// state of the log.
func TestTimeLookupAgreesWithALinearScan(t *testing.T) {
	for name, shape := range shapes {
		for c, codec := range allCodecs {
			t.Run(name+"/"+codec, func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(c), uint64(len(name))))
				r := newRig(t)
				interval := []string{"1", "150", "4096"}[rng.IntN(3)]
				p := r.one("segment.bytes=900", "index.interval.bytes="+interval, "durability=os",
					"retention.ms=-1", "segment.ms=9223372036854775807")
				pub := p.Topic().Publisher(varve.PublisherOptions{Codec: codec})
				var all []varve.Record
				for len(all) < 250 {
					batch := make([]varve.Record, 1+rng.IntN(7))
					for i := range batch {
						batch[i] = dated(shape(rng, len(all)+i), "record %d", len(all)+i)
					}
					places, err := pub.PublishAll(context.Background(), batch)
					if err != nil {
						t.Fatal(err)
					}
					r.note(p, places[0].Offset, batch...)
					for i := range batch {
						batch[i].Offset = places[i].Offset
					}
					all = append(all, batch...)
				}
				if n := len(p.Stats().Segments); n < 5 {
					t.Fatalf("the log has %d segments, too few to say anything", n)
				}
				checkLookups(t, "while it is written", p, all)
				r.reopen()
				checkLookups(t, "after a clean stop", r.part("t", 0), all)
				r.kill()
				checkLookups(t, "after a kill", r.part("t", 0), all)
				r.close()
				removeIndexes(t, r.disk)
				r.open()
				checkLookups(t, "without index files", r.part("t", 0), all)

				// The log start inside a batch (KAFKA-6975), and prefix maxima
				// that came from segments which are gone.
				for _, before := range []varve.Offset{3, 77, 180} {
					if _, err := r.part("t", 0).Trim(before); err != nil {
						t.Fatal(err)
					}
					checkLookups(t, fmt.Sprintf("trimmed to %d", before), r.part("t", 0), all)
				}
				r.reopen()
				checkLookups(t, "trimmed, after a clean stop", r.part("t", 0), all)
			})
		}
	}
}

func removeIndexes(t testing.TB, disk *vfs.Mem) {
	t.Helper()
	for _, name := range disk.Files() {
		if strings.HasSuffix(name, ".index") || strings.HasSuffix(name, ".timeindex") {
			if err := disk.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The example of redpanda-data/redpanda#4308 and commit 99a8ba727a: timestamps
// that go back over three segments.
func TestTimeLookupWhereTimestampsGoBack(t *testing.T) {
	r := newRig(t)
	p := r.one("segment.bytes=150", "index.interval.bytes=1", "retention.ms=-1")
	var all []varve.Record
	for _, ts := range []int64{100, 300, 200, 50, 400} {
		rec := dated(ts, "%d", ts)
		rec.Offset = r.publish(p, rec)
		all = append(all, rec)
	}
	if n := len(p.Stats().Segments); n < 3 {
		t.Fatalf("%d segments, want at least 3", n)
	}
	for ask, want := range map[int64]varve.Offset{1: 0, 100: 0, 101: 1, 150: 1, 250: 1, 300: 1, 301: 4, 350: 4, 400: 4, 401: 5} {
		if got := lookUp(t, p, ask); got != want {
			t.Errorf("at or after %d: offset %d, want %d", ask, got, want)
		}
	}
	checkLookups(t, "live", p, all)
}

// The record that holds the maximum, not the last or the first of its batch: with
// each codec, on a topic of append time, after restart and after the indexes were
// made anew (KAFKA-16341, KAFKA-16342).
func TestTimeLookupInsideABatch(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec, func(t *testing.T) {
			r := newRig(t)
			p := r.one("retention.ms=-1", "compression.type="+codecSetting(codec))
			r.publish(p, dated(1, "a"), dated(5, "b"), dated(3, "c"))
			r.publish(p, dated(5, "d"), dated(9, "e"), dated(7, "f"))
			check := func(when string) {
				t.Helper()
				for ask, want := range map[int64]varve.Offset{1: 0, 2: 1, 4: 1, 5: 1, 6: 4, 8: 4, 9: 4, 10: 6} {
					if got := lookUp(t, r.part("t", 0), ask); got != want {
						t.Errorf("%s: at or after %d: offset %d, want %d", when, ask, got, want)
					}
				}
			}
			check("live")
			r.reopen()
			check("after a clean stop")
			r.kill()
			check("after a kill")
			r.close()
			removeIndexes(t, r.disk)
			r.open()
			check("without index files")
		})
	}
	t.Run("append time", func(t *testing.T) {
		r := newRig(t)
		p := r.one("retention.ms=-1", "message.timestamp.type=LogAppendTime")
		first := r.now.Load()
		r.publishStamped(p, dated(1, "a"), dated(5, "b"), dated(3, "c"))
		r.advance(time.Hour)
		r.publishStamped(p, dated(9, "d"), dated(8, "e"), dated(7, "f"))
		for ask, want := range map[int64]varve.Offset{10: 0, first: 0, first + 1: 3, r.now.Load(): 3, r.now.Load() + 1: 6} {
			if got := lookUp(t, p, ask); got != want {
				t.Errorf("at or after %d: offset %d, want %d", ask, got, want)
			}
		}
	})
}

// publishStamped is publish on a topic of append time.
func (r *rig) publishStamped(p *varve.Partition, recs ...varve.Record) varve.Offset {
	r.t.Helper()
	off, err := p.Publish(context.Background(), recs...)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range recs {
		recs[i].Timestamp = r.now.Load()
	}
	r.note(p, off, recs...)
	return off
}

func codecSetting(codec string) string {
	if codec == "none" {
		return "uncompressed"
	}
	return codec
}

// Off by one at an exact time, where equal timestamps run over a roll
// (nats-io/nats-server#6076, #6082).
func TestTimeLookupOfEqualTimestampsAcrossARoll(t *testing.T) {
	for runs := 1; runs <= 4; runs++ {
		r := newRig(t)
		p := r.one("segment.bytes=150", "retention.ms=-1") // two batches a segment
		var all []varve.Record
		for i := range 24 {
			rec := dated(int64(1000+i/runs), "%d", i)
			rec.Offset = r.publish(p, rec)
			all = append(all, rec)
		}
		checkLookups(t, fmt.Sprintf("runs of %d", runs), p, all)
	}
}

// Records are dated in whole milliseconds: half a millisecond later is after.
func TestTimeLookupBetweenMilliseconds(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	r.publish(p, dated(-3, "a"))
	r.publish(p, dated(1000, "b"))
	for _, c := range []struct {
		ask  time.Time
		want varve.Offset
	}{
		{time.UnixMilli(-3), 0}, {time.UnixMilli(-3).Add(-1), 0}, {time.UnixMilli(-3).Add(1), 1},
		{time.UnixMilli(1000), 1}, {time.UnixMilli(1000).Add(-1), 1}, {time.UnixMilli(1000).Add(1), 2},
		{time.Time{}, 0}, {time.Unix(1<<40, 0), 2}, {time.Unix(-(1 << 40), 0), 0},
	} {
		if got, err := p.OffsetFor(context.Background(), c.ask); err != nil || got != c.want {
			t.Errorf("at or after %v: %d, %v, want %d", c.ask, got, err, c.want)
		}
	}
}

// A time after the last record is the end, and no error, before and after more
// (redpanda-data/redpanda#4322, liftbridge-io/liftbridge#323). Of a partition that
// is empty, new or emptied, every time is (redpanda-data/redpanda#19937).
func TestTimeLookupWhereThereIsNothing(t *testing.T) {
	r := newRig(t)
	r.one("retention.ms=3600000", "segment.bytes=150")
	everyTimeIsTheEnd := func(when string) {
		t.Helper()
		p := r.part("t", 0)
		if p.Start() != p.End() {
			t.Errorf("%s: from %d to %d, want nothing", when, p.Start(), p.End())
		}
		for _, ts := range []int64{math.MinInt64, -1, 0, 1, r.now.Load(), math.MaxInt64} {
			if got := lookUp(t, p, ts); got != p.End() {
				t.Errorf("%s: at or after %d: offset %d, want the end %d", when, ts, got, p.End())
			}
		}
	}
	everyTimeIsTheEnd("new")
	r.reopen()
	everyTimeIsTheEnd("new, after a restart")
	p := r.part("t", 0)
	for i := range 10 {
		r.publish(p, text("%d", i))
	}
	if got := lookUp(t, p, r.now.Load()+3_600_000); got != 10 {
		t.Errorf("an hour ahead: offset %d, want the end, 10", got)
	}
	r.advance(2 * time.Hour)
	r.retain()
	everyTimeIsTheEnd("emptied by retention")
	r.reopen()
	everyTimeIsTheEnd("emptied by retention, after a restart")
	p = r.part("t", 0)
	for i := range 10 {
		r.publish(p, text("%d", i))
	}
	if _, err := p.Trim(p.End()); err != nil {
		t.Fatal(err)
	}
	everyTimeIsTheEnd("trimmed to the end")
	r.kill()
	everyTimeIsTheEnd("trimmed to the end, after a kill")
}

// A lookup never answers below the log start, nor misses what is above it
// (redpanda-data/redpanda#18112, #18281).
func TestTimeLookupBelowTheLogStart(t *testing.T) {
	r := newRig(t)
	p := r.one("segment.bytes=300", "retention.ms=-1")
	var all []varve.Record
	for b := range 10 {
		batch := []varve.Record{}
		for i := range 10 {
			batch = append(batch, dated(int64(1000+b*10+i), "%d", i))
		}
		off := r.publish(p, batch...)
		for i := range batch {
			batch[i].Offset = off + varve.Offset(i)
		}
		all = append(all, batch...)
	}
	for _, before := range []varve.Offset{5, 9, 10, 11, 45, 99, 100} {
		if start, err := p.Trim(before); err != nil || start != before {
			t.Fatalf("trim to %d: start %d, %v", before, start, err)
		}
		if got := lookUp(t, p, 1002); got != before {
			t.Errorf("trimmed to %d: the time of record 2 is at %d", before, got)
		}
		checkLookups(t, fmt.Sprintf("trimmed to %d", before), p, all)
		var b varve.Batch
		if before < 100 {
			rd, err := p.Reader(varve.Earliest())
			if err != nil {
				t.Fatal(err)
			}
			if b, err = rd.NextBatch(context.Background()); err != nil || b.BaseOffset > before || b.NextOffset() <= before {
				t.Errorf("trimmed to %d: the first batch is from %d to %d, %v", before, b.BaseOffset, b.LastOffset(), err)
			}
		}
	}
}

// What is acknowledged and not on stable storage yet is found all the same
// (apache/iggy#1570); what is not acknowledged is not.
func TestTimeLookupSeesTheUnsyncedTail(t *testing.T) {
	for _, level := range []string{"os", "interval"} {
		r := newRig(t)
		p := r.one("durability="+level, "flush.ms=86400000", "retention.ms=-1")
		var all []varve.Record
		for i := range 5 {
			rec := dated(int64(1000+i), "%d", i)
			rec.Offset = r.publish(p, rec)
			all = append(all, rec)
		}
		if p.DurableEnd() == 5 {
			t.Logf("%s: everything was synced already", level)
		}
		checkLookups(t, level+", before a sync", p, all)
		r.reopen()
		checkLookups(t, level+", after a sync", r.part("t", 0), all)
	}
	t.Run("fsync", func(t *testing.T) {
		gate := make(chan struct{})
		var hold atomic.Bool
		r := newRig(t, func(r *rig) {
			r.rule = func(op vfs.Op) vfs.Fault {
				if hold.Load() && syncsRecords(op) {
					return vfs.Fault{Block: gate}
				}
				return vfs.Fault{}
			}
		})
		p := r.one("retention.ms=-1")
		r.publish(p, dated(1000, "seen"))
		hold.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() { r.publish(p, dated(2000, "not yet")) })
		for p.LogEnd() != 2 {
			runtime.Gosched()
		}
		if got := lookUp(t, p, 1500); got != 1 || p.End() != 1 {
			t.Errorf("at or after 1500: offset %d with the end at %d, want 1 for both", got, p.End())
		}
		close(gate)
		wg.Wait()
		if got := lookUp(t, p, 1500); got != 1 || p.End() != 2 {
			t.Errorf("at or after 1500: offset %d with the end at %d, want 1 and 2", got, p.End())
		}
	})
}

// Over thousands of segments a lookup opens the one that holds the answer and no
// other (nats-io/nats-server#7353, #7357), whatever the order of the timestamps.
func TestTimeLookupOpensFewSegments(t *testing.T) {
	n := 5000
	if testing.Short() {
		n = 1000
	}
	for _, name := range []string{"rising", "steps", "falling", "random", "far future", "mixed"} {
		t.Run(name, func(t *testing.T) {
			var opened atomic.Int64
			r := newRig(t, background, func(r *rig) {
				r.opt.OpenFiles = 4
				r.rule = func(op vfs.Op) vfs.Fault {
					if (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && strings.HasSuffix(op.Name, ".log") {
						opened.Add(1)
					}
					return vfs.Fault{}
				}
			})
			p := r.one("segment.bytes=64", "durability=os", "retention.ms=-1", "segment.ms=9223372036854775807")
			rng := rand.New(rand.NewPCG(1, 2))
			var all []varve.Record
			for i := range n {
				rec := dated(shapes[name](rng, i), "%d", i)
				rec.Offset = r.publish(p, rec)
				all = append(all, rec)
			}
			if got := len(p.Stats().Segments); got < n {
				t.Fatalf("%d segments, want %d", got, n)
			}
			check := func(when string) {
				p := r.part("t", 0)
				for range 200 {
					ts := all[rng.IntN(n)].Timestamp
					if rng.IntN(4) == 0 {
						ts++
					}
					before := opened.Load()
					got, want := lookUp(t, p, ts), firstDated(all, p.Start(), p.End(), ts)
					if got != want {
						t.Fatalf("%s: at or after %d: offset %d, want %d", when, ts, got, want)
					}
					if used := opened.Load() - before; used > 2 {
						t.Fatalf("%s: a lookup of %d opened %d segments", when, ts, used)
					}
				}
			}
			r.reopen() // the segments are finished, and their state comes from the disk
			check("after a restart")
			if _, err := r.part("t", 0).Trim(varve.Offset(n / 3)); err != nil {
				t.Fatal(err)
			}
			check("trimmed")
		})
	}
}

// Lookups beside publishing, rolls, trims and retention: each answer is a record
// that is dated so, or the end; the end never goes back and the start never
// passes it (KAFKA-2236, KAFKA-12981).
func TestTimeLookupBesideEverything(t *testing.T) {
	r := newRig(t)
	p := r.one("segment.bytes=600", "segment.ms=50", "durability=os", "retention.bytes=20000", "retention.ms=-1")
	const n = 3000
	dates := make([]atomic.Int64, n) // by offset; 0: not published
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer done.Store(true)
		rng := rand.New(rand.NewPCG(3, 4))
		for i := range n {
			ts := 1 + rng.Int64N(1000)
			dates[i].Store(ts)
			r.publish(p, dated(ts, "%d", i))
		}
	})
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(5, 6))
		for !done.Load() {
			r.advance(20 * time.Millisecond)
			r.retain()
			if start, end := p.Start(), p.End(); end > start {
				if _, err := p.Trim(start + varve.Offset(rng.Int64N(int64(end-start)))/8); err != nil {
					t.Errorf("trim: %v", err)
				}
			}
		}
	})
	for g := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(g)))
			var highest varve.Offset
			for !done.Load() {
				ask := 1 + rng.Int64N(1000)
				start, was := p.Start(), p.End()
				got, err := p.OffsetFor(context.Background(), time.UnixMilli(ask))
				end := p.End()
				switch {
				case err != nil:
					t.Errorf("look up: %v", err)
				case got < start || got > end:
					t.Errorf("offset %d for %d, with [%d, %d)", got, ask, start, end)
				case end < highest:
					t.Errorf("the end went back from %d to %d", highest, end)
				case got < was && dates[got].Load() < ask:
					t.Errorf("offset %d for %d is dated %d", got, ask, dates[got].Load())
				}
				for off := max(p.Start(), got-100); off < min(got, was); off++ {
					if dates[off].Load() >= ask && off >= p.Start() {
						t.Errorf("offset %d for %d, but offset %d is dated %d", got, ask, off, dates[off].Load())
					}
				}
				highest = max(highest, end)
				if t.Failed() {
					return
				}
			}
		})
	}
	wg.Wait()
}
