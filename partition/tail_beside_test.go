package partition_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// Beside a round nothing is stored but what it has, also where a file has taken that
// already, and there is more that waits for the next one.
func TestStoreHasNoMoreThanTheRound(t *testing.T) {
	for _, more := range []int{1, 3} {
		r, _ := tailRig(t)
		r.publish(1)
		r.publish(1)
		round := journaled(t, r)
		r.publish(1, func(a *partition.Append) { a.Ack = partition.OS }) // behind it: the file has all
		for range more {
			r.publish(1)
		}
		before := logLen(r)
		check(t, r.log.Store())
		if have := logLen(r); have != before {
			t.Errorf("the files have %d bytes, had %d: of the next round, too", have, before)
		}
		round.End(nil)
		r.log.BeginRound().End(nil)
		if r.log.End() != record.Offset(4+more) {
			t.Errorf("the end is %d", r.log.End())
		}
	}
}

// A segment is rolled where it would pass its size with what waits for its round.
func TestTailCountsForTheRoll(t *testing.T) {
	const most = 2000
	r, _ := tailRig(t)
	r.cfg.SegmentBytes = most
	check(t, r.log.Configure(r.cfg))
	for range 20 {
		r.publish(3) // a batch of some 200 bytes
	}
	r.log.BeginRound().End(nil)
	for _, s := range r.log.Stats().Segments {
		if s.Bytes > most {
			t.Errorf("segment %d has %d bytes of %d", s.Base, s.Bytes, most)
		}
	}
}

// A batch waits for its round only if the disk keeps space for it and for all that waits in
// front of it; else a full disk is told at once, of the batch that it has no space for.
func TestTailHasSpaceForAllOfIt(t *testing.T) {
	var most int64
	r := newRig(t, small(partition.Fsync), func(r *rig) {
		r.cfg.SegmentBytes = 1 << 20
		r.rule = func(op vfs.Op) vfs.Fault {
			if most > 0 && op.Kind == vfs.OpAllocate && op.Off > most && strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{Err: syscall.ENOSPC}
			}
			return vfs.Fault{}
		}
	})
	r.full = true
	big := func(a *partition.Append) { a.Records[0].Value = make([]byte, 3<<10) }
	r.publish(1)
	r.eager = false
	// The first write has the disk keep more than it takes: up to there all have space.
	most = 1
	var waits []*sent
	for {
		s := r.publish(1, big)
		if s.told {
			if !errors.Is(s.Err, syscall.ENOSPC) {
				t.Fatalf("behind %d batches: %v", len(waits), s.Err)
			}
			break
		}
		if waits = append(waits, s); len(waits)%2 == 0 {
			r.log.BeginRound().End(nil)
		}
	}
	r.log.BeginRound().End(nil)
	if len(waits) < 3 {
		t.Errorf("only %d batches had space", len(waits))
	}
	for i, s := range waits {
		if !s.told || s.Err != nil {
			t.Errorf("batch %d of %d that had space: told %v, %v", i, len(waits), s.told, s.Err)
		}
	}
}

// Nobody is told of a conflict with what the write in front of him has failed to store.
func TestConflictWithAFailedWrite(t *testing.T) {
	for _, level := range []partition.Level{partition.OS, partition.Fsync} {
		refuse := false
		r := newRig(t, small(level), func(r *rig) {
			r.rule = func(op vfs.Op) vfs.Fault {
				if refuse && op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") {
					return vfs.Fault{Err: syscall.EIO}
				}
				return vfs.Fault{}
			}
		})
		r.publish(1)
		refuse = true
		ack := func(a *partition.Append) { a.Ack = partition.OS }
		first := r.enqueue(1, ack)
		second := r.enqueue(1, ack, func(a *partition.Append) { a.Expect = 1 })
		r.drain()
		refuse = false
		for _, s := range []*sent{first, second} {
			if !s.told || !errors.Is(s.Err, syscall.EIO) {
				t.Errorf("level %v: told %v: %v", level, s.told, s.Err)
			}
		}
	}
}
