package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// The process is killed inside a write: the operating system has any part of it.
// Nothing that was acknowledged on any level is lost, and of what was under way a
// batch is there whole or not at all.
func TestKillInsideAWrite(t *testing.T) {
	for name, story := range engineStories {
		t.Run(name, func(t *testing.T) {
			for n, total := int64(1), int64(1); n <= total && !t.Failed(); n += int64(stride(5)) {
				synctest.Test(t, func(t *testing.T) { total = n + killInside(t, story, n) })
			}
		})
	}
}

// killInside kills at the nth call that writes. It says how many there are beyond it.
func killInside(t *testing.T, story []act, n int64) (left int64) {
	for _, part := range []int{1, 2, 3} { // quarters of the write
		w := newWorld(t, fmt.Sprintf("killed inside write %d, after %d quarters", n, part))
		writes := int64(0)
		w.cut = func(op vfs.Op) (short int, cut bool) {
			if op.Kind == vfs.OpWrite {
				writes++
			}
			return op.Len * part / 4, op.Kind == vfs.OpWrite && writes == n
		}
		w.play(story)
		w.stop()
		if writes < n {
			return -1
		}
		after := w.on(w.name, w.disk.Clone())
		for _, f := range after.topics {
			for _, p := range f.parts {
				p.durable = max(p.durable, p.told)
			}
		}
		if after.open() {
			after.check()
			after.close()
		}
	}
	return 1
}

// Who was told nothing of a publish, because the machine stopped, asks again on the
// condition that the record gets the offset it was to get: it is stored once, whenever
// the power went.
func TestConditionalRetryStoresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := int64(1); ; n++ {
			w := newWorld(t, fmt.Sprintf("cut at call %d", n))
			w.play([]act{create("t", 1, small), publishOne("t", 5)})
			time.Sleep(10 * time.Millisecond) // the closing mark is written
			w.limit.Store(w.calls.Load() + n)
			next := w.part("t", 0).LogEnd()
			_, err := w.part("t", 0).PublishIf(context.Background(), next, text("once"))
			dead, disk := w.dead.Load(), w.disk
			w.stop()
			for _, how := range append(engineCuts(n, 4), vfs.CrashOptions{Unsynced: vfs.UnsyncedPrefix, Seed: uint64(n)}) {
				retry(t, disk.Crash(how), next, err == nil, fmt.Sprintf("%s, %v", w.name, how))
			}
			if !dead || t.Failed() {
				return
			}
		}
	})
}

func retry(t *testing.T, disk *vfs.Mem, next varve.Offset, acked bool, when string) {
	e, _ := openOn(t, disk)
	defer mustClose(t, e)
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	p := partOf(t, topic, 0)
	_, err = p.PublishIf(context.Background(), next, text("once"))
	var conflict *varve.ConflictError
	switch {
	case err == nil && acked:
		t.Errorf("%s: acknowledged, and not there", when)
	case err != nil && (!errors.As(err, &conflict) || conflict.Next != next+1):
		t.Errorf("%s: asked again: %v", when, err)
	}
	all := valuesOf(t, p)
	if len(all) != int(next)+1 || all[next] != "once" {
		t.Errorf("%s: there is %q", when, all)
	}
}

// A hundred crashes in a row, of the machine and of the process, under way and in
// starts, leave no garbage: the directory stays as large as what is in it, and what
// was durable is there each time.
func TestHundredCrashesOfAnEngine(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	w := newWorld(t, "first")
	for i := range 100 {
		synctest.Test(t, func(t *testing.T) {
			w.t, w.name = t, fmt.Sprintf("crash %d", i)
			if !w.open() {
				t.FailNow()
			}
			w.check()
			if i == 0 {
				create("a", 2, small, "retention.bytes=600")(w)
				create("o", 1, small, "retention.bytes=600", "durability=os")(w)
			}
			w.limit.Store(w.calls.Load() + 1 + rng.Int64N(80))
			for _, a := range []act{publishOne("a", 2), publishMany("o", 6), runRetention, idle, publishMany("a", 6), runRetention} {
				if !w.dead.Load() {
					a(w)
					w.look()
				}
			}
			w.stop()
			how := engineCuts(int64(i), 3)[rng.IntN(5)]
			if rng.IntN(3) == 0 { // and inside the start
				cut := w.on(w.name, w.disk.Crash(how))
				cut.limit.Store(1 + rng.Int64N(40))
				cut.open()
				cut.stop()
				w.disk = cut.disk
			}
			w = w.on("next", w.disk.Crash(how))
			if n := journalFiles(w.disk); n > 4+2 { // what their limit allows, and two that are kept for later
				t.Errorf("crash %d: there are %d files of the journal", i, n)
			}
		})
		if t.Failed() {
			return
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w.t, w.name = t, "at last"
		if w.open() {
			w.check()
			runRetention(w)
			w.close()
		}
		// Three partitions of at most 600 bytes and a segment, each segment in three files.
		if files := w.disk.Files(); len(files) > 70 || journalFiles(w.disk) != 1 {
			t.Errorf("%d files are there: %q", len(files), files)
		}
		if used := w.disk.Used(); used > smallJournal/4+40_000 {
			t.Errorf("%d bytes are used", used)
		}
	})
}

func journalFiles(disk *vfs.Mem) (n int) {
	for _, f := range disk.Files() {
		if strings.HasPrefix(f, "wal/") {
			n++
		}
	}
	return n
}
