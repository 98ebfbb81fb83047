package varve_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// stray puts something into a data directory that does not belong there. The name
// is that of what is looked at afterwards.
type stray struct {
	name string
	put  func(path string) error
}

func strayFile(name string) stray {
	return stray{name, func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) }}
}

func strayDir(name string) stray {
	return stray{name, func(path string) error {
		if err := os.Mkdir(path, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(path, "00000000000000000000.log"), []byte("mine"), 0o600)
	}}
}

// strayLink is a symbolic link to a file, or to a directory with a file in it.
func strayLink(name, target string) stray {
	return stray{name, func(path string) error { return os.Symlink(target, path) }}
}

// Files, directories and symbolic links of any name are named in the log and left
// alone, and do not keep the engine from serving what is its own. Nothing behind a
// link is read or written. (KAFKA-4615 and iggy#3135 are such reports.)
func TestStraysAreNamedAndLeftAlone(t *testing.T) {
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	strays := []stray{
		strayFile("README"), strayFile(".DS_Store"), strayDir("backup"), strayLink("link", victim), strayFile("checkpoint.old"),
		strayFile("wal/README"), strayDir("wal/0000000001.wal.old"), strayLink("wal/link", outside), strayFile("wal/0000000001.wal.damaged"),
		strayFile("topics/README"), strayDir("topics/-0"), strayDir("topics/t-"), strayLink("topics/linked", outside), strayDir("topics/t-0.bak"),
		strayFile("topics/t/x.tmp"), strayDir("topics/t/7"), strayDir("topics/t/00"), strayLink("topics/t/1", outside),
		strayFile("topics/t/0/README"), strayFile("topics/t/0/0000.log"), strayFile("topics/t/0/00000000000000000abc.log"),
		strayFile("topics/t/0/99999999999999999999.log"), strayFile("topics/t/0/00000000000000000000.log.bak"),
		strayDir("topics/t/0/00000000000000000007.log"), strayDir("topics/t/0/sub"),
		strayLink("topics/t/0/00000000000000000009.log", victim), strayLink("topics/t/0/00000000000000000009.index", victim),
		strayLink("topics/t/0/leader-epoch-checkpoint.tmp", victim),
	}
	for _, s := range strays {
		for _, stop := range []string{"clean", "unclean"} {
			t.Run(strings.ReplaceAll(s.name, "/", " ")+" "+stop, func(t *testing.T) {
				if runtime.GOOS == "windows" && strings.Contains(s.name, "link") {
					t.Skip("this machine makes no symbolic links: windows does only with a privilege, which this process lacks")
				}
				dir := t.TempDir()
				logged := new(logLines)
				opt := varve.Options{Logger: slog.New(slog.NewTextHandler(logged, nil)), CacheBytes: -1, JournalBytes: smallJournal}
				e, err := varve.Open(dir, opt)
				if err != nil {
					t.Fatal(err)
				}
				topic, err := e.CreateTopic("t", varve.TopicConfig{})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if _, err := topic.Publish(context.Background(), text("%d", i)); err != nil {
						t.Fatal(err)
					}
				}
				mustClose(t, e)
				if stop == "unclean" {
					if err := os.Remove(filepath.Join(dir, "clean")); err != nil {
						t.Fatal(err)
					}
				}
				path := filepath.Join(dir, filepath.FromSlash(s.name))
				if err := s.put(path); err != nil {
					t.Fatal(err)
				}
				before := looks(t, path)
				for range 2 {
					e, err = varve.Open(dir, opt)
					if err != nil {
						t.Fatal(err)
					}
					topic, err = e.Topic("t")
					if err != nil {
						t.Fatal(err)
					}
					if got := len(collect(t, topic.Records(context.Background(), varve.Earliest()))); got < 5 {
						t.Errorf("%d records are there", got)
					}
					if _, err := topic.Publish(context.Background(), text("more")); err != nil {
						t.Error(err)
					}
					mustClose(t, e)
				}
				if logged.first(filepath.Base(path)) == "" {
					t.Errorf("the log does not name it:\n%s", logged.buf.String())
				}
				if after := looks(t, path); !reflect.DeepEqual(after, before) {
					t.Errorf("it is %v, it was %v", after, before)
				}
				if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
					t.Errorf("what a link points at holds %q (%v)", data, err)
				}
			})
		}
	}
}

// looks describes a file, and what is in a directory.
func looks(t *testing.T, path string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(path, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		text := fmt.Sprint(p, d.Type())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			text += " " + string(data)
		}
		all = append(all, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A directory of a topic that is a copy of another, or was renamed, refuses by
// name; so does a partition in which two files claim an offset, and a partition
// whose place is taken. The others serve.
func TestWhatCannotBeServedRefusesByName(t *testing.T) {
	clean, _, _ := filled(t)
	copyTree := func(m *vfs.Mem, from, to string) {
		for _, f := range m.Files() {
			if rest, ok := strings.CutPrefix(f, from+"/"); ok {
				data, err := m.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if err := m.WriteFile(to+"/"+rest, data); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Run("renamed", func(t *testing.T) {
		m := clean.Clone()
		copyTree(m, "topics/a", "topics/b")
		e, logged := openOn(t, m)
		defer mustClose(t, e)
		if _, err := e.Topic("b"); err == nil || !strings.Contains(err.Error(), "renamed") {
			t.Errorf("the copy is %v", err)
		}
		if _, err := e.Topic("a"); err != nil {
			t.Error(err)
		}
		if logged.first("topics/b") == "" {
			t.Error("the log does not name it")
		}
	})
	t.Run("overlap", func(t *testing.T) {
		m := clean.Clone()
		first, err := m.ReadFile("topics/a/0/00000000000000000006.log")
		if err != nil {
			t.Fatal(err)
		}
		if err := m.WriteFile("topics/a/0/00000000000000000008.log", first); err != nil {
			t.Fatal(err)
		}
		before := dataFiles(t, m)
		e, _ := openOn(t, m)
		topic, err := e.Topic("a")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := topic.Partition(0)
		if err := p.Err(); err == nil || !strings.Contains(err.Error(), "00000000000000000008.log") {
			t.Errorf("the partition says %v", err)
		}
		if _, err := p.Publish(context.Background(), text("x")); err == nil {
			t.Error("it takes records")
		}
		if _, err := p.Reader(varve.Earliest()); err == nil {
			t.Error("it can be read")
		}
		p, _ = topic.Partition(1)
		if _, err := p.Publish(context.Background(), text("x")); err != nil {
			t.Errorf("the other partition: %v", err)
		}
		mustClose(t, e)
		for f, data := range dataFiles(t, m) {
			if strings.HasPrefix(f, "topics/a/0") && !reflect.DeepEqual(data, before[f]) {
				t.Errorf("%s was changed", f)
			}
		}
		// Moved away, all is as it was: the checkpoint of what could not be opened was kept.
		if err := m.Remove("topics/a/0/00000000000000000008.log"); err != nil {
			t.Fatal(err)
		}
		want, _ := openOn(t, clean.Clone())
		e, _ = openOn(t, m)
		if got, w := ask(t, e)["a/0"], ask(t, want)["a/0"]; !reflect.DeepEqual(got, w) {
			t.Error(difference(answers{"a/0": got}, answers{"a/0": w}))
		}
		mustClose(t, want)
		mustClose(t, e)
	})
	t.Run("partition directory missing", func(t *testing.T) {
		m := clean.Clone()
		want, _ := openOn(t, clean.Clone())
		w := ask(t, want)
		mustClose(t, want)
		if err := m.RemoveAll("topics/a/0"); err != nil {
			t.Fatal(err)
		}
		e, logged := openOn(t, m)
		if logged.first("level=ERROR") == "" {
			t.Error("the log says nothing")
		}
		topic, _ := e.Topic("a")
		p, _ := topic.Partition(0)
		if off, err := p.Publish(context.Background(), text("x")); err != nil || off != w["a/0"].end {
			t.Errorf("the next record got offset %d (%v), the end was %d", off, err, w["a/0"].end)
		}
		if got := ask(t, e)["o/1"]; !reflect.DeepEqual(got, w["o/1"]) {
			t.Error("another partition is not as it was")
		}
		lost := 0
		for rec, err := range p.Records(context.Background(), varve.Earliest()) {
			if err != nil {
				lost++
			} else if string(rec.Value) != "x" {
				t.Errorf("offset %d holds %s", rec.Offset, rec.Value)
			}
		}
		if lost == 0 {
			t.Error("readers are not told that records are missing")
		}
		mustClose(t, e)
	})
}

// New partitions do not take the place of a directory that somebody put there.
func TestAddPartitionsSparesWhatIsThere(t *testing.T) {
	r := newRig(t, background)
	topic := r.topic("t", 1)
	if err := r.disk.WriteFile("topics/t/1/00000000000000000000.log", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if err := topic.AddPartitions(3); err == nil || !strings.Contains(err.Error(), "topics/t/1") {
		t.Errorf("the error does not name the directory: %v", err)
	}
	if data, err := r.disk.ReadFile("topics/t/1/00000000000000000000.log"); err != nil || string(data) != "mine" {
		t.Errorf("it holds %q (%v)", data, err)
	}
	if topic.Partitions() != 1 {
		t.Errorf("there are %d partitions", topic.Partitions())
	}
	if err := r.disk.RemoveAll("topics/t/1"); err != nil {
		t.Fatal(err)
	}
	if err := topic.AddPartitions(3); err != nil {
		t.Error(err)
	}
}

// TestDeletionIsFinishedAtOpen cuts the power at every call of the deletion of a
// topic, of a trim and of a retention pass. What was acknowledged as gone stays
// gone, what is gone leaves no file behind once the engine was opened again, and a
// topic of the same name has a new id and no old record.
func TestDeletionIsFinishedAtOpen(t *testing.T) {
	stories := map[string]act{
		"delete": remove("a"),
		"delete and make anew": func(w *world) {
			remove("a")(w)
			if !w.dead.Load() {
				create("a", 2, small)(w)
			}
			if !w.dead.Load() {
				publishOne("a", 2)(w)
			}
		},
		"trim":       trimTo("a", 0, 1),
		"trim all":   trimTo("a", 0, 0),
		"trim twice": func(w *world) { trimTo("a", 0, 7)(w); trimTo("a", 0, 2)(w) },
		"retention": func(w *world) {
			alter("a", "retention.bytes=300")(w)
			if !w.dead.Load() {
				runRetention(w)
			}
		},
	}
	for name, last := range stories {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				dead := false
				synctest.Test(t, func(t *testing.T) { dead = deletionCut(t, last, n) })
				if !dead || t.Failed() {
					break
				}
			}
		})
	}
}

func deletionCut(t *testing.T, last act, n int64) bool {
	w := newWorld(t, fmt.Sprintf("cut at call %d", n))
	w.play([]act{create("a", 2, small), create("b", 1), publishOne("a", 13), publishOne("b", 1)})
	synctest.Wait() // what goes on in the background is over, so that n counts the same calls each time
	w.limit.Store(w.calls.Load() + n)
	last(w)
	w.look()
	dead := w.dead.Load()
	disk := w.disk.Clone()
	w.stop()
	for _, how := range engineCuts(n, 6) {
		left := w.on(fmt.Sprintf("%s, %s, names %s, seed %d", w.name, how.Unsynced, how.Names, how.Seed), disk.Crash(how))
		if !left.open() {
			return false
		}
		left.check()
		left.checkTidy()
		for name, f := range left.topics {
			for i := range f.partitions {
				left.nothingBelowStart(name, i)
			}
		}
		left.close()
	}
	return dead
}

// nothingBelowStart sees that no file is left of segments below the log start.
func (w *world) nothingBelowStart(name string, i int) {
	w.t.Helper()
	p := w.part(name, i)
	var there []varve.Offset
	for _, f := range w.disk.Files() {
		var base varve.Offset
		if rest, ok := strings.CutPrefix(f, fmt.Sprintf("topics/%s/%d/", name, i)); ok && strings.HasSuffix(rest, ".log") {
			fmt.Sscanf(rest, "%d.log", &base)
			there = append(there, base)
		}
	}
	for k := 1; k < len(there); k++ {
		if there[k] <= p.Start() {
			w.errorf("%s/%d starts at %d and the segment of %d is still there", name, i, p.Start(), there[k-1])
		}
	}
}
