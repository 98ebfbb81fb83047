package varve_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

const small = "segment.bytes=300"

// engineStories are programs of what an engine can be asked to do.
var engineStories = map[string][]act{
	"publish": {
		create("a", 2, small), publishOne("a", 3), publishMany("a", 12), publishOne("a", 1), idle, publishMany("a", 8),
	},
	"levels": {
		create("f", 1, small), create("i", 1, small, "durability=interval"), create("o", 1, small, "durability=os"),
		publishOne("f", 2), publishMany("i", 8), publishMany("o", 8), idle, publishMany("o", 5), publishOne("f", 1),
		alter("o", "durability=fsync"), publishOne("o", 2), alter("f", "durability=os"), publishOne("f", 4),
		alter("i", "durability=fsync"), publishMany("i", 4),
	},
	"trim and retention": {
		create("a", 1, small), publishMany("a", 12), trimTo("a", 0, 4), publishOne("a", 3), idle,
		alter("a", "retention.ms=0"), runRetention, publishOne("a", 2), alter("a", "retention.ms=-1"), trimTo("a", 0, 0), publishOne("a", 2),
	},
	"topics": {
		create("a", 1, small), publishOne("a", 3), create("b", 2, small), publishOne("b", 1), remove("a"),
		create("a", 1, small), publishOne("a", 2), addPartitions("b", 4), publishOne("b", 1), remove("b"), create("c", 1),
	},
	"stops": {
		create("a", 2, small), publishOne("a", 4), restart, publishOne("a", 2), restart, restart, trimTo("a", 1, 1), restart,
		publishMany("a", 8), restart,
	},
}

// trials runs f in a bubble of its own for every call at which the power may go
// off in a story.
func trials(t *testing.T, every int, f func(t *testing.T, story []act, n int64)) {
	for name, story := range engineStories {
		t.Run(name, func(t *testing.T) {
			var total int64
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, name)
				w.play(story)
				total = w.calls.Load()
				w.close()
			})
			for n := int64(1); n <= total && !t.Failed(); n += int64(every) {
				synctest.Test(t, func(t *testing.T) { f(t, story, n) })
			}
			t.Logf("%d calls", total)
		})
	}
}

func stride(short int) int {
	if testing.Short() || raceDetector {
		return short
	}
	return 1
}

// engineCuts are ways to lose what was not synced, one of them for each seed.
func engineCuts(n int64, many int) (all []vfs.CrashOptions) {
	all = append(all, vfs.CrashOptions{}, vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	for i := range many {
		seed := uint64(n)*31 + uint64(i)
		all = append(all, vfs.CrashOptions{
			Seed: seed, Unsynced: vfs.Unsynced(1 + seed%3), Names: vfs.Names(seed / 3 % 4),
		})
	}
	return all
}

// The power goes off at every call that changes the disk. What the engine
// acknowledged before, topics, settings, records and log starts, is there
// afterwards, nothing else is, and the engine goes on.
func TestEngineSurvivesEveryCrash(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	trials(t, stride(5), func(t *testing.T, story []act, n int64) {
		w := newWorld(t, fmt.Sprintf("cut at call %d", n))
		w.limit.Store(n)
		w.play(story)
		w.stop()
		for _, how := range engineCuts(n, 4) {
			afterCrash(t, w, how)
		}
	})
}

func afterCrash(t *testing.T, w *world, how vfs.CrashOptions) {
	name := fmt.Sprintf("%s, %s, names %s, seed %d", w.name, how.Unsynced, how.Names, how.Seed)
	left := w.on(name, w.disk.Crash(how))
	if !left.open() {
		return
	}
	left.check()
	left.checkTidy()
	for topic, f := range left.topics {
		for i := range f.partitions {
			left.publish(topic, i, 2)
		}
	}
	left.look()
	if t.Failed() {
		t.Logf("the engine said:\n%s", left.logged.buf.String())
		left.stop()
		return
	}
	again := left.on(name+", and again", left.disk.Crash(vfs.CrashOptions{}))
	left.close()
	if again.open() {
		again.check()
		again.close()
	}
	after := left.on(name+", stopped cleanly", left.disk)
	if after.open() {
		after.check()
		after.close()
	}
}

// checkTidy sees that a crash leaves no files about for good.
func (w *world) checkTidy() {
	w.t.Helper()
	entries, err := w.disk.ReadDir("topics")
	if err != nil {
		w.errorf("%v", err)
	}
	for _, e := range entries {
		if _, err := w.engine.Topic(e.Name()); err != nil {
			w.errorf("topics/%s is left over", e.Name())
		}
	}
}

// The process is killed at every call that changes the disk. Nothing that was
// acknowledged on any level is lost.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	trials(t, stride(5), func(t *testing.T, story []act, n int64) {
		w := newWorld(t, fmt.Sprintf("killed at call %d", n))
		w.limit.Store(n)
		w.play(story)
		w.stop()
		left := w.on(w.name, w.disk.Clone())
		for _, f := range left.topics {
			for _, p := range f.parts {
				p.durable = max(p.durable, p.told)
			}
		}
		if left.open() {
			left.check()
			left.close()
		}
	})
}

// The power goes off again and again while the engine recovers, at every call that
// changes the disk: the answers stay the same.
func TestEngineRecoveryMayBeCut(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	trials(t, stride(15)*3, func(t *testing.T, story []act, n int64) {
		w := newWorld(t, fmt.Sprintf("cut at call %d", n))
		w.limit.Store(n)
		w.play(story)
		w.stop()
		for _, how := range engineCuts(n, 1) {
			disk := w.disk.Crash(how)
			for m := int64(1); ; m++ {
				cut := w.on(fmt.Sprintf("%s (%v), recovery cut at call %d", w.name, how, m), disk.Clone())
				cut.limit.Store(m)
				cut.open()
				cut.stop()
				left := w.on(cut.name, cut.disk.Crash(vfs.CrashOptions{Seed: uint64(m), Unsynced: vfs.Unsynced(m % 5), Names: vfs.Names(m / 5 % 4)}))
				if left.open() {
					left.check()
					left.close()
				}
				if t.Failed() || !cut.dead.Load() {
					break
				}
			}
		}
	})
}

// A start reads nothing again that the start before has read: the epochs that a
// recovery raised are kept before anybody publishes under them.
func TestEpochsRiseThoughNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "lost each time")
		w.open()
		create("o", 1, "durability=os")(w)
		seen := int32(-1)
		for range 5 {
			publishOne("o", 3)(w)
			epoch := int32(w.part("o", 0).Stats().Epoch)
			if epoch <= seen {
				t.Fatalf("records that were lost had leader epoch %d, those in their place have %d", seen, epoch)
			}
			seen = epoch
			disk := w.disk.Crash(vfs.CrashOptions{})
			w.stop()
			w = w.on(w.name, disk)
			w.topics["o"].parts = map[int]*partFacts{}
			w.open()
			if end := w.part("o", 0).End(); end != varve.Offset(0) {
				t.Fatalf("the end is %d: nothing was synced", end)
			}
		}
		w.close()
	})
}
