package segment

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// TestSettleWritesAgain is what a process meets whose predecessor had a sync fail:
// the bytes can be read, the kernel holds their pages for clean, and the disk never
// got them. After Settle a power cut takes nothing.
func TestSettleWritesAgain(t *testing.T) {
	st := few(9, 150)
	for _, batches := range []int{0, 1, 4, 8} { // that were durable before
		mem := newDisk(t)
		faulty := vfs.NewFaulty(mem, vfs.FailNth(vfs.OpSync, "*.log", 2, syscall.EIO))
		s, err := Create(faulty, NewFiles(4), dir, st.base, st.opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := mem.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
		if batches > 0 {
			if err := st.tryAppend(s, 0, batches); err != nil {
				t.Fatal(err)
			}
			s.Show(s.Size())
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		state, err := s.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := st.tryAppend(s, batches, 9); err != nil {
			t.Fatal(err)
		}
		if err := mem.FailSync(logName(st.base)); err != nil {
			t.Fatal(err)
		}
		s.Close()

		killed := mem.Clone()
		if lost := killed.Crash(vfs.CrashOptions{}); true {
			if data, _ := lost.ReadFile(logName(st.base)); len(data) == int(st.size()) && bytes.Equal(data, st.bytes()) {
				t.Fatal("the failed sync lost nothing: this test shows nothing")
			}
		}
		s, torn, short, err := Recover(killed, NewFiles(4), dir, state, 0, st.opt)
		if err != nil || torn != nil || short {
			t.Fatal(torn, short, err)
		}
		if err := s.Settle(state.Size, torn); err != nil {
			t.Fatal(err)
		}
		s.Close()
		for seed := range uint64(5) {
			st.reopened(t, killed.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages}), 9)
			st.reopened(t, killed.Crash(vfs.CrashOptions{Seed: seed}), 9)
		}
	}
}

// TestSettleOfNothing settles where nothing was found above what was known: no
// byte is written.
func TestSettleOfNothing(t *testing.T) {
	st := few(4, 150)
	mem, state := st.active(t)
	faulty := vfs.NewFaulty(mem, nil)
	s, torn, _, err := Recover(faulty, NewFiles(4), dir, state, 0, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Settle(state.Size, torn); err != nil {
		t.Fatal(err)
	}
	if faulty.Count(vfs.OpWrite) != 0 || faulty.Count(vfs.OpSync) != 0 || s.Unsynced() {
		t.Errorf("%d writes, %d syncs, unsynced %v", faulty.Count(vfs.OpWrite), faulty.Count(vfs.OpSync), s.Unsynced())
	}
}

// TestSettleOfACut settles where all that was found is to be cut: the new length
// is made durable.
func TestSettleOfACut(t *testing.T) {
	st := few(4, 150)
	mem, state := st.active(t)
	put(t, mem, logName(st.base), append(st.bytes(), "and half a batch"...))
	faulty := vfs.NewFaulty(mem, nil)
	s, torn, _, err := Recover(faulty, NewFiles(4), dir, state, 0, st.opt)
	if err != nil || torn == nil {
		t.Fatal(torn, err)
	}
	defer s.Close()
	if err := s.Settle(state.Size, torn); err != nil {
		t.Fatal(err)
	}
	if faulty.Count(vfs.OpSync) != 1 || s.Unsynced() {
		t.Errorf("%d syncs, unsynced %v", faulty.Count(vfs.OpSync), s.Unsynced())
	}
	if data, err := mem.Crash(vfs.CrashOptions{}).ReadFile(logName(st.base)); err != nil || !bytes.Equal(data, st.bytes()) {
		t.Errorf("after a power cut there are %d bytes, %v", len(data), err)
	}
}

// TestFinishCutAnywhere cuts the power at every call of the file layer while a
// segment is synced and finished, and takes up what is left: every batch that was
// synced is there, and it can be finished again with the same result.
func TestFinishCutAnywhere(t *testing.T) {
	st := few(12, 50)
	_, wantSeal := st.sealed(t)
	for _, resumed := range []bool{false, true} {
		for n := int64(1); ; n++ {
			mem, state := newDisk(t), State{Base: st.base}
			calls := int64(math.MinInt64) // until it is armed
			faulty := func(inner vfs.FS) vfs.FS {
				return vfs.NewFaulty(inner, func(vfs.Op) vfs.Fault {
					if calls++; calls >= n {
						return vfs.Fault{Err: syscall.EIO}
					}
					return vfs.Fault{}
				})
			}
			var s *Segment
			if resumed {
				mem, state = st.active(t)
				s = OpenActive(faulty(mem), NewFiles(4), dir, state, st.opt)
			} else {
				s = st.write(t, faulty(mem), NewFiles(4))
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				syncNames(t, mem)
			}
			calls = 0
			s.Roll()
			_, err := s.Finish()
			for _, how := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedPrefix, vfs.UnsyncedSectors, vfs.UnsyncedPages, vfs.UnsyncedKept} {
				for _, names := range []vfs.Names{vfs.NamesLost, vfs.NamesJournaled, vfs.NamesRandom, vfs.NamesKept} {
					for seed := range uint64(3) {
						left := mem.Crash(vfs.CrashOptions{Seed: seed, Unsynced: how, Names: names})
						r, torn, short, rerr := Recover(left, NewFiles(4), dir, state, 0, st.opt)
						if rerr != nil || torn != nil || short {
							t.Fatalf("cut at call %d: %v, %v, %v", n, torn, short, rerr)
						}
						if serr := r.Settle(state.Size, nil); serr != nil {
							t.Fatal(serr)
						}
						seal := finish(t, r)
						r.Close()
						seal.LastAppend = wantSeal.LastAppend
						if seal != wantSeal {
							t.Fatalf("cut at call %d (%v, %v): the seal is\n%+v, want\n%+v", n, how, names, seal, wantSeal)
						}
						st.verify(t, left, seal)
						// And with the seal of the run that was cut, if it came that far.
						if err == nil {
							st.verify(t, left, wantSeal)
						}
					}
				}
			}
			if err == nil {
				if n < 5 {
					t.Errorf("finishing takes %d calls", n)
				}
				break
			}
			// In the same process: the disk is back, and so is the segment.
			calls = math.MinInt64
			if _, err := s.Finish(); err != nil {
				t.Fatalf("finish again after call %d failed: %v", n, err)
			}
			if err := st.check(s, nil); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
	}
}

// TestSettleCutAnywhere cuts the power at every call while a torn tail is cut and
// the rest made durable. Doing it again comes to the same end.
func TestSettleCutAnywhere(t *testing.T) {
	st := few(12, 50)
	disk, state := st.first(4).active(t)
	file, err := disk.OpenFile(logName(st.base), 2)
	if err != nil {
		t.Fatal(err)
	}
	log := st.bytes()
	if _, err := file.WriteAt(log[state.Size:len(log)-10], int64(state.Size)); err != nil {
		t.Fatal(err)
	}
	file.Close()
	for n := int64(1); ; n++ {
		mem := disk.Clone()
		faulty := vfs.NewFaulty(mem, vfs.FailFrom(vfs.OpAny, "", n, syscall.EIO))
		s, torn, _, err := Recover(faulty, NewFiles(4), dir, state, 0, st.opt)
		if err == nil {
			err = s.Settle(state.Size, torn)
		}
		for _, how := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedPrefix, vfs.UnsyncedSectors, vfs.UnsyncedPages, vfs.UnsyncedKept} {
			for seed := range uint64(5) {
				left := mem.Crash(vfs.CrashOptions{Seed: seed, Unsynced: how})
				r, torn, short, rerr := Recover(left, NewFiles(4), dir, state, 0, st.opt)
				if rerr != nil || short || r.Next() < state.Next {
					t.Fatalf("cut at call %d: next %d, %v, %v, %v", n, r.Next(), torn, short, rerr)
				}
				got := st.holding(r.Next())
				if r.Next() != st.first(got).next() || err == nil && got != 11 {
					t.Fatalf("cut at call %d: next %d", n, r.Next())
				}
				if serr := r.Settle(state.Size, torn); serr != nil {
					t.Fatal(serr)
				}
				r.Close()
				st.reopened(t, left.Crash(vfs.CrashOptions{}), got)
			}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), FileName(st.base)) {
			t.Fatalf("call %d fails: %v", n, err)
		}
	}
}
