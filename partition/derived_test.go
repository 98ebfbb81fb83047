package partition_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// The file of leader epochs, by which Kafka opens the directory too, begins at the log
// start once there was a trim: no epoch in it ended before.
func TestTrimForgetsEpochs(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	for range 3 {
		r.publish(4)
		cp := r.snapshot()
		r.disk = r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
		r.open(cp, false)
	}
	r.publish(4)
	r.trim(6)
	data, err := r.disk.ReadFile(dir + "/leader-epoch-checkpoint")
	check(t, err)
	var version, n, epoch, start int
	if _, err := fmt.Sscan(string(data), &version, &n, &epoch, &start); err != nil || n != 3 || start != 6 {
		t.Errorf("%d epochs, the first from offset %d on: %q, %v", n, start, data, err)
	}
}

// An epoch ends where the next of which there is a record begins, and the last at the end.
func TestEpochEnd(t *testing.T) {
	for name, cfg := range map[string]partition.Config{"a segment": {Level: partition.Fsync}, "segments": small(partition.Fsync)} {
		r := newRig(t, cfg)
		want := map[record.Epoch]record.Offset{}
		for epoch := range record.Epoch(4) {
			if epoch != 2 { // nothing was published in it
				r.publish(4)
			}
			want[epoch] = r.log.LogEnd()
			cp := r.snapshot()
			r.disk = r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
			r.open(cp, false)
		}
		r.publish(4)
		want[4], want[9] = r.log.LogEnd(), r.log.LogEnd()
		for epoch, end := range want {
			if got := r.log.EpochEnd(epoch); got != end {
				t.Errorf("%s: epoch %d ends at %d, want %d", name, epoch, got, end)
			}
		}
	}
}

// What the journal has of a segment that was deleted, for the log start is behind it, is
// not put back in the middle of a file that is not there. From its beginning on it is.
func TestReplaySparesWhatIsDeleted(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	for range 5 {
		r.publish(1)
	}
	name := dir + "/00000000000000000000.log"
	data, err := r.disk.ReadFile(name)
	check(t, err)
	r.trim(5)
	if _, err := r.disk.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the segment is not deleted: %v", err)
	}
	check(t, r.disk.Remove(dir+"/seals"))
	for _, from := range []int{0, len(data) / 3} {
		disk := r.disk.Clone()
		replay, err := partition.NewReplay(disk, dir)
		check(t, err)
		check(t, replay.Data(0, record.Pos(from), data[from:], 3))
		check(t, replay.Flush())
		if _, err := disk.Stat(name); errors.Is(err, fs.ErrNotExist) != (from > 0) {
			t.Errorf("from position %d on: %v", from, err)
		}
	}
}
