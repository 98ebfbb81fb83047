package partition_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// TestFullDiskPasses leaves every amount of free space there can be and appends until
// it is used up: an append fails with ENOSPC and leaves nothing, what is there stays
// readable, a trim and a retention pass work and make room, and appends work again
// by themselves, with no offset lost.
func TestFullDiskPasses(t *testing.T) {
	step := 7 * int64(thin())
	for _, level := range []partition.Level{partition.Fsync, partition.OS} {
		for _, way := range []string{"space comes back", "trim", "trim all", "retention"} {
			t.Run(fmt.Sprintf("%s at %s", way, level), func(t *testing.T) {
				for free := int64(0); free < 800; free += step {
					fill(t, level, way, free)
					if t.Failed() {
						t.Fatalf("%d bytes were free", free)
					}
				}
			})
		}
	}
}

func fill(t *testing.T, level partition.Level, way string, free int64) {
	r := newRig(t, small(level), func(r *rig) {
		r.cfg.Index.Interval = 1 // so that indexes need space too
		r.cfg.SegmentBytes = 400
	})
	r.full = true
	for range 6 {
		r.publish(1)
	}
	r.disk.Limit(r.disk.Used() + free)
	full := 0
	for range 20 {
		s := r.publish(1)
		if s.Err == nil {
			continue
		}
		full++
		if !errors.Is(s.Err, syscall.ENOSPC) || errors.Is(s.Err, partition.ErrReadOnly) {
			t.Errorf("a full disk is %v", s.Err)
		}
	}
	if full == 0 {
		t.Fatal("the disk did not fill up")
	}
	r.verify()
	end := r.log.LogEnd()
	switch way {
	case "space comes back":
		r.disk.Limit(-1)
	case "trim":
		r.trim(6)
	case "trim all":
		r.trim(r.log.End())
	case "retention":
		r.cfg.RetentionBytes = 80
		check(t, r.log.Configure(r.cfg))
		r.retain()
	}
	if err := r.log.Failed(); err != nil {
		t.Errorf("the log says %v", err)
	}
	r.verify()
	if s := r.publish(1); s.Err != nil || s.Base != end {
		t.Errorf("with space again the next record got offset %d (%v), expected %d", s.Base, s.Err, end)
	}
	r.verify()
	r.disk.Limit(-1)
	r.full = false
	r.tidy()
	cp := r.snapshot()
	before := r.book
	for _, disk := range []*vfs.Mem{r.disk.Clone(), r.disk.Crash(vfs.CrashOptions{})} {
		left := r.after(disk, cp)
		left.checkRecovered(before)
		left.goOn()
	}
}

// A start needs no space: with not a byte free, and after a crash that left a torn
// end, the log opens, everything is read, appends fail with ENOSPC until there is
// space, and a trim makes some.
func TestStartNeedsNoSpace(t *testing.T) {
	for _, stop := range []string{"clean", "killed", "cut"} {
		r := newRig(t, small(partition.Fsync), func(r *rig) {
			r.cfg.Index.Interval = 1
			r.eager = false
		})
		for range 8 {
			r.publish(1)
			r.sync()
		}
		r.tidy()
		r.publish(1) // torn below
		var cp *partition.Checkpoint
		disk := r.disk
		switch stop {
		case "clean":
			last, err := r.log.Close()
			check(t, err)
			r.collect(true)
			cp = &last
		case "killed":
			disk = r.disk.Clone()
		case "cut":
			disk = r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedPrefix, Names: vfs.NamesKept, Seed: 5})
			for _, f := range disk.Files() { // indexes have to be made again
				if strings.HasSuffix(f, "index") || strings.HasSuffix(f, "seals") {
					check(t, disk.Remove(f))
				}
			}
		}
		disk.Limit(disk.Used())
		left := &rig{book: r.book, t: t, disk: disk, cfg: r.cfg, now: r.now, eager: true, full: true}
		if err := left.tryOpen(cp, stop == "clean"); err != nil {
			t.Fatalf("%s: open: %v", stop, err)
		}
		if left.log.End() < r.durable {
			t.Errorf("%s: the end is %d, %d was durable", stop, left.log.End(), r.durable)
		}
		left.verify()
		full := left.publish(1)
		for range 4 { // the segment may have had space kept for it
			if full.Err == nil {
				full = left.publish(1)
			}
		}
		end := left.log.End()
		if !errors.Is(full.Err, syscall.ENOSPC) {
			t.Errorf("%s: an append gives %v", stop, full.Err)
		}
		left.verify()
		left.trim(6)
		if s := left.publish(1); s.Err != nil || s.Base != end {
			t.Errorf("%s: after a trim the next record got offset %d: %v", stop, s.Base, s.Err)
		}
		left.verify()
	}
}
