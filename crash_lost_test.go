package varve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// stored reads all of a partition: what there is by offset, "" where readers are told of
// a gap.
func stored(t *testing.T, p *varve.Partition) map[varve.Offset]string {
	t.Helper()
	all := make(map[varve.Offset]string)
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		var gap *varve.CorruptError
		switch {
		case err == nil:
			all[rec.Offset] = string(rec.Value)
		case !errors.As(err, &gap):
			t.Fatal(err)
		}
		for off := varve.Offset(0); gap != nil && off < gap.To-gap.From; off++ {
			all[gap.From+off] = ""
		}
	}
	return all
}

// storedOn is stored of partition 0 of topic t on a disk, and what a power cut leaves of
// the disk then; every other one takes the names that are not durable as well.
func storedOn(t *testing.T, disk *vfs.Mem, names vfs.Names) (map[varve.Offset]string, *vfs.Mem) {
	t.Helper()
	e, _ := openOn(t, disk)
	defer mustClose(t, e)
	got := stored(t, partOf(t, mustTopic(t, e, "t"), 0))
	return got, disk.Crash(vfs.CrashOptions{Names: names})
}

// checkStored holds a disk against what is there of records 0, …, n-1, at this start and
// at two more, each after a power cut: what was served once is served again.
func checkStored(t *testing.T, what string, disk *vfs.Mem, n int, lost func(off int) bool) {
	t.Helper()
	want := make(map[varve.Offset]string)
	for i := range n {
		if want[varve.Offset(i)] = fmt.Sprintf("value %d", i); lost(i) {
			want[varve.Offset(i)] = ""
		}
	}
	for start := range 3 {
		var got map[varve.Offset]string
		if got, disk = storedOn(t, disk, vfs.NamesLost); !maps.Equal(got, want) {
			t.Errorf("%s, start %d: there are %v, expected %v", what, start+1, got, want)
		}
	}
}

// aJournaledLog has records 0, …, n-1 in rounds of their own, of which only the journal
// is on the disk for those from known on.
func aJournaledLog(t *testing.T, known, n int, settings ...string) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config(append(settings, "retention.ms=-1")...)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := topic.Publish(context.Background(), text("value %d", i)); err != nil {
			t.Fatal(err)
		}
		if i == known-1 {
			time.Sleep(10*time.Second + 50*time.Millisecond) // a checkpoint
		}
	}
	time.Sleep(20 * time.Millisecond) // the mark behind the last round
	left := lost(disk)
	mustClose(t, e)
	return left
}

// A frame of the journal that is lost costs the batch in it, wherever it is: those behind
// it, which are put back, are found, also behind other lost ones and by way of an index.
func TestLostFramesCostTheirBatches(t *testing.T) {
	const n, name = 6, "wal/0000000001.wal"
	for _, interval := range []string{"1", "100", "4096"} {
		synctest.Test(t, func(t *testing.T) {
			left := aJournaledLog(t, 0, n, "index.interval.bytes="+interval)
			data, err := left.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for set := range 1 << n {
				lost := func(off int) bool { return set>>off&1 != 0 }
				disk := left.Clone()
				for i := range n {
					if at := bytes.Index(data, fmt.Appendf(nil, "value %d", i)); at < 0 {
						t.Fatalf("value %d is not in the journal", i)
					} else if lost(i) {
						disk.FlipBit(name, 8*int64(at))
					}
				}
				checkStored(t, fmt.Sprintf("interval %s, frames %06b", interval, set), disk, n, lost)
			}
		})
	}
}

// What the journal puts back where the file of the segment is gone, or is another one, is
// on the disk before it is served, its name too, and found again.
func TestPutBackBehindDamageStays(t *testing.T) {
	const known, n = 4, 8
	for _, lastFrame := range []bool{true, false} {
		for _, harm := range []string{"removed", "zeros", "noise", "short"} {
			synctest.Test(t, func(t *testing.T) {
				disk := aJournaledLog(t, known, n)
				const name = "topics/t/0/00000000000000000000.log"
				data, err := disk.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				switch harm {
				case "removed":
					err = errors.Join(disk.Remove(name), disk.SyncDir("topics/t/0"))
				case "zeros":
					err = disk.WriteFile(name, make([]byte, len(data)))
				case "noise":
					err = disk.WriteFile(name, noise(1, len(data)))
				case "short":
					err = disk.Truncate(name, 30)
				}
				if err != nil {
					t.Fatal(err)
				}
				lost := func(off int) bool { return off < known || off == n-1 && !lastFrame }
				if !lastFrame {
					flipIn(t, disk, "wal/0000000001.wal", fmt.Sprintf("value %d", n-1))
				}
				checkStored(t, harm, disk, n, lost)
			})
		}
	}
}

// A frame whose round has lost its header, so that nobody knows whether a checkpoint has
// it, is put back below where the checkpoint leaves off, and stays too.
func TestPutBackBelowTheCheckpointStays(t *testing.T) {
	const known = 4
	for _, n := range []int{known, 2 * known} {
		synctest.Test(t, func(t *testing.T) {
			disk := aJournaledLog(t, known, n)
			const name = "topics/t/0/00000000000000000000.log"
			data, err := disk.ReadFile(name)
			if err == nil {
				err = disk.WriteFile(name, make([]byte, len(data)))
			}
			if err != nil {
				t.Fatal(err)
			}
			for round := range known {
				if err := disk.FlipBit("wal/0000000001.wal", 8*4096*int64(round+1)); err != nil {
					t.Fatal(err)
				}
			}
			checkStored(t, fmt.Sprint(n, " records"), disk, n, func(int) bool { return false })
		})
	}
}

func flipIn(t *testing.T, disk *vfs.Mem, name, text string) {
	t.Helper()
	data, err := disk.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(data), text)
	if at < 0 {
		t.Fatalf("%s has no %q", name, text)
	}
	if err := disk.FlipBit(name, 8*int64(at)); err != nil {
		t.Fatal(err)
	}
}
