package partition_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/varvelog/varve/partition"
)

// On a full disk a trim of everything frees the segment that is written to as well, and
// publishes work again.
func TestTrimOfEverythingMakesRoom(t *testing.T) {
	cfg := small(partition.Fsync)
	cfg.SegmentBytes = 1 << 20
	r := newRig(t, cfg)
	r.full = true
	r.disk.Limit(40 << 10)
	for range 5 {
		n := 0
		for ; n < 10_000; n++ {
			if s := r.publish(20); errors.Is(s.Err, syscall.ENOSPC) {
				break
			}
		}
		if n < 3 || n == 10_000 || r.log.Failed() != nil {
			t.Fatalf("the disk took %d batches, %v", n, r.log.Failed())
		}
		r.trim(r.log.End())
		if s := r.publish(20); s.Err != nil {
			t.Fatalf("after a trim of all up to %d: %v", r.log.Start(), s.Err)
		}
	}
	r.verify()
}
