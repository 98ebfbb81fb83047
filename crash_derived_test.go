package varve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// answers are what an engine says of everything it holds.
type answers map[string]partAnswers

type partAnswers struct {
	start, end varve.Offset
	records    []string
	times      []varve.Offset // offsets found for a row of times
}

func ask(t testing.TB, e *varve.Engine) answers {
	t.Helper()
	all := answers{}
	for _, topic := range e.Topics() {
		for i := range topic.Partitions() {
			p, err := topic.Partition(i)
			if err != nil {
				t.Fatal(err)
			}
			all[bookName(p)] = askPartition(t, p)
		}
	}
	return all
}

func askPartition(t testing.TB, p *varve.Partition) partAnswers {
	t.Helper()
	a := partAnswers{start: p.Start(), end: p.End()}
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		a.records = append(a.records, fmt.Sprintf("%d %d %s %v", rec.Offset, rec.Timestamp, rec.Value, err))
	}
	for ms := int64(900); ms < 1500; ms += 50 {
		off, err := p.OffsetFor(context.Background(), time.UnixMilli(ms))
		if err != nil {
			t.Errorf("look up %d in %s: %v", ms, bookName(p), err)
		}
		a.times = append(a.times, off)
	}
	return a
}

func openOn(t testing.TB, disk vfs.FS) (*varve.Engine, *logLines) {
	t.Helper()
	e, logged, err := tryOpenOn(disk)
	if err != nil {
		t.Fatalf("open: %v\n%s", err, logged.buf.String())
	}
	return e, logged
}

func tryOpenOn(disk vfs.FS) (*varve.Engine, *logLines, error) {
	logged := new(logLines)
	e, err := varve.OpenFS(disk, varve.Options{
		Logger: slog.New(slog.NewTextHandler(logged, nil)), CacheBytes: -1, RetentionInterval: 1000 * time.Hour, JournalBytes: smallJournal,
	})
	return e, logged, err
}

// filled makes a directory with sealed segments, an active one, a log start inside
// a segment, times that fall, two levels and two leader epochs. It returns it as a
// clean stop, and as a power cut, leaves it, and as it was at an earlier stop.
func filled(t testing.TB) (clean, unclean, earlier *vfs.Mem) {
	t.Helper()
	disk := vfs.NewMem()
	publish := func(e *varve.Engine, name string, part, n int) {
		topic, err := e.Topic(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := topic.Partition(part)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			ts := int64(1000 + (int64(p.End())*37+int64(i)*11)%400)
			if _, err := p.Publish(context.Background(), dated(ts, "%s %d at %d", name, part, p.LogEnd())); err != nil {
				t.Fatal(err)
			}
		}
	}
	e, _ := openOn(t, disk)
	for name, settings := range map[string][]string{
		"a": {"segment.bytes=500", "index.interval.bytes=1", "retention.ms=-1"},
		"o": {"durability=os", "segment.bytes=400", "index.interval.bytes=1", "retention.ms=-1"},
	} {
		if _, err := e.CreateTopic(name, varve.TopicConfig{Partitions: 2, Config: config(settings...)}); err != nil {
			t.Fatal(err)
		}
	}
	publish(e, "a", 0, 12)
	publish(e, "o", 1, 9)
	mustClose(t, e)
	earlier = disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept, Unsynced: vfs.UnsyncedKept})

	e, _ = openOn(t, disk)
	publish(e, "a", 0, 9)
	topic, _ := e.Topic("a")
	p, _ := topic.Partition(0)
	if _, err := p.Trim(7); err != nil {
		t.Fatal(err)
	}
	killed := disk.Clone()
	e.Close()
	e, _ = openOn(t, killed) // a second leader epoch, and its checkpoint
	publish(e, "a", 0, 8)
	publish(e, "a", 1, 3)
	publish(e, "o", 1, 7)
	unclean = killed.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	mustClose(t, e)
	clean = killed.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	return clean, unclean, earlier
}

func mustClose(t testing.TB, e *varve.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// harm is one way to treat a file. It says whether there is such a way.
type harm struct {
	name string
	do   func(m *vfs.Mem, file string) bool
}

func rewritten(name string, f func(old []byte) []byte) harm {
	return harm{name, func(m *vfs.Mem, file string) bool {
		old, err := m.ReadFile(file)
		if err != nil {
			return false
		}
		return m.WriteFile(file, f(old)) == nil
	}}
}

// harms are all but the flips.
func harms(earlier *vfs.Mem) []harm {
	rng := rand.New(rand.NewPCG(7, 7))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	return []harm{
		{"missing", func(m *vfs.Mem, file string) bool { return m.Remove(file) == nil }},
		rewritten("empty", func([]byte) []byte { return nil }),
		rewritten("cut to a byte", func(old []byte) []byte { return old[:min(1, len(old))] }),
		rewritten("cut in half", func(old []byte) []byte { return old[:len(old)/2] }),
		rewritten("cut by a byte", func(old []byte) []byte { return old[:max(len(old)-1, 0)] }),
		rewritten("random", func(old []byte) []byte { return random(len(old)) }),
		rewritten("longer by random", func(old []byte) []byte { return append(old, random(300)...) }),
		rewritten("zeros", func(old []byte) []byte { return make([]byte, len(old)) }),
		rewritten("longer by zeros", func(old []byte) []byte { return append(old, make([]byte, 4096)...) }),
		rewritten("twice", func(old []byte) []byte { return append(old, old...) }),
		{"of an earlier stop", func(m *vfs.Mem, file string) bool {
			old, err := earlier.ReadFile(file)
			return err == nil && m.WriteFile(file, old) == nil
		}},
	}
}

func isDerived(file string) bool {
	switch path.Base(file) {
	case "checkpoint", "clean", "seals", "leader-epoch-checkpoint":
		return true
	}
	return strings.HasSuffix(file, ".index") || strings.HasSuffix(file, ".timeindex")
}

// TestDerivedFilesMayBeAnything spoils each derived file in each way, one at a time
// and all of a kind together, and flips every bit of it: the answers stay the same,
// after a clean stop and after a crash, and the engine takes records as before.
func TestDerivedFilesMayBeAnything(t *testing.T) {
	clean, unclean, earlier := filled(t)
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "after a crash": unclean} {
		t.Run(name, func(t *testing.T) {
			e, _ := openOn(t, disk.Clone())
			want := ask(t, e)
			mustClose(t, e)
			var files []string
			for _, f := range disk.Files() {
				if isDerived(f) {
					files = append(files, f)
				}
			}
			for _, file := range files {
				for _, h := range harms(earlier) {
					spoiled(t, disk, file+" "+h.name, want, func(m *vfs.Mem) bool { return h.do(m, file) })
				}
			}
			for _, h := range harms(earlier) {
				kinds := map[string]func(string) bool{
					"all":         isDerived,
					"all indexes": func(f string) bool { return strings.HasSuffix(f, "index") },
					"mark and checkpoint": func(f string) bool {
						return f == "clean" || f == "checkpoint"
					},
					"seals and checkpoint": func(f string) bool { return path.Base(f) == "seals" || f == "checkpoint" },
				}
				for kind, is := range kinds {
					spoiled(t, disk, kind+" "+h.name, want, func(m *vfs.Mem) bool {
						did := false
						for _, f := range files {
							if is(f) {
								did = h.do(m, f) || did
							}
						}
						return did
					})
				}
			}
		})
	}
}

// TestDerivedFilesMayBeFlipped flips every bit of them.
func TestDerivedFilesMayBeFlipped(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	clean, unclean, _ := filled(t)
	step := int64(1)
	if testing.Short() || raceDetector {
		step = 13
	}
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "after a crash": unclean} {
		t.Run(name, func(t *testing.T) {
			e, _ := openOn(t, disk.Clone())
			want := ask(t, e)
			mustClose(t, e)
			for _, file := range disk.Files() {
				data, err := disk.ReadFile(file)
				if err != nil || !isDerived(file) {
					continue
				}
				for bit := int64(0); bit < int64(len(data))*8; bit += step {
					m := disk.Clone()
					if err := m.FlipBit(file, bit); err != nil {
						t.Fatal(err)
					}
					e, _ := openOn(t, m)
					if got := ask(t, e); !reflect.DeepEqual(got, want) {
						t.Fatalf("%s, bit %d flipped: %s", file, bit, difference(got, want))
					}
					mustClose(t, e)
				}
			}
		})
	}
}

// spoiled opens a copy of the disk that was tampered with and compares.
func spoiled(t *testing.T, disk *vfs.Mem, name string, want answers, tamper func(*vfs.Mem) bool) {
	t.Helper()
	m := disk.Clone()
	if !tamper(m) {
		return
	}
	e, logged := openOn(t, m)
	got := ask(t, e)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %s\n%s", name, difference(got, want), logged.buf.String())
	}
	for part, a := range want {
		topic, number, _ := strings.Cut(part, "/")
		tp, err := e.Topic(topic)
		if err != nil {
			t.Fatal(err)
		}
		p, err := tp.Partition(int(number[0] - '0'))
		if err != nil {
			t.Fatal(err)
		}
		if off, err := p.Publish(context.Background(), text("more")); err != nil || off != a.end {
			t.Errorf("%s: the next record of %s got offset %d (%v), the end was %d", name, part, off, err, a.end)
		}
	}
	mustClose(t, e)
	e, _ = openOn(t, m)
	for part, a := range ask(t, e) {
		n := len(want[part].records)
		if a.end != want[part].end+1 || len(a.records) != n+1 || !slices.Equal(a.records[:n], want[part].records) {
			t.Errorf("%s: after another start %s differs: %s", name, part, difference(answers{part: a}, answers{part: want[part]}))
		}
	}
	mustClose(t, e)
}

func difference(got, want answers) string {
	for part, w := range want {
		g := got[part]
		switch {
		case g.start != w.start || g.end != w.end:
			return fmt.Sprintf("%s: there is [%d, %d), there was [%d, %d)", part, g.start, g.end, w.start, w.end)
		case !reflect.DeepEqual(g.records, w.records):
			for i := range max(len(g.records), len(w.records)) {
				if i >= len(g.records) || i >= len(w.records) || g.records[i] != w.records[i] {
					return fmt.Sprintf("%s: record %d: got %q, want %q", part, i, at(g.records, i), at(w.records, i))
				}
			}
		case !reflect.DeepEqual(g.times, w.times):
			return fmt.Sprintf("%s: times are found at %v, they were at %v", part, g.times, w.times)
		}
	}
	return "they agree"
}

func at(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return "nothing"
}

// After a clean stop nothing is torn, also when the checkpoint of it is lost, or an
// old one is in its place: a flipped bit costs the batch it hit.
func TestCleanStopWithoutItsCheckpointLosesNothing(t *testing.T) {
	clean, _, earlier := filled(t)
	old, err := earlier.ReadFile("checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := openOn(t, clean.Clone())
	want := ask(t, whole)["a/0"]
	mustClose(t, whole)
	var active string
	for _, name := range clean.Files() {
		if strings.HasPrefix(name, "topics/a/0/") && strings.HasSuffix(name, ".log") && name > active {
			active = name
		}
	}
	data, err := clean.ReadFile(active)
	if err != nil || len(data) < 150 {
		t.Fatalf("%d bytes in the active segment, %v", len(data), err)
	}
	for name, harm := range map[string]func(*vfs.Mem) error{
		"missing": func(m *vfs.Mem) error { return m.Remove("checkpoint") },
		"garbage": func(m *vfs.Mem) error { return m.WriteFile("checkpoint", []byte("garbage")) },
		"old":     func(m *vfs.Mem) error { return m.WriteFile("checkpoint", old) },
	} {
		for _, pos := range []int64{30, 65, int64(len(data)) - 3} {
			m := clean.Clone()
			if err := errors.Join(harm(m), m.FlipBit(active, 8*pos)); err != nil {
				t.Fatal(err)
			}
			e, logged := openOn(t, m)
			got := ask(t, e)["a/0"]
			last := pos > 100 // of that batch nothing tells how many offsets it had
			if !last && (got.end != want.end || got.start != want.start) {
				t.Errorf("%s, position %d: there is [%d, %d), it was [%d, %d)\n%s", name, pos, got.start, got.end, want.start, want.end, logged.buf.String())
			}
			lost := 0
			for _, rec := range want.records {
				if !slices.Contains(got.records, rec) {
					lost++
				}
			}
			if lost != 1 {
				t.Errorf("%s, position %d: %d records are lost", name, pos, lost)
			}
			mustClose(t, e)
		}
	}
}

// A clean stop leaves the seals on the disk: a start after a power cut behind it reads no
// segment, on any level.
func TestStopKeepsTheSeals(t *testing.T) {
	for _, level := range allLevels {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			e, _ := openOn(t, disk)
			topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability="+level, "segment.bytes=500", "retention.ms=-1")})
			if err != nil {
				t.Fatal(err)
			}
			want := fill(t, topic, level, 20)
			mustClose(t, e)
			e, logged := openOn(t, vfs.NewFaulty(disk.Crash(vfs.CrashOptions{Names: vfs.NamesLost}), func(op vfs.Op) vfs.Fault {
				if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".log") {
					return vfs.Fault{Err: syscall.EIO}
				}
				return vfs.Fault{}
			}))
			p := partOf(t, mustTopic(t, e, "t"), 0)
			if line := logged.first("level="); p.Err() != nil || p.End() != varve.Offset(len(want)) || line != "" {
				t.Errorf("level %s: the end is %d, %v, %s", level, p.End(), p.Err(), line)
			}
			mustClose(t, e)
		})
	}
}
