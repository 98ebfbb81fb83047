package varve_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// valve lets a test hold one call to the file layer: the first that matches
// after it was closed.
type valve struct {
	matches func(vfs.Op) bool
	shut    atomic.Bool
	reached chan struct{} // closed when the call has come
	gate    chan struct{} // closed to let it go on
}

func newValve(matches func(vfs.Op) bool) *valve {
	return &valve{matches: matches, reached: make(chan struct{}), gate: make(chan struct{})}
}

func (v *valve) rule(op vfs.Op) vfs.Fault {
	if v.matches(op) && v.shut.CompareAndSwap(true, false) {
		close(v.reached)
		return vfs.Fault{Block: v.gate}
	}
	return vfs.Fault{}
}

// give gives other goroutines time to run, without a clock.
func give() {
	for range 2000 {
		runtime.Gosched()
	}
}

// Work that is under way in a topic when it is deleted touches nothing of the
// topic that takes its name (KAFKA-12964): a roll by age, a checkpoint, the
// finishing of a segment, a trim, each held inside a call to the file layer.
func TestWorkOnADeletedTopicTouchesNoOther(t *testing.T) {
	inT := func(kind vfs.OpKind, suffix string) func(vfs.Op) bool {
		return func(op vfs.Op) bool {
			return op.Kind == kind && strings.HasPrefix(op.Name, "topics/t/0") && strings.HasSuffix(op.Name, suffix)
		}
	}
	for name, c := range map[string]struct {
		hold func(vfs.Op) bool
		work func(r *rig, p *varve.Partition)
	}{
		"roll by age": {inT(vfs.OpCreate, ".log"), func(r *rig, _ *varve.Partition) {
			r.advance(48 * time.Hour)
			r.engine.RunRetention()
		}},
		"roll by age, made already": {inT(vfs.OpStat, ".log"), func(r *rig, _ *varve.Partition) {
			r.advance(48 * time.Hour)
			r.engine.RunRetention()
		}},
		"publish that rolls": {inT(vfs.OpCreate, "17.log"), func(_ *rig, p *varve.Partition) {
			p.Publish(context.Background(), text("%s", strings.Repeat("x", 5000)))
		}},
		"trim": {inT(vfs.OpWrite, "partition.json"), func(_ *rig, p *varve.Partition) { p.Trim(10) }},
		"finishing": {inT(vfs.OpCreate, ".timeindex"), func(_ *rig, p *varve.Partition) {
			p.Publish(context.Background(), text("%s", strings.Repeat("x", 5000)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValve(c.hold)
			r := newRig(t, background, func(r *rig) { r.rule = v.rule })
			settings := []string{"segment.ms=86400000", "segment.bytes=5000", "retention.ms=-1", "index.interval.bytes=1"}
			p := r.one(settings...)
			for i := range 17 {
				r.publish(p, text("old %d", i))
			}
			v.shut.Store(true)
			var wg sync.WaitGroup
			wg.Go(func() { c.work(r, p) })
			<-v.reached

			replaced := make(chan struct{})
			wg.Go(func() {
				defer close(replaced)
				if err := r.engine.DeleteTopic("t"); err != nil {
					t.Errorf("delete: %v", err)
				}
				r.forget("t")
				r.topic("t", 1, settings...)
			})
			give()
			select {
			case <-replaced: // the deletion did not wait
			default:
			}
			close(v.gate)
			wg.Wait()

			files := r.disk.Files()
			p = r.part("t", 0)
			if p.End() != 0 || p.LogEnd() != 0 {
				t.Errorf("the new topic holds [0, %d)", p.LogEnd())
			}
			if left := slices.DeleteFunc(files, func(name string) bool {
				return !strings.HasPrefix(name, "topics/") || strings.Contains(name, ".json")
			}); len(left) > 0 {
				t.Errorf("the new topic has files of the old one: %q", left)
			}
			for i := range 40 {
				if off := r.publish(p, text("new %d", i)); off != varve.Offset(i) {
					t.Errorf("record %d is at %d", i, off)
				}
			}
			r.reopen()
			if p = r.part("t", 0); p.Start() != 0 || p.End() != 40 {
				t.Errorf("after a restart there is [%d, %d), want [0, 40)", p.Start(), p.End())
			}
			r.kill()
			if p = r.part("t", 0); p.Start() != 0 || p.End() != 40 {
				t.Errorf("after a kill there is [%d, %d), want [0, 40)", p.Start(), p.End())
			}
		})
	}
}

// A checkpoint that is under way when a topic is deleted comes to an end, though
// the topic has segments that nobody will finish any more.
func TestDeletionDuringACheckpoint(t *testing.T) {
	tidying := newValve(func(op vfs.Op) bool {
		return op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, "topics/t/0/") && strings.HasSuffix(op.Name, ".timeindex")
	})
	checkpointing := newValve(func(op vfs.Op) bool { // of the topic in front of t
		return op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, "topics/a/0/") && strings.HasSuffix(op.Name, ".index")
	})
	close(checkpointing.gate)
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if f := tidying.rule(op); f.Block != nil {
				return f
			}
			return checkpointing.rule(op)
		}
	})
	r.topic("a", 1, "retention.ms=-1", "index.interval.bytes=1")
	r.topic("t", 1, "retention.ms=-1", "segment.bytes=150", "index.interval.bytes=1")
	tidying.shut.Store(true)
	for i := range 9 {
		r.publish(r.part("t", 0), text("%d", i))
	}
	<-tidying.reached
	checkpointing.shut.Store(true)
	for i := range 3 {
		r.publish(r.part("a", 0), text("%d", i))
	}
	<-checkpointing.reached // the checkpoint comes to t next, and waits for the tidying
	give()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.engine.DeleteTopic("t"); err != nil {
			t.Errorf("delete: %v", err)
		}
		r.forget("t")
	})
	give()
	close(tidying.gate)
	wg.Wait()
	closed := make(chan error, 1)
	go func() { closed <- r.engine.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("close: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the checkpoint does not end")
	}
	r.engine = nil
	r.open()
}

// Deletion beside publishers, readers, trims and retention, over and over under
// one name: nothing crashes, the new topic is empty and another one, nothing is
// left behind (KAFKA-13403, redpanda-data/redpanda#4003, liftbridge-io/liftbridge#299).
func TestDeleteAndRecreateBesideEverything(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 20
	}
	r := newRig(t, func(r *rig) { r.opt.RetentionInterval = time.Millisecond })
	ids := map[string]bool{}
	for round := range rounds {
		topic := r.topic("t", 2, "segment.bytes=300", "segment.ms=50", "retention.bytes=2000", "durability="+[]string{"fsync", "os"}[round%2])
		if id := topic.ID().String(); ids[id] || id == "00000000-0000-0000-0000-000000000000" {
			t.Fatalf("round %d: the id %s again", round, id)
		} else {
			ids[id] = true
		}
		for i := range 2 {
			if p := r.part("t", i); p.Start() != 0 || p.End() != 0 || p.LogEnd() != 0 {
				t.Fatalf("round %d: a new topic holds [%d, %d)", round, p.Start(), p.LogEnd())
			}
		}
		var wg sync.WaitGroup
		var published atomic.Int64
		for g := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					_, err := topic.Publish(context.Background(), text("round %d publisher %d record %d", round, g, i))
					if err != nil {
						if !errors.Is(err, varve.ErrClosed) {
							t.Errorf("round %d: publish: %v", round, err)
						}
						return
					}
					published.Add(1)
				}
			})
		}
		wg.Go(func() {
			for rec, err := range topic.Follow(context.Background(), varve.Earliest()) {
				if err != nil && !goesOn(err) {
					if !errors.Is(err, varve.ErrClosed) {
						t.Errorf("round %d: follow: %v", round, err)
					}
					return
				}
				if err == nil && !strings.HasPrefix(string(rec.Value), fmt.Sprintf("round %d ", round)) {
					t.Errorf("round %d: read %q", round, rec.Value)
				}
			}
		})
		wg.Go(func() {
			for {
				r.advance(20 * time.Millisecond)
				if err := r.engine.RunRetention(); err != nil {
					t.Errorf("round %d: retention: %v", round, err)
					return
				}
				p, err := topic.Partition(0)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := p.Trim(p.End() / 2); err != nil {
					if !errors.Is(err, varve.ErrClosed) {
						t.Errorf("round %d: trim: %v", round, err)
					}
					return
				}
			}
		})
		for published.Load() < 20 {
			runtime.Gosched()
		}
		if err := r.engine.DeleteTopic("t"); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if _, err := r.engine.Topic("t"); !errors.Is(err, varve.ErrNoTopic) {
			t.Errorf("round %d: a deleted topic is found: %v", round, err)
		}
		wg.Wait()
	}
	r.close()
	if files := r.disk.Files(); slices.ContainsFunc(files, func(name string) bool { return strings.HasPrefix(name, "topics/") }) {
		t.Errorf("left are %q", files)
	}
	r.open()
}

// goesOn says whether a reader goes on behind an error.
func goesOn(err error) bool {
	var damage *varve.CorruptError
	var lost *varve.OutOfRangeError
	return errors.As(err, &damage) || errors.As(err, &lost)
}

// A trim that is under way when the engine is closed is finished first, or
// refused: one that was acknowledged holds, and no retention pass is half kept.
func TestTrimBesideClose(t *testing.T) {
	for name, work := range map[string]func(r *rig, p *varve.Partition) error{
		"trim": func(_ *rig, p *varve.Partition) error {
			_, err := p.Trim(15)
			return err
		},
		"retention": func(r *rig, _ *varve.Partition) error { return r.engine.RunRetention() },
	} {
		t.Run(name, func(t *testing.T) {
			v := newValve(func(op vfs.Op) bool { return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, "partition.json") })
			r := newRig(t, background, func(r *rig) { r.rule = v.rule })
			p := r.one("segment.bytes=300", "retention.ms=-1")
			for i := range 20 {
				r.publish(p, text("%d", i))
			}
			if err := p.Topic().Alter(map[string]string{"retention.bytes": "400"}); err != nil {
				t.Fatal(err)
			}
			v.shut.Store(true)
			var wg sync.WaitGroup
			var trimmed error
			wg.Go(func() { trimmed = work(r, p) })
			<-v.reached
			wg.Go(func() {
				if err := r.engine.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			for { // until the stop has begun
				if _, err := p.Reader(varve.Latest()); errors.Is(err, varve.ErrClosed) {
					break
				}
				runtime.Gosched()
			}
			give()
			close(v.gate)
			wg.Wait()
			start := p.Start()
			r.engine = nil
			r.open()
			if trimmed != nil && !errors.Is(trimmed, varve.ErrClosed) {
				t.Errorf("%s: %v", name, trimmed)
			}
			if p = r.part("t", 0); p.Start() != start || p.End() != 20 {
				t.Errorf("the start was %d (%v); after a restart there is [%d, %d)", start, trimmed, p.Start(), p.End())
			}
		})
	}
}
