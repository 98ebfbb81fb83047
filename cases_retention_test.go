package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// A topic that nobody writes to becomes empty too: its active segment is rolled
// by age and goes (KAFKA-15047), and that whatever restarts come between
// (apache/iggy#905, #2629, #2670). The next record gets the next offset.
func TestIdleTopicExpires(t *testing.T) {
	between := map[string]func(*rig){
		"nothing": func(*rig) {},
		"restart": (*rig).reopen,
		"kill":    (*rig).kill,
		"cut":     func(r *rig) { r.cut(vfs.CrashOptions{Seed: 5, Unsynced: vfs.UnsyncedSectors, Names: vfs.NamesRandom}) },
	}
	for name, step := range between {
		for _, segmentAge := range []string{"600000", "9223372036854775807"} {
			t.Run(name+"/"+segmentAge, func(t *testing.T) {
				r := newRig(t, background)
				r.one("retention.ms=3600000", "segment.ms="+segmentAge)
				step(r)
				r.publish(r.part("t", 0), dated(r.now.Load(), "alone"))
				step(r)
				r.advance(30 * time.Minute)
				r.retain()
				step(r)
				p := r.part("t", 0)
				if p.Start() != 0 || p.End() != 1 {
					t.Fatalf("after half an hour there is [%d, %d)", p.Start(), p.End())
				}
				r.advance(31 * time.Minute)
				step(r)
				r.retain()
				if p = r.part("t", 0); p.Start() != 1 || p.End() != 1 {
					t.Errorf("after an hour there is [%d, %d), want [1, 1)", p.Start(), p.End())
				}
				step(r)
				if p = r.part("t", 0); p.Start() != 1 || p.End() != 1 {
					t.Errorf("and later [%d, %d), want [1, 1)", p.Start(), p.End())
				}
				if off := r.publish(p, text("next")); off != 1 {
					t.Errorf("the next record is at %d, want 1", off)
				}
				step(r)
				if bytes := r.part("t", 0).Stats().Bytes; bytes > 200 {
					t.Errorf("%d bytes are left of one record", bytes)
				}
			})
		}
	}
}

// Offsets outlive total deletion again and again, restarts between.
func TestOffsetsOutliveTotalDeletion(t *testing.T) {
	r := newRig(t, background)
	r.one("retention.ms=1000", "segment.bytes=200")
	var next varve.Offset
	for round := range 12 {
		p := r.part("t", 0)
		for range 5 {
			if off := r.publish(p, text("round %d", round)); off != next {
				t.Fatalf("round %d: offset %d, want %d", round, off, next)
			}
			next++
		}
		r.advance(time.Hour)
		r.retain()
		if p.Start() != next || p.End() != next {
			t.Fatalf("round %d: [%d, %d), want [%d, %d)", round, p.Start(), p.End(), next, next)
		}
		switch round % 4 {
		case 1:
			r.reopen()
		case 2:
			r.kill()
		case 3:
			r.cut(vfs.CrashOptions{Seed: uint64(round)})
		}
	}
	r.retain() // the cut may have undone the removal of files, not that of records
	if files := segmentFiles(r.disk, "topics/t/0"); len(files) > 1 {
		t.Errorf("left are %q", files)
	}
}

// After everything is gone the next offset does not hang on a file of records, nor
// on the checkpoint: whatever of them is lost, it is not given out again
// (nats-io/nats-server#6881).
func TestOffsetsOutliveTheFiles(t *testing.T) {
	for _, lose := range [][]string{{".log"}, {".log", "clean"}, {".log", "clean", "checkpoint"}, {"clean", "checkpoint"}, {".log", "seals", "clean", "checkpoint"}} {
		for name, empty := range map[string]func(r *rig, p *varve.Partition){
			"trimmed": func(_ *rig, p *varve.Partition) {
				if _, err := p.Trim(p.End()); err != nil {
					t.Error(err)
				}
			},
			"expired": func(r *rig, _ *varve.Partition) {
				r.advance(48 * time.Hour)
				r.retain()
			},
		} {
			r := newRig(t, background)
			p := r.one("retention.ms=3600000", "segment.bytes=300")
			for i := range 20 {
				r.publish(p, text("%d", i))
			}
			empty(r, p)
			r.close()
			for _, file := range r.disk.Files() {
				if slices.ContainsFunc(lose, func(suffix string) bool { return strings.HasSuffix(file, suffix) }) {
					if err := r.disk.Remove(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.open()
			p = r.part("t", 0)
			if p.Start() != 20 || p.End() != 20 {
				t.Errorf("%s, without %q: there is [%d, %d), want [20, 20)", name, lose, p.Start(), p.End())
			}
			if off := r.publish(p, text("next")); off != 20 {
				t.Errorf("%s, without %q: the next record is at %d, want 20", name, lose, off)
			}
		}
	}
}

func segmentFiles(disk *vfs.Mem, dir string) []string {
	return slices.DeleteFunc(disk.Files(), func(name string) bool {
		return !strings.HasPrefix(name, dir+"/") || !strings.HasSuffix(name, ".log")
	})
}

// Retention by size at its edges: the oldest segment goes only while the rest
// still holds the limit, whole segments, never the active one.
func TestRetentionBySizeAtItsEdges(t *testing.T) {
	const segments = 5 // the last of them active
	build := func(t *testing.T, limit string) (*rig, *varve.Partition, int64) {
		r := newRig(t, background)
		p := r.one("segment.bytes=250", "retention.ms=-1", "retention.bytes="+limit)
		for i := range 3 * segments {
			r.publish(p, text("record %02d", i))
		}
		st := p.Stats()
		if len(st.Segments) != segments {
			t.Fatalf("%d segments, want %d", len(st.Segments), segments)
		}
		for _, s := range st.Segments {
			if s.Bytes != st.Segments[0].Bytes {
				t.Fatalf("segments are not equal: %+v", st.Segments)
			}
		}
		return r, p, st.Segments[0].Bytes
	}
	_, _, size := build(t, "-1")
	for _, c := range []struct {
		limit int64
		left  int
	}{
		{-1, 5}, {math.MaxInt64, 5}, {5*size + 1, 5}, {5 * size, 5}, {5*size - 1, 5}, {4*size + 1, 5},
		{4 * size, 4}, {4*size - 1, 4}, {3*size + 1, 4}, {3 * size, 3}, {size + 1, 2}, {size, 1}, {size - 1, 1}, {1, 1}, {0, 1},
	} {
		t.Run(fmt.Sprint(c.limit), func(t *testing.T) {
			r, _, _ := build(t, fmt.Sprint(c.limit))
			r.retain()
			check := func(when string) {
				t.Helper()
				p := r.part("t", 0)
				if got := len(p.Stats().Segments); got != c.left {
					t.Errorf("%s: %d segments are left, want %d", when, got, c.left)
				}
				if want := varve.Offset(3 * (segments - c.left)); p.Start() != want || p.End() != 3*segments {
					t.Errorf("%s: [%d, %d), want [%d, %d)", when, p.Start(), p.End(), want, 3*segments)
				}
			}
			check("after one pass")
			r.retain()
			check("after another")
			r.reopen()
			r.retain()
			check("after a restart")
			if files := segmentFiles(r.disk, "topics/t/0"); len(files) != c.left {
				t.Errorf("left are %q", files)
			}
			r.publish(r.part("t", 0), text("one more"))
		})
	}
}

// Age and size together: each takes what it says, and the stricter one decides.
func TestRetentionByAgeAndSize(t *testing.T) {
	for _, c := range []struct {
		limit string
		age   time.Duration
		start varve.Offset
	}{
		{"-1", 90 * time.Minute, 6},      // hours 0 and 1 are over
		{"1000000", 90 * time.Minute, 6}, // size asks for nothing
		{"0", 90 * time.Minute, 9},       // size asks for more
		{"300", 1000 * time.Hour, 6},     // age asks for nothing
	} {
		r := newRig(t, background)
		p := r.one("segment.bytes=250", fmt.Sprintf("retention.ms=%d", c.age.Milliseconds()), "retention.bytes="+c.limit)
		for i := range 12 { // three an hour
			r.publish(p, dated(r.now.Load(), "record %02d", i))
			if i%3 == 2 && i < 11 {
				r.advance(time.Hour)
			}
		}
		r.retain()
		if p.Start() != c.start || p.End() != 12 {
			t.Errorf("retention.bytes=%s and %v: [%d, %d), want [%d, 12)", c.limit, c.age, p.Start(), p.End(), c.start)
		}
	}
}

// The budget of the engine takes the oldest segments, whichever topic they are
// of, and leaves the active ones.
func TestBudgetTakesTheOldestOfAll(t *testing.T) {
	r := newRig(t, background, func(r *rig) { r.opt.MaxBytes = 4000 })
	a, b := r.topic("a", 1, "segment.bytes=250", "retention.ms=-1"), r.topic("b", 2, "segment.bytes=250", "retention.ms=-1")
	for i := range 30 {
		for _, topic := range []*varve.Topic{a, b} {
			for k := range topic.Partitions() {
				p := r.part(topic.Name(), k)
				r.publish(p, dated(r.now.Load(), "record %02d", i))
			}
		}
		r.advance(time.Minute)
	}
	r.retain()
	total := a.Stats().Bytes + b.Stats().Bytes
	if total > 4000 || total < 3000 {
		t.Errorf("%d bytes are left of a budget of 4000", total)
	}
	starts := []varve.Offset{r.part("a", 0).Start(), r.part("b", 0).Start(), r.part("b", 1).Start()}
	if slices.Max(starts)-slices.Min(starts) > 3 {
		t.Errorf("equally old partitions begin at %v", starts)
	}
	was := starts
	r.retain()
	r.reopen() // a store at its limit opens, and is not charged twice (nats-io/nats-server#3641)
	r.retain()
	now := []varve.Offset{r.part("a", 0).Start(), r.part("b", 0).Start(), r.part("b", 1).Start()}
	if !slices.Equal(was, now) {
		t.Errorf("another pass moved the starts from %v to %v", was, now)
	}
}

// Segments wholly below the log start go in one pass, and a second one changes
// nothing (KAFKA-12177, KAFKA-7400). A trim takes them at once.
func TestSegmentsBelowTheLogStartGo(t *testing.T) {
	r := newRig(t, background)
	p := r.one("segment.bytes=250", "retention.ms=-1")
	for i := range 15 {
		r.publish(p, text("record %02d", i))
	}
	for _, before := range []varve.Offset{1, 3, 7, 8, 14, 15} {
		if start, err := p.Trim(before); err != nil || start != before {
			t.Fatalf("trim to %d: %d, %v", before, start, err)
		}
		want := 5 - int(before)/3
		if before == 15 {
			want = 1 // a new one, for the next record
		}
		for range 2 {
			if got := len(p.Stats().Segments); got != want {
				t.Errorf("trimmed to %d: %d segments, want %d", before, got, want)
			}
			if files := segmentFiles(r.disk, "topics/t/0"); len(files) != want {
				t.Errorf("trimmed to %d: files %q, want %d", before, files, want)
			}
			r.retain()
		}
	}
	if bytes := p.Stats().Bytes; bytes != 0 {
		t.Errorf("%d bytes are left of nothing", bytes)
	}
}

// The edges of a trim, as Kafka's DeleteRecords has them (KIP-107).
func TestTrimAtItsEdges(t *testing.T) {
	r := newRig(t, background)
	p := r.one("segment.bytes=250", "retention.ms=-1")
	for i := range 50 {
		r.publish(p, text("record %02d", i))
	}
	for _, c := range []struct {
		before, start varve.Offset
		ok            bool
	}{
		{0, 0, true}, {10, 10, true}, {5, 10, true}, {10, 10, true}, {30, 30, true}, {-1, 30, false}, {-2, 30, false},
		{51, 30, false}, {math.MaxInt64, 30, false}, {math.MinInt64, 30, false}, {50, 50, true}, {0, 50, true}, {50, 50, true},
	} {
		start, err := p.Trim(c.before)
		var out *varve.OutOfRangeError
		if start != c.start || p.Start() != c.start || c.ok != (err == nil) {
			t.Errorf("trim to %d: %d, %v with the start at %d, want %d", c.before, start, err, p.Start(), c.start)
		}
		if err != nil && (!errors.As(err, &out) || *out != (varve.OutOfRangeError{Asked: c.before, Start: c.start, End: 50})) {
			t.Errorf("trim to %d: %v", c.before, err)
		}
	}
	empty := r.topic("empty", 1)
	if start, err := r.part(empty.Name(), 0).Trim(0); start != 0 || err != nil {
		t.Errorf("trim of an empty partition: %d, %v", start, err)
	}
}

// A trim that was acknowledged holds after a kill and after a power cut, also in
// the middle of a segment and of a batch.
func TestTrimSurvivesACrash(t *testing.T) {
	for seed := range uint64(12) {
		r := newRig(t, background)
		p := r.one("segment.bytes=600", "retention.ms=-1")
		for range 10 {
			r.publish(p, text("a"), text("b"), text("c"), text("d"))
		}
		before := varve.Offset(1 + seed*39/11)
		if _, err := p.Trim(before); err != nil {
			t.Fatal(err)
		}
		switch seed % 3 {
		case 0:
			r.kill()
		case 1:
			r.cut(vfs.CrashOptions{Seed: seed})
		case 2:
			r.cut(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages, Names: vfs.NamesRandom})
		}
		p = r.part("t", 0)
		if p.Start() != before || p.End() != 40 {
			t.Fatalf("trimmed to %d: after the crash there is [%d, %d)", before, p.Start(), p.End())
		}
		var out *varve.OutOfRangeError
		if _, err := p.Reader(varve.At(before - 1)); !errors.As(err, &out) || out.Start != before {
			t.Errorf("reading below the start: %v", err)
		}
		var offsets []varve.Offset
		for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
			offsets = append(offsets, rec.Offset)
		}
		if len(offsets) != int(40-before) || (len(offsets) > 0 && offsets[0] != before) {
			t.Errorf("trimmed to %d: offsets %v are readable", before, offsets)
		}
	}
}

// A time index that ends in zeros, as a pre-sized one does after a crash, does
// not date its segment in 1970 (KAFKA-10207).
func TestPaddedTimeIndexDeletesNothing(t *testing.T) {
	for _, pad := range []int{1, 12, 24, 120, 1200, 4096} {
		for _, clean := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, clean %t", pad, clean), func(t *testing.T) {
				r := newRig(t, background)
				p := r.one("segment.bytes=500", "retention.ms=3600000", "index.interval.bytes=1")
				for i := range 40 {
					r.publish(p, dated(r.now.Load()-int64(40-i), "%d", i))
				}
				r.close()
				for _, name := range r.disk.Files() {
					if !strings.HasSuffix(name, "index") {
						continue
					}
					data, err := r.disk.ReadFile(name)
					if err == nil {
						err = r.disk.WriteFile(name, append(data, make([]byte, pad)...))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if !clean {
					if err := r.disk.Remove("clean"); err != nil {
						t.Fatal(err)
					}
				}
				r.open()
				r.retain()
				p = r.part("t", 0)
				if p.Start() != 0 || p.End() != 40 {
					t.Errorf("there is [%d, %d), want [0, 40)", p.Start(), p.End())
				}
				if got := lookUp(t, p, r.now.Load()-10); got != 30 {
					t.Errorf("a lookup gives %d, want 30", got)
				}
				r.reopen()
				r.retain()
				if p = r.part("t", 0); p.Start() != 0 {
					t.Errorf("after another restart the start is %d", p.Start())
				}
			})
		}
	}
}

// Retention takes nothing that is not on stable storage and published: who waits
// for a record gets it acknowledged, and no offset is lost (oxia-db/oxia#281).
func TestRetentionSparesWhatIsNotAcknowledged(t *testing.T) {
	gate := make(chan struct{})
	var hold atomic.Bool
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if hold.Load() && syncsRecords(op) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}
	})
	p := r.one("segment.bytes=100", "retention.ms=0", "retention.bytes=0")
	hold.Store(true)
	var wg sync.WaitGroup
	var acked atomic.Int64
	for i := range 10 {
		wg.Go(func() {
			r.publish(p, text("%d", i))
			acked.Add(1)
		})
	}
	for p.LogEnd() == 0 { // a segment more waits for the sync of this one
		give()
	}
	r.advance(time.Hour)
	r.retain()
	if p.Start() != 0 || p.End() != 0 || acked.Load() != 0 {
		t.Errorf("while nothing is acknowledged there is [%d, %d)", p.Start(), p.End())
	}
	if _, err := p.Trim(1); err == nil {
		t.Error("a trim past the published end was taken")
	}
	hold.Store(false)
	close(gate)
	wg.Wait()
	r.advance(time.Hour)
	r.retain()
	if p.Start() != 10 || p.End() != 10 {
		t.Errorf("afterwards there is [%d, %d), want [10, 10)", p.Start(), p.End())
	}
}

// Retention goes on past a damaged segment, and past one whose file is gone.
func TestRetentionGoesPastDamage(t *testing.T) {
	for _, what := range []string{"flipped", "missing", "empty"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, background, func(r *rig) { r.loud = true })
			p := r.one("segment.bytes=250", "retention.ms=-1", "retention.bytes=400")
			for i := range 30 {
				r.publish(p, text("record %02d", i))
			}
			r.close()
			name := segmentFiles(r.disk, "topics/t/0")[2]
			var err error
			switch what {
			case "flipped":
				err = r.disk.FlipBit(name, 8*70)
			case "missing":
				err = r.disk.Remove(name)
			case "empty":
				err = r.disk.Truncate(name, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.open()
			r.retain()
			if p = r.part("t", 0); p.Start() != 24 || p.End() != 30 {
				t.Errorf("there is [%d, %d), want [24, 30)", p.Start(), p.End())
			}
			if recs := collect(t, p.Records(context.Background(), varve.Earliest())); len(recs) != 6 {
				t.Errorf("%d records are readable, want 6", len(recs))
			}
		})
	}
}

// Appends, rolls, trims and retention at once: every offset is given once, what
// is acknowledged at or above the log start is there, and the start only rises
// (KAFKA-6388, redpanda-data/redpanda#24306, nats-io/nats-server#8400).
func TestTrimAndRetentionBesideAppends(t *testing.T) {
	for _, level := range []string{"os", "fsync"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, background)
			p := r.one("segment.bytes=300", "segment.ms=50", "durability="+level, "retention.ms=-1", "retention.bytes=6000")
			const writers, each = 4, 400
			var writing, all sync.WaitGroup
			var done atomic.Bool
			for w := range writers {
				writing.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(w), 9))
					for i := range each {
						recs := make([]varve.Record, 1+rng.IntN(3))
						for k := range recs {
							recs[k] = text("writer %d record %d.%d", w, i, k)
						}
						off := r.publish(p, recs...)
						// Readable at once, unless the start has passed it.
						rd, err := p.Reader(varve.At(off))
						if err == nil {
							var rec varve.Record
							if rec, err = rd.Next(context.Background()); err == nil && string(rec.Value) != string(recs[0].Value) {
								t.Errorf("offset %d holds %q, acknowledged was %q", off, rec.Value, recs[0].Value)
							}
						}
						if err != nil && p.Start() <= off {
							t.Errorf("offset %d, start %d: %v", off, p.Start(), err)
						}
					}
				})
			}
			all.Go(func() { // trims to the end, over and over
				var high varve.Offset
				for i := 0; !done.Load(); i++ {
					end := p.End()
					if i%3 > 0 {
						end -= (end - p.Start()) / 2
					}
					start, err := p.Trim(end)
					if err != nil || start < end || start < high {
						t.Errorf("trim to %d: start %d after %d, %v", end, start, high, err)
					}
					high = start
				}
			})
			all.Go(func() {
				for !done.Load() {
					r.advance(10 * time.Millisecond)
					r.retain()
				}
			})
			writing.Wait()
			done.Store(true)
			all.Wait()
			var base varve.Offset = -1
			for _, s := range p.Stats().Segments {
				if s.Base <= base {
					t.Errorf("segment %d behind segment %d", s.Base, base)
				}
				base = s.Base
			}
		})
	}
}

// A clock that was ten years ahead for one publish, or is ten years behind now, deletes
// nothing early. That nothing goes for its age until it has caught up is said once;
// the limit of size holds meanwhile.
func TestRetentionAfterAStepOfTheClock(t *testing.T) {
	const tenYears = 10 * 365 * 24 * time.Hour
	r := newRig(t, background)
	p := r.one("retention.ms=3600000", "segment.ms=600000", "segment.bytes=300")
	r.advance(tenYears)
	r.publish(p, text("in the future"))
	r.advance(-tenYears)
	for range 10 {
		r.publish(p, text("now"))
		r.advance(20 * time.Minute)
		r.retain()
	}
	if p.Start() != 0 {
		t.Errorf("the log starts at %d", p.Start())
	}
	if said := strings.Count(r.logged.buf.String(), "the clock is behind the last append"); said != 1 {
		t.Errorf("it was said %d times", said)
	}
	if err := p.Topic().Alter(map[string]string{"retention.bytes": "300"}); err != nil {
		t.Fatal(err)
	}
	r.retain()
	if p.Start() == 0 {
		t.Error("the limit of size does not hold")
	}
	r.advance(tenYears + 2*time.Hour)
	r.retain()
	if p.Start() != p.End() {
		t.Errorf("when the clock has caught up there is [%d, %d)", p.Start(), p.End())
	}
}
