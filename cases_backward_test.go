package varve_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Newest first gives what oldest first gives, from every start, over batches,
// segments and codecs (liftbridge-io/liftbridge#290).
func TestBackwardIsForwardReversed(t *testing.T) {
	for _, codec := range []string{"none", "lz4"} {
		r := newRig(t, background)
		p := r.one("segment.bytes=2000", "retention.ms=-1", "durability=os", "compression.type="+codecSetting(codec))
		n := 0
		for n < 700 {
			var recs []varve.Record
			for range 1 + n%9 {
				recs = append(recs, dated(int64(1000+n+len(recs)), "%s %d", strings.Repeat("x", n%50), n+len(recs)))
			}
			r.publish(p, recs...)
			n += len(recs)
		}
		check := func() {
			t.Helper()
			forward := collect(t, p.Records(context.Background(), varve.Earliest()))
			for name, c := range map[string]struct {
				from varve.Start
				high varve.Offset
			}{
				"latest": {varve.Latest(), p.End()}, "the end": {varve.At(p.End()), p.End()}, "earliest": {varve.Earliest(), p.Start()},
				"the second": {varve.At(p.Start() + 1), p.Start() + 1}, "the middle": {varve.At(333), 333}, "a time": {varve.AtTime(time.UnixMilli(1444)), 444},
				"the last hundred": {varve.Last(100), p.End() - 100},
			} {
				got := collect(t, p.Backward(context.Background(), c.from))
				want := forward[:c.high-p.Start()]
				if len(got) != len(want) {
					t.Fatalf("%s, from %s: %d records, want %d", codec, name, len(got), len(want))
				}
				for i := range got {
					if !equalRecords(got[i], want[len(want)-1-i]) {
						t.Fatalf("%s, from %s: %s, want %s", codec, name, recordText(got[i]), recordText(want[len(want)-1-i]))
					}
				}
			}
		}
		check()
		if _, err := p.Trim(123); err != nil {
			t.Fatal(err)
		}
		check()
	}
}

// A batch that is lost is lost once, newest first too, wherever it lies among the
// runs of records that are read at a time.
func TestBackwardTellsOfALostBatchOnce(t *testing.T) {
	for lost := range varve.Offset(6) {
		r := newRig(t, background, func(r *rig) { r.loud = true })
		p := r.one("retention.ms=-1", "index.interval.bytes=1", "segment.bytes=1000")
		for b := range 6 {
			var recs []varve.Record
			for i := range 50 {
				recs = append(recs, text("batch %d record %d", b, i))
			}
			r.publish(p, recs...)
		}
		r.close()
		files := segmentFiles(r.disk, "topics/t/0")
		if len(files) != 6 {
			t.Fatalf("%d segments, want one for each batch", len(files))
		}
		if err := r.disk.FlipBit(files[lost], 8*100); err != nil {
			t.Fatal(err)
		}
		r.open()
		p = r.part("t", 0)
		next, told := p.End(), 0
		for rec, err := range p.Backward(context.Background(), varve.Latest()) {
			var damage *varve.CorruptError
			switch {
			case errors.As(err, &damage):
				if told++; damage.To != next || damage.From != next-50 {
					t.Errorf("at %d: %v", next, err)
				}
				next = damage.From
			case err != nil:
				t.Fatal(err)
			case rec.Offset != next-1:
				t.Fatalf("offset %d, want %d", rec.Offset, next-1)
			default:
				next = rec.Offset
			}
		}
		if told != 1 || next != 0 {
			t.Errorf("batch %d: told %d times, ended at %d", lost, told, next)
		}
	}
}

// Newest first holds about a megabyte of records at a time, also where large ones
// lie behind many small ones, with damage between them.
func TestBackwardHoldsLittle(t *testing.T) {
	r := newRig(t, background, func(r *rig) { r.loud = true })
	p := r.one("retention.ms=-1", "max.message.bytes=10000000", "durability=os", "segment.bytes=4000000")
	const large = 60
	for i := range large {
		r.publish(p, varve.Record{Value: noise(i, 1<<20)})
	}
	for range 20 {
		small := make([]varve.Record, 500)
		for i := range small {
			small[i] = text("small")
		}
		r.publish(p, small...)
	}
	r.close()
	if err := r.disk.FlipBit(segmentFiles(r.disk, "topics/t/0")[5], 8*1000); err != nil { // a large one
		t.Fatal(err)
	}
	r.open()
	p = r.part("t", 0)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	next, losses := p.End(), 0
	for rec, err := range p.Backward(context.Background(), varve.Latest()) {
		var damage *varve.CorruptError
		if errors.As(err, &damage) {
			if losses++; damage.To != next || damage.From != next-1 {
				t.Errorf("at %d: %v", next, err)
			}
			next = damage.From
			continue
		}
		if next--; err != nil || rec.Offset != next {
			t.Fatalf("offset %d, want %d, %v", rec.Offset, next, err)
		}
		if next == large-1 || next == large/2 || next == 0 {
			if now := heap(); now > before+16<<20 {
				t.Errorf("at %d: %d bytes more in the heap", next, now-before)
			}
		}
	}
	if next != 0 || losses != 1 {
		t.Errorf("ended at %d, after %d losses", next, losses)
	}
}

// A trim that comes while a run of records is read leaves nothing of what it deleted:
// the rest of the run is handed out, and then it is told that the others are gone.
func TestBackwardBesideATrim(t *testing.T) {
	v := newValve(func(op vfs.Op) bool {
		return op.Kind == vfs.OpRead && strings.Contains(op.Name, "/0000000000000000005")
	})
	r := newRig(t, background, func(r *rig) { r.rule, r.opt.CacheBytes = v.rule, -1 })
	p := r.one("retention.ms=-1", "segment.bytes=300")
	for i := range 60 {
		r.publish(p, text("%d", i))
	}
	if len(segmentFiles(r.disk, "topics/t/0")) < 15 {
		t.Fatal("the segments are larger than they should be")
	}
	v.shut.Store(true)
	go func() {
		<-v.reached
		if _, err := p.Trim(55); err != nil {
			t.Error(err)
		}
		close(v.gate)
	}()
	next := p.End()
	for rec, err := range p.Backward(context.Background(), varve.Latest()) {
		var gone *varve.OutOfRangeError
		switch {
		case errors.As(err, &gone):
			if next != 55 {
				t.Errorf("at %d: %v", next, err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if next--; rec.Offset != next || rec.Offset < 55 {
				t.Errorf("offset %d, expected %d", rec.Offset, next)
			}
		}
	}
	if next != 55 {
		t.Errorf("it ended at %d", next)
	}
}
