package varve_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Offsets that are not there: a typed error that says what is, from every call
// that takes one, and nothing is stored or moved.
func TestOffsetsThatAreNotThere(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1")
	for i := range 10 {
		r.publish(p, text("%d", i))
	}
	if _, err := p.Trim(3); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for _, off := range []varve.Offset{math.MinInt64, -2, -1, 0, 2, 11, 12, math.MaxInt64 - 1, math.MaxInt64} {
		calls := map[string]func() error{
			"reader":       func() error { _, err := p.Reader(varve.At(off)); return err },
			"topic reader": func() error { _, err := p.Topic().Reader(varve.At(off)); return err },
			"records":      func() error { return onlyError(t, p.Records(ctx, varve.At(off))) },
			"follow":       func() error { return onlyError(t, p.Follow(ctx, varve.At(off))) },
			"backward":     func() error { return onlyError(t, p.Backward(ctx, varve.At(off))) },
		}
		if off < 0 || off > 10 {
			calls["trim"] = func() error { _, err := p.Trim(off); return err }
		}
		if off < 0 {
			calls["publish if"] = func() error { _, err := p.PublishIf(ctx, off, text("x")); return err }
		}
		for name, call := range calls {
			var out *varve.OutOfRangeError
			if err := call(); !errors.As(err, &out) || *out != (varve.OutOfRangeError{Asked: off, Start: 3, End: 10}) {
				t.Errorf("%s at %d: %v", name, off, err)
			}
		}
		if off >= 0 {
			var conflict *varve.ConflictError
			if at, err := p.PublishIf(ctx, off, text("x")); !errors.As(err, &conflict) || *conflict != (varve.ConflictError{Expected: off, Next: 10}) || at != -1 {
				t.Errorf("publish if the next is %d: %d, %v", off, at, err)
			}
		}
	}
	for n, want := range map[int64]varve.Offset{0: 10, 1: 9, 7: 3, 8: 3, math.MaxInt64: 3} {
		rd, err := p.Reader(varve.Last(n))
		if err != nil || rd.Offset(0) != want {
			t.Errorf("the last %d begin at %d, want %d: %v", n, rd.Offset(0), want, err)
		}
	}
	for _, n := range []int64{-1, math.MinInt64} {
		if _, err := p.Reader(varve.Last(n)); err == nil {
			t.Errorf("there is a last %d", n)
		}
	}
	if p.Start() != 3 || p.End() != 10 {
		t.Errorf("there is [%d, %d), want [3, 10)", p.Start(), p.End())
	}
	if off, err := p.PublishIf(ctx, 10, text("fits")); err != nil || off != 10 {
		t.Errorf("publish if the next is 10: %d, %v", off, err)
	} else {
		r.note(p, off, text("fits"))
	}
}

// every way of reading a partition forward up to its end, as one iteration.
func waysToRead(t testing.TB, p *varve.Partition) map[string]iter.Seq2[varve.Record, error] {
	ctx := context.Background()
	polled := func(lend bool) iter.Seq2[varve.Record, error] {
		return func(yield func(varve.Record, error) bool) {
			rd, err := p.Reader(varve.Earliest())
			if err != nil {
				t.Fatal(err)
			}
			if lend {
				rd.Lend()
			}
			for {
				rec, ok, err := rd.Poll()
				if !ok && err == nil {
					return
				}
				if lend {
					rec = copyOf(rec)
				}
				if !yield(rec, err) || (err != nil && !goesOn(err)) {
					return
				}
			}
		}
	}
	batches := func(yield func(varve.Record, error) bool) {
		rd, err := p.Reader(varve.Earliest())
		if err != nil {
			t.Fatal(err)
		}
		for {
			b, ok, err := rd.PollBatch()
			switch {
			case err != nil:
				if !yield(varve.Record{}, err) || !goesOn(err) {
					return
				}
				continue
			case !ok:
				return
			}
			payload, err := b.Payload(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			it := b.Records(payload)
			var rec varve.Record
			for it.Next(&rec) {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
	follow := func(yield func(varve.Record, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		next := p.Start()
		for rec, err := range p.Follow(ctx, varve.Earliest()) {
			if !yield(rec, err) {
				return
			}
			var damage *varve.CorruptError
			if next = rec.Offset + 1; errors.As(err, &damage) {
				next = damage.To
			}
			if next >= p.End() || (err != nil && !goesOn(err)) {
				return
			}
		}
	}
	return map[string]iter.Seq2[varve.Record, error]{
		"records": p.Records(ctx, varve.Earliest()), "topic": p.Topic().Records(ctx, varve.Earliest()),
		"poll": polled(false), "lent": polled(true), "batches": batches, "follow": follow,
		"backward": func(yield func(varve.Record, error) bool) {
			var all []varve.Record
			var errs []error
			for rec, err := range p.Backward(ctx, varve.Latest()) {
				if err != nil {
					errs = append(errs, err)
					continue
				}
				all = append(all, rec)
			}
			for _, err := range errs {
				if !yield(varve.Record{}, err) {
					return
				}
			}
			for _, rec := range slices.Backward(all) {
				if !yield(rec, nil) {
					return
				}
			}
		},
	}
}

// Damage is told once, with the gap and with file, place and reason; reading goes
// on behind it, in every way of reading (KAFKA-5211, etcd-io/etcd#15043).
func TestDamageIsToldOnceAndPassed(t *testing.T) {
	for _, codec := range []string{"none", "gzip", "zstd"} {
		for _, level := range []string{"first", "middle", "last sealed"} {
			t.Run(codec+"/"+level, func(t *testing.T) {
				r := newRig(t, func(r *rig) { r.loud = true })
				p := r.one("segment.bytes=400", "retention.ms=-1", "compression.type="+codecSetting(codec))
				for i := range 40 {
					r.publish(p, text("%d a", i), varve.Record{Value: noise(i, 40)}, text("%d c", i))
				}
				r.close()
				files := segmentFiles(r.disk, "topics/t/0")
				name := map[string]string{"first": files[0], "middle": files[len(files)/2], "last sealed": files[len(files)-2]}[level]
				if err := r.disk.FlipBit(name, 8*80); err != nil { // in the records of its first batch
					t.Fatal(err)
				}
				r.open()
				p = r.part("t", 0)
				for way, seq := range waysToRead(t, p) {
					var damage *varve.CorruptError
					var got []varve.Offset
					for rec, err := range seq {
						switch {
						case err == nil:
							got = append(got, rec.Offset)
							sameRecord(t, rec, r.acked["t/0"][rec.Offset])
						case damage != nil:
							t.Fatalf("%s: a second error: %v", way, err)
						case !errors.As(err, &damage):
							t.Fatalf("%s: %v", way, err)
						}
					}
					if damage == nil {
						t.Fatalf("%s: no error", way)
					}
					if damage.To != damage.From+3 || damage.From%3 != 0 || damage.Offset != damage.From-1 || !strings.HasSuffix(damage.Path, name) ||
						damage.At != 0 || damage.Reason == "" {
						t.Errorf("%s: %+v", way, damage)
					}
					var want []varve.Offset
					for off := range varve.Offset(120) {
						if off < damage.From || off >= damage.To {
							want = append(want, off)
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s: read %v, want all but [%d, %d)", way, got, damage.From, damage.To)
					}
				}
				if off := r.publish(p, text("appends go on")); off != 120 {
					t.Errorf("the next record is at %d", off)
				}
			})
		}
	}
}

// A reader that retention or a trim has passed is told once, with what is there,
// and goes on at the start; nothing is passed over without a word.
func TestReaderThatRetentionHasPassed(t *testing.T) {
	r := newRig(t, background)
	p := r.one("segment.bytes=300", "retention.ms=-1")
	for i := range 60 {
		r.publish(p, text("%d", i))
	}
	rd, err := p.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	next := varve.Offset(0)
	for _, before := range []varve.Offset{5, 20, 21, 59} {
		if _, err := p.Trim(before); err != nil {
			t.Fatal(err)
		}
		told := 0
		for { // what it had read already it may still hand out, then it is told
			rec, ok, err := rd.Poll()
			var out *varve.OutOfRangeError
			if errors.As(err, &out) {
				if told++; told > 1 || out.Start != before || out.End != 60 || out.Asked != next {
					t.Errorf("trimmed to %d, at %d: %v, the %d. time", before, next, err, told)
				}
				next = before
				continue
			}
			if !ok || err != nil || rec.Offset != next {
				t.Fatalf("trimmed to %d, at %d: offset %d, %t, %v", before, next, rec.Offset, ok, err)
			}
			if next++; next > before {
				break
			}
		}
	}
	for way, seq := range waysToRead(t, p) {
		if recs := collect(t, seq); way != "batches" && (len(recs) != 1 || recs[0].Offset != 59) {
			t.Errorf("%s: %d records from the start", way, len(recs))
		}
	}
	var offs []varve.Offset
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			t.Fatal(err)
		}
		offs = append(offs, rec.Offset)
	}
	if !slices.Equal(offs, []varve.Offset{59}) {
		t.Errorf("offsets %v", offs)
	}
}

// A disk that cannot be read for a time is an error of that read alone: an
// iteration ends with it, a reader stands where it stood, and appends are taken
// (nats-io/nats-server#8037).
func TestReadErrorEndsAnIterationAndNoMore(t *testing.T) {
	var broken atomic.Bool
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if broken.Load() && op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	p := r.one("segment.bytes=300", "retention.ms=-1")
	for i := range 30 {
		r.publish(p, text("%d", i))
	}
	rd, err := p.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var last varve.Offset
	for range 30 {
		broken.Store(false)
		rec, err := rd.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if last = rec.Offset; rd.Offset(0) != last+1 {
			t.Errorf("behind %d the reader stands at %d", last, rd.Offset(0))
		}
		broken.Store(true)
		for way, seq := range waysToRead(t, p) {
			n := 0
			for _, err := range seq {
				if n++; !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "t/0") {
					t.Errorf("%s: %v", way, err)
				}
			}
			if n != 1 {
				t.Errorf("%s: %d times", way, n)
			}
		}
		if off, err := p.Publish(ctx, text("beside")); err != nil {
			t.Fatalf("an append beside a read that fails: %v", err)
		} else {
			r.note(p, off, text("beside"))
		}
	}
	for range 2 {
		for {
			if _, ok, err := rd.Poll(); err != nil {
				if !errors.Is(err, syscall.EIO) {
					t.Error(err)
				}
				break
			} else if !ok {
				t.Fatal("the end, with a disk that cannot be read")
			}
		}
	}
	broken.Store(false)
	for want := rd.Offset(0); want < p.End(); want++ {
		if rec, err := rd.Next(ctx); err != nil || rec.Offset != want {
			t.Fatalf("after the errors: offset %d, want %d, %v", rec.Offset, want, err)
		}
	}
}

// Records ends where the end was when it began, whatever is published meanwhile;
// Follow does not end but with its context, and then without an error.
func TestWhereIterationsEnd(t *testing.T) {
	r := newRig(t, background)
	topic := r.topic("t", 3, "segment.bytes=300", "retention.ms=-1", "durability=os")
	for i := range 30 {
		r.publish(r.part("t", i%3), text("%d", i))
	}
	seen := 0
	for _, err := range topic.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			t.Fatal(err)
		}
		seen++
		for i := range 3 {
			r.publish(r.part("t", i), text("meanwhile"))
		}
	}
	if seen != 30 {
		t.Errorf("%d records, want the 30 that were there", seen)
	}
	p := r.part("t", 0)
	high := p.End()
	seen = 0
	for rec, err := range p.Backward(context.Background(), varve.Latest()) {
		if seen++; err != nil || rec.Offset != high-varve.Offset(seen) {
			t.Fatalf("backward: offset %d, want %d, %v", rec.Offset, high-varve.Offset(seen), err)
		}
		r.publish(p, text("meanwhile"))
		if seen > int(high) {
			break
		}
	}
	if seen != int(high) {
		t.Errorf("backward: %d records, want %d", seen, high)
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	count, all := 0, int(topic.Stats().Records)
	for rec, err := range topic.Follow(ctx, varve.Earliest()) {
		if err != nil {
			t.Fatalf("follow: %v, %s", err, recordText(rec))
		}
		if count++; count == all+10 {
			cancel() // and reads on what it has, or ends
		}
		if count >= all && count < all+10 {
			r.publish(p, text("later"))
		}
		if count > all+10 {
			t.Fatal("followed on for ever")
		}
	}
	if count != all+10 {
		t.Errorf("followed %d records, want %d", count, all+10)
	}
	ended := 0
	for _, err := range topic.Follow(ctx, varve.Latest()) {
		t.Errorf("follow with a context that has ended: %v", err)
	}
	for name, seq := range map[string]iter.Seq2[varve.Record, error]{
		"records": p.Records(ctx, varve.Earliest()), "backward": p.Backward(ctx, varve.Latest()),
		"topic records": topic.Records(ctx, varve.Earliest()), "time": p.Records(ctx, varve.AtTime(time.Unix(0, 0))),
	} {
		if err := onlyError(t, seq); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", name, err)
		}
		ended++
	}
	if ended != 4 {
		t.Error("not all were tried")
	}
}

// Records and batches may be read in turn: what is left of a batch comes with the
// whole of it.
func TestRecordsAndBatchesInTurn(t *testing.T) {
	r := newRig(t)
	p := r.one("retention.ms=-1", "compression.type=snappy")
	for b := range 5 {
		r.publish(p, text("%d a", b), text("%d b", b), text("%d c", b))
	}
	rd, err := p.Reader(varve.At(1))
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if rec, err := rd.Next(ctx); err != nil || rec.Offset != 1 {
		t.Fatalf("%s, %v", recordText(rec), err)
	}
	if b, err := rd.NextBatch(ctx); err != nil || b.BaseOffset != 0 || b.LastOffset() != 2 || rd.Offset(0) != 3 {
		t.Errorf("batch [%d, %d], then %d, %v", b.BaseOffset, b.LastOffset(), rd.Offset(0), err)
	}
	if rec, err := rd.Next(ctx); err != nil || rec.Offset != 3 {
		t.Errorf("%s, %v", recordText(rec), err)
	}
	for range 2 {
		if rec, err := rd.Next(ctx); err != nil || rec.Offset > 5 {
			t.Errorf("%s, %v", recordText(rec), err)
		}
	}
	if b, err := rd.NextBatch(ctx); err != nil || b.BaseOffset != 6 {
		t.Errorf("behind a batch that was read to its end comes [%d, %d], %v", b.BaseOffset, b.LastOffset(), err)
	}
}

// Readers that wait are woken by a stop and by a deletion, and told.
func TestParkedReadersAreToldOfTheEnd(t *testing.T) {
	for _, what := range []string{"closed", "deleted"} {
		r := newRig(t)
		topic := r.topic("t", 2)
		r.publish(r.part("t", 0), text("x"))
		r.forget("t")
		var wg sync.WaitGroup
		for g := range 10 {
			wg.Go(func() {
				var err error
				if g%2 == 0 {
					rd, rerr := topic.Reader(varve.Latest())
					if err = rerr; err == nil {
						_, err = rd.Next(context.Background())
					}
				} else {
					err = onlyError(t, topic.Follow(context.Background(), varve.Latest()))
				}
				if !errors.Is(err, varve.ErrClosed) {
					t.Errorf("%s: reader %d: %v", what, g, err)
				}
			})
		}
		give()
		if what == "closed" {
			r.close()
		} else if err := r.engine.DeleteTopic("t"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if what == "closed" {
			r.open()
			r.note(r.part("t", 0), 0, text("x"))
		}
	}
}

// A start says what it is, for messages.
func TestStartsSayWhatTheyAre(t *testing.T) {
	for want, s := range map[string]varve.Start{
		"earliest": {}, "latest": varve.Latest(), "offset 5": varve.At(5), "the last 3": varve.Last(3),
		"2026-01-02T03:04:05Z": varve.AtTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	} {
		if got := fmt.Sprint(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
