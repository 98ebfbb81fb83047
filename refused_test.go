package varve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

// refusals have the n-th and, where it lasts, every later write of a segment fail.
type refusals struct {
	n, short int64
	lasts    bool
	done     bool
	seen     atomic.Int64 // writes since it was armed; 0 and below: disarmed
	armed    atomic.Bool
}

func (f *refusals) rule(op vfs.Op) vfs.Fault {
	if !f.armed.Load() || op.Kind != vfs.OpWrite || !strings.HasSuffix(op.Name, ".log") {
		return vfs.Fault{}
	}
	if n := f.seen.Add(1); n == f.n || n > f.n && f.lasts {
		return vfs.Fault{Err: syscall.EIO, Short: int(f.short), Done: f.done}
	}
	return vfs.Fault{}
}

// shared publishes to all partitions at the same time, so that they share rounds, and enters
// in the book what was taken. It returns how many were refused.
func shared(r *rig, parts []*varve.Partition, what string) (refused int) {
	var all sync.WaitGroup
	var failed atomic.Int64
	for _, p := range parts {
		all.Go(func() {
			recs := []varve.Record{text("%s, %s", what, bookName(p)), text("%s, the second of them", what)}
			off, err := p.Publish(context.Background(), recs...)
			var maybe *varve.MaybeStoredError
			switch {
			case err == nil:
				r.note(p, off, recs...)
			case !errors.Is(err, syscall.EIO) || errors.As(err, &maybe) || errors.Is(err, varve.ErrReadOnly):
				r.t.Errorf("a publish to %s: %v", bookName(p), err)
			default:
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return int(failed.Load())
}

// mixed are partitions of all levels.
func mixed(r *rig) (parts []*varve.Partition) {
	for _, level := range []string{"fsync", "fsync", "interval", "fsync", "os", "fsync"} {
		name := fmt.Sprintf("%s-%d", level, len(parts))
		r.topic(name, 1, "durability="+level, "retention.ms=-1", "segment.bytes=700")
		parts = append(parts, r.part(name, 0))
	}
	return parts
}

// Any write that a segment refuses, once or from then on, in part, not at all or wholly done,
// fails the publishes whose bytes it has and costs no offset: those to partitions of other
// levels, and to others that share the round, go on; what comes next has the offset; and
// nothing of it is ever seen, after a stop, a kill or a power cut.
func TestAnyRefusedWriteCostsNoOffset(t *testing.T) {
	for n := int64(1); n <= 40; n += int64(stride(3)) {
		for kind, f := range []*refusals{{}, {short: 20}, {done: true}, {short: 20, lasts: true}} {
			f.n = n
			r := newRig(t, background, func(r *rig) { r.rule = f.rule })
			parts := mixed(r)
			shared(r, parts, "in front")
			f.armed.Store(true)
			refused := 0
			for k := range 8 {
				refused += shared(r, parts, fmt.Sprintf("of turn %d", k))
			}
			f.armed.Store(false)
			if (refused == 0) == (f.seen.Load() >= n) {
				t.Errorf("write %d, kind %d: of %d writes one was to fail, and %d publishes did", n, kind, f.seen.Load(), refused)
			}
			for _, p := range parts {
				end := varve.Offset(len(r.acked[bookName(p)]))
				if off := r.publish(p, text("behind it")); off != end || p.LogEnd() != end+1 {
					t.Errorf("write %d, kind %d: the next record of %s is at %d, expected %d; the log ends at %d", n, kind, bookName(p), off, end, p.LogEnd())
				}
			}
			switch r.rule = nil; (int(n) + kind) % 4 {
			case 0:
				r.kill()
			case 1:
				for _, p := range parts {
					if err := p.WaitDurable(context.Background(), p.LogEnd()); err != nil {
						t.Error(err)
					}
				}
				r.cut(vfs.CrashOptions{Seed: uint64(n), Unsynced: vfs.Unsynced(n % 5), Names: vfs.NamesLost})
			case 2:
				r.kill()
				r.kill()
			}
			if r.verify(); t.Failed() {
				return
			}
		}
	}
}

// A start after a kill puts back nothing that was taken back, though the journal has it, and
// does not write it over what is there instead and no frame has.
func TestTakenBackIsNotPutBack(t *testing.T) {
	for _, ack := range allLevels {
		f := &refusals{n: 1, short: 30}
		r := newRig(t, background, func(r *rig) { r.rule = f.rule })
		r.topic("t", 4, "retention.ms=-1")
		parts := []*varve.Partition{r.part("t", 0), r.part("t", 1), r.part("t", 2), r.part("t", 3)}
		shared(r, parts, "in front")
		f.armed.Store(true)
		long := []varve.Record{text("%s", strings.Repeat("refused ", 20)), text("refused too")}
		if _, err := parts[0].Publish(context.Background(), long...); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a publish that the segment refuses: %v", err)
		}
		level, err := varve.ParseDurability(ack)
		if err != nil {
			t.Fatal(err)
		}
		rec := text("in its place")
		places, err := parts[0].Topic().Publisher(varve.PublisherOptions{ByPartition: true, Ack: level}).PublishAll(context.Background(), []varve.Record{rec})
		if err != nil || places[0].Offset != 2 {
			t.Fatalf("a publish at level %s: %+v (%v)", ack, places, err)
		}
		r.note(parts[0], 2, rec)
		cuts := 0
		left := r.disk.Clone()
		if _, err := wal.Read(left, "wal", func(round wal.Round) error {
			for _, frame := range round.Frames {
				if frame.TakenBack > 0 {
					cuts++
				}
			}
			return nil
		}); err != nil || cuts != 1 {
			t.Fatalf("%d frames of the journal were taken back (%v)", cuts, err)
		}
		r.rule = nil
		r.kill()
		if end := r.part("t", 0).LogEnd(); end != 3 {
			t.Errorf("after a kill the log ends at %d", end)
		}
		r.verify()
	}
}

// No bit of the round that takes it back brings it back.
func TestNoBitBringsBackWhatWasTakenBack(t *testing.T) {
	f := &refusals{n: 1, short: 30}
	r := newRig(t, background, func(r *rig) { r.rule = f.rule })
	r.topic("t", 2, "retention.ms=-1")
	p, other := r.part("t", 0), r.part("t", 1)
	r.publish(p, text("in front"))
	f.armed.Store(true)
	if _, err := p.Publish(context.Background(), text("refused")); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a publish that the segment refuses: %v", err)
	}
	r.publish(other, text("behind it"))
	left := r.disk.Clone()
	var at, size int64
	if _, err := wal.Read(left, "wal", func(round wal.Round) error {
		if len(round.Frames) > 0 && round.Frames[0].Kind == wal.Cut {
			at, size = round.Pos, 40
			for i := range round.Frames {
				size += round.Frames[i].Size()
			}
		}
		return nil
	}); err != nil || size != 40+2*64 {
		t.Fatalf("a round of %d bytes takes it back (%v)", size, err)
	}
	for bit := 8 * at; bit < 8*(at+size); bit += int64(stride(7)) {
		disk := left.Clone()
		if err := disk.FlipBit("wal/0000000001.wal", bit); err != nil {
			t.Fatal(err)
		}
		e, _ := openOn(t, disk)
		topic, err := e.Topic("t")
		if err != nil {
			t.Fatal(err)
		}
		again, err := topic.Partition(0)
		if err != nil {
			t.Fatal(err)
		}
		if end := again.End(); end != 1 {
			t.Errorf("with bit %d of the round flipped the log ends at %d", bit-8*at, end)
		}
		mustClose(t, e)
	}
}

// A journal that cannot take it back: who waits is told that it may be stored, the others of
// the round have what they had, and the next start has what the journal has.
func TestTakingBackFails(t *testing.T) {
	var armed atomic.Bool
	var segments, journal atomic.Int64
	r := newRig(t, background, func(r *rig) {
		r.loud = true
		r.rule = func(op vfs.Op) vfs.Fault {
			switch {
			case !armed.Load() || op.Kind != vfs.OpWrite:
			case strings.HasSuffix(op.Name, ".log") && segments.Add(1) == 1:
				return vfs.Fault{Err: syscall.EIO}
			case strings.HasSuffix(op.Name, ".wal") && segments.Load() > 0 && journal.Add(1) == 1:
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	p := r.one("retention.ms=-1")
	r.publish(p, text("in front"))
	armed.Store(true)
	rec := text("refused and kept")
	_, err := p.Publish(context.Background(), rec)
	var maybe *varve.MaybeStoredError
	if !errors.As(err, &maybe) || !errors.Is(err, varve.ErrReadOnly) {
		t.Fatalf("a publish that could not be taken back: %v", err)
	}
	if _, err := p.Publish(context.Background(), text("behind it")); !errors.Is(err, varve.ErrReadOnly) {
		t.Errorf("a publish behind it: %v", err)
	}
	armed.Store(false)
	r.note(p, 1, rec)
	left := r.disk.Clone()
	r.engine.Close() // it says that not all is in the files
	r.engine, r.disk, r.rule = nil, left, nil
	r.open()
}

// The journal of a topic that cannot be opened is carried over without what was taken back,
// whenever that is cut.
func TestCarriedOverWithoutWhatWasTakenBack(t *testing.T) {
	disk := vfs.NewMem()
	f := &refusals{n: 1, short: 30}
	e, _ := openOn(t, vfs.NewFaulty(disk, f.rule))
	topic := mustTopic(t, e, "b")
	want := fill(t, topic, "in front", 3)
	f.armed.Store(true)
	if _, err := topic.Publish(context.Background(), text("%s", strings.Repeat("refused ", 30))); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a publish that the segment refuses: %v", err)
	}
	want = append(want, fill(t, topic, "in its place", 2)...)
	left := lost(disk)
	mustClose(t, e)
	files := []string{"topics/b/topic.json", "topics/b/topic.json" + copySuffix}
	good, err := left.ReadFile(files[0])
	for _, name := range files {
		err = errors.Join(err, left.WriteFile(name, []byte("garbage")))
	}
	if err != nil {
		t.Fatal(err)
	}
	var cuts []*vfs.Mem
	carrying := left.Clone()
	var mu sync.Mutex
	e, _ = openOn(t, vfs.NewFaulty(carrying, func(op vfs.Op) vfs.Fault {
		if changesDisk(op.Kind) {
			mu.Lock()
			defer mu.Unlock()
			cuts = append(cuts, carrying.Clone(), carrying.Crash(vfs.CrashOptions{Names: vfs.NamesJournaled}))
		}
		return vfs.Fault{}
	}))
	mustClose(t, e)
	mu.Lock()
	defer mu.Unlock()
	for _, cut := range append(cuts, carrying) {
		for _, name := range files {
			if err := cut.WriteFile(name, good); err != nil {
				t.Fatal(err)
			}
		}
		checkValues(t, cut, map[string][]string{"b": want})
	}
}
