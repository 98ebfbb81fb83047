package varve_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

const isMissing = "topic is missing"

func pause(d time.Duration) act { return func(*world) { time.Sleep(d) } }

// deletionStories delete topics, and leave one of the name b.
var deletionStories = map[string][]act{
	"between checkpoints": {
		create("a", 2, small), create("b", 1), publishOne("a", 2), publishOne("b", 1), pause(6 * time.Second),
		remove("a"), publishOne("b", 1), pause(12 * time.Second), publishOne("b", 1),
	},
	"in no checkpoint": {
		create("a", 1), publishOne("a", 1), create("b", 1), publishOne("b", 1), remove("a"), pause(12 * time.Second), publishOne("b", 1),
	},
	"twice, under one name": {
		create("b", 1), publishOne("b", 1), create("a", 1), publishOne("a", 1), remove("a"), create("a", 2), publishOne("a", 1),
		pause(6 * time.Second), remove("a"), create("a", 1), publishOne("a", 1), pause(12 * time.Second),
	},
	"everything": {
		create("a", 1), publishOne("a", 2), pause(6 * time.Second), remove("a"), pause(12 * time.Second), create("b", 1), publishOne("b", 2),
	},
	"beside a weaker topic": {
		create("b", 1, "durability=os"), publishOne("b", 1), create("a", 1), publishOne("a", 1), pause(6 * time.Second),
		remove("a"), publishOne("b", 2), pause(40 * time.Second), publishOne("b", 1),
	},
	"and a stop": {
		create("a", 1), create("b", 1), publishOne("a", 1), publishOne("b", 1), remove("a"), restart, publishOne("b", 1),
	},
}

// The power goes off, or the process is killed, at every call of deletions and of what
// comes behind them. No deleted topic is called missing, at that start, at one that is cut
// anywhere, or later; a topic that somebody takes away then is called missing, always.
func TestDeletedIsToldFromTakenAway(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	for name, story := range deletionStories {
		t.Run(name, func(t *testing.T) {
			var total int64
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, name)
				w.play(story)
				total = w.calls.Load()
				w.noneLeft()
				w.close()
				w.noneLeft()
			})
			for n := int64(1); n <= total && !t.Failed(); n += int64(stride(7)) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, fmt.Sprintf("cut at call %d", n))
					w.limit.Store(n)
					w.play(story)
					w.stop()
					w.toldApart("killed", w.disk.Clone(), n)
					for _, how := range engineCuts(n, 2) {
						w.toldApart(fmt.Sprintf("%s, names %s, seed %d", how.Unsynced, how.Names, how.Seed), w.disk.Crash(how), n)
					}
				})
			}
		})
	}
}

// toldApart starts on what a crash has left, with topic b and without it.
func (w *world) toldApart(name string, disk *vfs.Mem, n int64) {
	w.t.Helper()
	w.startCut(name+", its start cut", disk.Clone(), 1+n%40)
	if b := w.topics["b"]; b != nil && spokenOf(disk, b) {
		without := w.on(w.name+", "+name+", b taken away", disk.Clone())
		if err := without.disk.RemoveAll("topics/b"); err != nil {
			w.errorf("%s: %v", name, err)
		}
		delete(without.topics, "b")
		for range 2 { // the second start is one behind a start that was killed
			left := w.on(without.name, without.disk.Clone())
			if left.open() {
				left.tells(b.id.String())
				left.stop()
			}
			without.limit.Store(1 + n%7)
			if without.open(); without.engine != nil {
				without.stop()
			}
		}
	}
	left := w.on(w.name+", "+name, disk)
	if left.open() {
		left.tells("")
		left.checkTidy()
		left.stop()
	}
}

// spokenOf says that the journal or the checkpoint speaks of a topic with a partition. The
// journal does where an fsync was waited for.
func spokenOf(disk *vfs.Mem, f *topicFacts) bool {
	data, _ := disk.ReadFile("checkpoint")
	kept, _ := checkpoint.Decode(data)
	_, known := kept.Logs[wal.Log{Topic: f.id}]
	return known || f.level == varve.Fsync && f.part(0).durable > 0
}

// startCut cuts a start off at a call, and goes on with another one.
func (w *world) startCut(name string, disk *vfs.Mem, call int64) {
	w.t.Helper()
	first := w.on(w.name+", "+name, disk)
	first.limit.Store(call)
	if first.open() {
		first.stop()
	}
	for _, disk := range []*vfs.Mem{first.disk.Clone(), first.disk.Crash(vfs.CrashOptions{}), first.disk.Crash(vfs.CrashOptions{Seed: uint64(call), Names: vfs.NamesRandom})} {
		again := w.on(first.name, disk)
		if again.open() {
			again.tells("")
			again.stop()
		}
	}
}

// tells sees that the log says that a topic is missing, or with "" that it does not.
func (w *world) tells(id string) {
	w.t.Helper()
	said := w.logged.first(isMissing)
	if id == "" && said != "" || id != "" && (!strings.Contains(said, id) || !strings.Contains(said, "level=ERROR")) {
		w.errorf("of missing topics it says %q, and %q is", said, id)
	}
}

// noneLeft sees that no directory of a deleted topic is left.
func (w *world) noneLeft() {
	w.t.Helper()
	if left := deletedDirs(w.t, w.disk); len(left) > 0 {
		w.errorf("left over are %q", left)
	}
}

func deletedDirs(t testing.TB, disk *vfs.Mem) (names []string) {
	t.Helper()
	entries, err := disk.ReadDir("topics")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		if strings.HasPrefix(f.Name(), "~") {
			names = append(names, f.Name())
		}
	}
	return names
}

// A topic that was taken away after a kill is told in the words of a clean stop, once, and
// the engine starts; the journal alone may know of it.
func TestTopicTakenAwayAfterAKillIsTold(t *testing.T) {
	for _, known := range []string{"by the checkpoint", "by the journal"} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			e, _ := openOn(t, disk)
			mustTopic(t, e, "stays")
			gone := mustTopic(t, e, "gone")
			fill(t, gone, "value", 2)
			if known == "by the checkpoint" {
				time.Sleep(6 * time.Second)
			}
			killed := disk.Clone()
			mustClose(t, e)
			if err := killed.RemoveAll("topics/gone"); err != nil {
				t.Fatal(err)
			}
			e, logged := openOn(t, killed)
			want := fmt.Sprintf("level=ERROR msg=\"topic is missing: its directory is gone since the stop\" id=%s partitions=1\n", gone.ID())
			if said := logged.first(isMissing); !strings.HasSuffix(said, want) {
				t.Errorf("%s: it says %q", known, said)
			}
			again := killed.Clone()
			mustClose(t, e)
			e, logged = openOn(t, again)
			if said := logged.first(isMissing); said != "" {
				t.Errorf("%s: said again: %q", known, said)
			}
			mustClose(t, e)
		})
	}
}

// The directories of deleted topics go when nothing speaks of the topics any more: also
// where all topics are deleted, and no record is published any more.
func TestDirectoriesOfDeletedTopicsGo(t *testing.T) {
	for _, rest := range []string{"", "durability=fsync", "durability=os"} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			e, _ := openOn(t, disk)
			if rest != "" {
				topic, err := e.CreateTopic("rest", varve.TopicConfig{Config: config(rest)})
				if err != nil {
					t.Fatal(err)
				}
				fill(t, topic, "value", 1)
			}
			for i := range 10 {
				name := fmt.Sprint("t", i)
				fill(t, mustTopic(t, e, name), "value", i%3)
				if err := e.DeleteTopic(name); err != nil {
					t.Fatal(err)
				}
			}
			before := disk.Files()
			if left := deletedDirs(t, disk); len(left) != 10 || slices.ContainsFunc(before, func(f string) bool { return strings.Contains(f, "~") }) {
				t.Errorf("%q: there are %q, and the files %q", rest, left, before)
			}
			time.Sleep(45 * time.Second)
			if left := deletedDirs(t, disk); len(left) > 0 {
				t.Errorf("%q: left over are %q", rest, left)
			}
			killed := disk.Clone()
			mustClose(t, e)
			e, logged := openOn(t, killed)
			if said := logged.first(isMissing); said != "" {
				t.Errorf("%q: it says %q", rest, said)
			}
			mustClose(t, e)
		})
	}
}

// Where no checkpoint can be saved without a topic that was deleted, at the stop or at a
// start, its directory stays, and the next start is not told that it is missing.
func TestDirectoryOfADeletedTopicOutlivesItsCheckpoint(t *testing.T) {
	disk := vfs.NewMem()
	sick := false
	fsys := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if sick && strings.HasPrefix(op.Name, "checkpoint") && op.Kind != vfs.OpOpen && op.Kind != vfs.OpRead {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	})
	e, _ := openOn(t, fsys)
	mustTopic(t, e, "gone") // nothing of it is in the journal
	fill(t, mustTopic(t, e, "stays"), "value", 1)
	mustClose(t, e)
	for start := range 3 {
		sick = start < 2
		e, logged := openOn(t, fsys)
		if start == 0 {
			if err := e.DeleteTopic("gone"); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, e)
		if said := logged.first(isMissing); said != "" {
			t.Errorf("start %d says %q", start, said)
		}
		if n := len(deletedDirs(t, disk)); (n > 0) != sick {
			t.Errorf("after start %d there are %d directories of deleted topics", start, n)
		}
	}
}

// A topic that cannot be opened keeps its journal for another start, and that of topics
// that were deleted meanwhile is not taken for that of topics that are missing.
func TestDeletedBesideWhatCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		e, _ := openOn(t, disk)
		fill(t, mustTopic(t, e, "early"), "value", 2)
		if err := e.DeleteTopic("early"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(12 * time.Second)
		if left := deletedDirs(t, disk); len(left) > 0 { // what is left of it is in a file of the journal
			t.Fatalf("there is %q", left)
		}
		fill(t, mustTopic(t, e, "a"), "value", 2)
		fill(t, mustTopic(t, e, "gone"), "value", 2)
		fill(t, mustTopic(t, e, "late"), "value", 2)
		if err := e.DeleteTopic("gone"); err != nil {
			t.Fatal(err)
		}
		killed := disk.Clone()
		mustClose(t, e)
		good, err := killed.ReadFile("topics/a/topic.json")
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, killed, "topics/a/topic.json", "empty")
		spoil(t, killed, "topics/a/topic.json.copy", "empty")
		for start := range 3 {
			e, _ = openOn(t, killed)
			if start == 0 {
				if err := e.DeleteTopic("late"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(12 * time.Second)
			}
			left := killed.Clone()
			mustClose(t, e)
			killed = left
		}
		if err := killed.WriteFile("topics/a/topic.json", good); err != nil {
			t.Fatal(err)
		}
		e, logged := openOn(t, killed)
		if said := logged.first(isMissing); said != "" {
			t.Errorf("it says %q", said)
		}
		if end := partOf(t, mustTopic(t, e, "a"), 0).End(); end != 2 {
			t.Errorf("a ends at %d", end)
		}
		if left := deletedDirs(t, killed); len(left) > 0 {
			t.Errorf("left over are %q", left)
		}
		mustClose(t, e)
	})
}

// Before version 3 a deleted topic left no directory: after a kill of such a varve nothing
// tells it from a missing one, and nobody is alarmed.
func TestDeletionsOfAnOlderVersionAreNoAlarm(t *testing.T) {
	for version, told := range map[int]bool{2: false, 3: true} {
		disk := vfs.NewMem()
		e, _ := openOn(t, disk)
		fill(t, mustTopic(t, e, "t"), "value", 2)
		killed := disk.Clone()
		mustClose(t, e)
		if err := killed.RemoveAll("topics/t"); err != nil {
			t.Fatal(err)
		}
		if err := twin.Save(killed, "FORMAT", 7, fmt.Appendf(nil, `{"version":%d}`, version)); err != nil {
			t.Fatal(err)
		}
		e, logged := openOn(t, killed)
		if said := logged.first(isMissing); (said != "") != told {
			t.Errorf("of a directory of version %d it says %q", version, said)
		}
		mustClose(t, e)
	}
}
