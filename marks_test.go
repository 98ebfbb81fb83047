package varve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// publishTo publishes n records to partition 0 of t, which it makes.
func publishTo(t *testing.T, e *varve.Engine, n int, settings ...string) {
	t.Helper()
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config(append(settings, "retention.ms=-1")...)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := partOf(t, topic, 0).Publish(context.Background(), text("record %d of these", i)); err != nil {
			t.Fatal(err)
		}
	}
}

// hasRecords opens the directory, expects n records and that the next one comes behind
// them.
func hasRecords(t *testing.T, disk vfs.FS, n int) {
	t.Helper()
	e, said := openOn(t, disk)
	defer e.Close()
	got := 0
	err := readsOf(t, e)(func(varve.Record) { got++ })
	if err != nil || got != n {
		t.Fatalf("%d of %d records are there: %v\n%s", got, n, err, said.buf.String())
	}
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	if off, err := partOf(t, topic, 0).Publish(context.Background(), text("next")); err != nil || int(off) != n {
		t.Errorf("the next record got offset %d (%v), expected %d", off, err, n)
	}
}

// putBack gives files the content that they had.
func putBack(t *testing.T, disk, had *vfs.Mem, names ...string) {
	t.Helper()
	for _, name := range names {
		data, err := had.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := disk.WriteFile(name, data); err != nil {
			t.Fatal(err)
		}
	}
}

// secondLife is an engine with twelve records, five of which were there at an earlier stop.
func secondLife(t *testing.T) (e *varve.Engine, disk, earlier *vfs.Mem) {
	t.Helper()
	disk = vfs.NewMem()
	e, _ = openOn(t, disk)
	publishTo(t, e, 5)
	mustClose(t, e)
	earlier = disk.Clone()
	e, _ = openOn(t, disk)
	publishTo(t, e, 7)
	return e, disk, earlier
}

// A checkpoint of an earlier stop beside the mark of the last one speaks of less than
// there is: nothing that it leaves out is somebody else's.
func TestOldCheckpointBesideANewMark(t *testing.T) {
	e, disk, earlier := secondLife(t)
	mustClose(t, e)
	putBack(t, disk, earlier, "checkpoint")
	hasRecords(t, disk, 12)
}

// A mark of an earlier stop with the checkpoint of that time is not believed: after it
// came records that the journal alone has.
func TestOldMarkBesideTheJournal(t *testing.T) {
	e, disk, earlier := secondLife(t)
	left := disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost, Names: vfs.NamesKept})
	mustClose(t, e)
	putBack(t, left, earlier, "checkpoint", "clean")
	hasRecords(t, left, 12)
}

// A stop that could not write what it keeps of a partition is no clean one: the last
// checkpoint has less of it than there is.
func TestStopThatLeavesAPartitionOutIsNotClean(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	publishTo(t, e, 5)
	mustClose(t, e)
	var fails atomic.Bool
	e, said := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if fails.Load() && strings.HasSuffix(op.Name, "index") {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}))
	publishTo(t, e, 7)
	fails.Store(true)
	e.Close()
	if !strings.Contains(said.buf.String(), "left out of the checkpoint") {
		t.Fatalf("nothing was left out:\n%s", said.buf.String())
	}
	if _, err := disk.ReadFile("clean"); err == nil {
		t.Error("the stop is called a clean one")
	}
	hasRecords(t, disk, 12)
}

// A directory that was copied while it was at rest has newer files than the mark of its
// stop. It opens as it was, whatever is wrong with its seals, and goes on.
func TestCopyOfADirectoryAtRest(t *testing.T) {
	for name, spoil := range map[string]func(m *vfs.Mem, seals string) error{
		"as it was":  func(*vfs.Mem, string) error { return nil },
		"no seals":   func(m *vfs.Mem, seals string) error { return m.Remove(seals) },
		"a flip":     func(m *vfs.Mem, seals string) error { return m.FlipBit(seals, 8*(2*80+40)) },
		"empty":      func(m *vfs.Mem, seals string) error { return m.Truncate(seals, 0) },
		"half of it": func(m *vfs.Mem, seals string) error { return m.Truncate(seals, 200) },
	} {
		for _, trim := range []varve.Offset{0, 5, 10} {
			for _, level := range []string{"durability=fsync", "durability=os"} {
				t.Run(fmt.Sprint(name, ", trimmed to ", trim, ", ", level), func(t *testing.T) {
					disk := vfs.NewMem()
					e, _ := openOn(t, disk)
					publishTo(t, e, 20, level, "segment.bytes=350")
					topic, err := e.Topic("t")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := partOf(t, topic, 0).Trim(trim); err != nil {
						t.Fatal(err)
					}
					mustClose(t, e)
					names := slices.Sorted(slices.Values(disk.Files()))
					putBack(t, disk, disk.Clone(), names...)
					if err := spoil(disk, "topics/t/0/seals"); err != nil {
						t.Fatal(err)
					}
					for _, stop := range []string{"clean", "killed"} {
						e, said := openOn(t, disk)
						n := 0
						if err := readsOf(t, e)(func(varve.Record) { n++ }); err != nil || n != 20-int(trim) {
							t.Fatalf("%d of %d records are there after a stop (%s): %v\n%s", n, 20-trim, stop, err, said.buf.String())
						}
						left := disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost, Names: vfs.NamesLost})
						mustClose(t, e)
						disk = left
					}
				})
			}
		}
	}
}

// A segment that somebody made shorter after a clean stop is not appended to, which would
// leave a hole: what comes goes behind it, into a file of its own.
func TestShortenedSegmentIsLeftAsItIs(t *testing.T) {
	const file = "topics/t/0/00000000000000000000.log"
	for _, length := range []int{0, 1, 100, 300} {
		m := vfs.NewMem()
		e, _ := openOn(t, m)
		publishTo(t, e, 10)
		mustClose(t, e)
		data, err := m.ReadFile(file)
		if err == nil {
			err = m.WriteFile(file, data[:length])
		}
		if err != nil {
			t.Fatal(err)
		}
		e, _ = openOn(t, m)
		publishTo(t, e, 1)
		mustClose(t, e)
		if left, err := m.ReadFile(file); err != nil || len(left) != length {
			t.Errorf("cut to %d bytes: the file has %d (%v)", length, len(left), err)
		}
	}
}
