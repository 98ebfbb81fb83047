package varve_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// neverSyncs is a disk that loses nothing: what a sync costs a vfs.Mem grows with the
// names that no sync has covered.
type neverSyncs struct{ vfs.FS }

type neverSynced struct{ vfs.File }

func (f neverSyncs) OpenFile(name string, flag int) (vfs.File, error) {
	file, err := f.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return neverSynced{file}, nil
}

func (neverSyncs) SyncDir(string) error { return nil }
func (neverSynced) Sync() error         { return nil }

// Ten thousand partitions with one record each, and sixteen files: each costs a bounded
// amount of memory while nothing is done with it, and each can be read.
func TestTenThousandPartitions(t *testing.T) {
	partitions := 10_000
	if testing.Short() || raceDetector {
		partitions = 1000
	}
	disk := neverSyncs{vfs.NewMem()}
	opt := varve.Options{Logger: silent(), JournalBytes: smallJournal, OpenFiles: 16, CacheBytes: -1, ScrubRate: -1}
	open := func() (*varve.Engine, *varve.Topic) {
		e, err := varve.OpenFS(disk, opt)
		if err != nil {
			t.Fatal(err)
		}
		topic, err := e.EnsureTopic("t", varve.TopicConfig{Partitions: partitions, Config: config("durability=os", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		return e, topic
	}
	func() {
		e, topic := open()
		for i := range partitions {
			if _, err := partOf(t, topic, i).Publish(context.Background(), text("%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, e)
	}()
	before := liveHeap()
	e, topic := open()
	idle := liveHeap()
	for i := 0; i < partitions; i += 7 {
		if got := valuesOf(t, partOf(t, topic, i)); len(got) != 1 || got[0] != fmt.Sprint(i) {
			t.Fatalf("partition %d holds %q", i, got)
		}
	}
	used := liveHeap()
	each := func(heap uint64) int64 { return (int64(heap) - int64(before)) / int64(partitions) }
	t.Logf("%d partitions: %d bytes each, %d after reading", partitions, each(idle), each(used))
	const most = 8 << 10
	if !raceDetector && (each(idle) > most || each(used) > most) {
		t.Errorf("a partition costs %d bytes, %d after reading, at most %d is right", each(idle), each(used), most)
	}
	mustClose(t, e)
}

// liveHeap is how many bytes are in use.
func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
