package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// wholeBelow is how many batches of the story end at or before a position.
func (st *story) wholeBelow(size int) int {
	n := 0
	for n < len(st.batches) && int(st.batches[n].pos)+st.batches[n].Size() <= size {
		n++
	}
	return n
}

// first is the story of its first n batches.
func (st *story) first(n int) *story {
	return &story{base: st.base, opt: st.opt, batches: st.batches[:n]}
}

// recovered takes up what is on a disk, checks what it says of itself, goes on
// with two more batches, seals, and reads it all again from a fresh start.
func (st *story) recovered(t testing.TB, mem *vfs.Mem, known State, want int, torn bool) {
	t.Helper()
	s, cut, short, err := Recover(mem, NewFiles(4), dir, known, st.opt)
	if err != nil || short {
		t.Fatalf("recover: short %v, %v", short, err)
	}
	defer s.Close()
	part := st.first(want)
	if s.Next() != part.next() || s.Size() != part.size() {
		t.Fatalf("recovered up to offset %d, position %d, want %d, %d: %+v", s.Next(), s.Size(), part.next(), part.size(), cut)
	}
	if torn != (cut != nil) || torn && (cut.At != part.size() || cut.Reason == "" || cut.Bytes <= 0) {
		t.Fatalf("torn end %+v", cut)
	}
	if err := part.check(s, nil); err != nil {
		t.Fatalf("before the tail is cut: %v", err)
	}
	if err := s.Settle(known.Size, cut); err != nil {
		t.Fatal(err)
	}
	if data, err := mem.ReadFile(logName(st.base)); err != nil || !bytes.Equal(data, part.bytes()) {
		t.Fatalf("the file is %d bytes, want the %d of what was recovered, %v", len(data), part.size(), err)
	}
	if s.Unsynced() {
		t.Fatal("what was settled counts as not synced")
	}
	// Whatever a power cut takes now, it is nothing of this.
	for _, how := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedPages, vfs.UnsyncedKept} {
		part.reopened(t, mem.Crash(vfs.CrashOptions{Unsynced: how, Names: vfs.NamesKept}), want)
	}
	again := st.first(want)
	again.batches = slices.Clip(again.batches)
	again.add(shape{n: 2, epoch: 9})
	again.add(shape{n: 1, epoch: 9})
	again.appendTo(t, s, want)
	if err := again.check(s, nil); err != nil {
		t.Fatalf("with more appended: %v", err)
	}
	seal := finish(t, s)
	clean := newDisk(t)
	c := again.write(t, clean, NewFiles(4))
	wantSeal := finish(t, c)
	c.Close()
	seal.LastAppend, wantSeal.LastAppend = 0, 0
	if seal != wantSeal {
		t.Fatalf("the seal is\n%+v, of one that was never interrupted\n%+v", seal, wantSeal)
	}
	again.verify(t, mem, seal)
}

// TestTornTailAtEveryByte cuts the log at every byte of its last two batches, and
// takes it up from nothing known, from a state in the middle, and with zeros or
// noise behind the cut, as a lost page leaves them.
func TestTornTailAtEveryByte(t *testing.T) {
	st := few(9, 150)
	mem, state := st.first(5).active(t)
	whole := st.bytes()
	index := indexFiles(t, mem, st.base)
	for size := int(st.batches[7].pos); size <= len(whole); size++ {
		for behind, junk := range [][]byte{nil, make([]byte, 40), bytes.Repeat([]byte{0xe7}, 90)} {
			log := append(slices.Clone(whole[:size]), junk...)
			same := size
			for same < min(len(log), len(whole)) && log[same] == whole[same] {
				same++ // the junk is what was there
			}
			want := st.wholeBelow(same)
			torn := len(log) > int(st.first(want).size())
			for _, known := range []State{{Base: st.base}, state} {
				disk := newDisk(t)
				put(t, disk, logName(st.base), log)
				for k := range indexKinds {
					put(t, disk, dir+"/"+FileName(st.base)+indexKinds[k].suffix, index[k])
				}
				if t.Failed() {
					return
				}
				t.Run(fmt.Sprintf("%d bytes, junk %d, known %d", size, behind, known.Size), func(t *testing.T) {
					st.recovered(t, disk, known, want, torn)
				})
			}
		}
	}
}

// TestRecoveryTwiceIsTheSame recovers the same file twice, cut short between.
func TestRecoveryTwiceIsTheSame(t *testing.T) {
	st := few(9, 150)
	disk := newDisk(t)
	put(t, disk, logName(st.base), st.bytes()[:int(st.size())-5])
	var states []State
	for range 3 {
		s, torn, _, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, st.opt)
		if err != nil || torn == nil {
			t.Fatal(torn, err)
		}
		states = append(states, s.state())
		s.Close()
	}
	if states[0] != states[1] || states[1] != states[2] || states[0].Next != st.first(8).next() {
		t.Errorf("%+v", states)
	}
	if data, _ := disk.ReadFile(logName(st.base)); len(data) != int(st.size())-5 {
		t.Errorf("recovering alone has changed the file to %d bytes", len(data))
	}
	st.reopened(t, disk, 8)
}

// TestRecoverKeepsWhatTheTailAlonePins is recovery of logs of which neighbours do
// not say everything: with gaps, with several epochs, with -1 for an epoch, which
// is what Kafka leaves where no broker gave one.
func TestRecoverKeepsWhatTheTailAlonePins(t *testing.T) {
	for name, st := range map[string]*story{
		"sparse": manyBatches(false, someGaps, constant(5)),
		"epochs": manyBatches(true, noGaps, stepping),
		"no epoch": func() *story {
			st := newStory(100, 100, true)
			st.add(shape{n: 2, epoch: -1})
			st.add(shape{n: 1, epoch: -1})
			st.add(shape{n: 1, epoch: 0})
			return st
		}(),
		"empty batch of a compacted log": func() *story {
			st := newStory(100, 100, false)
			st.add(shape{n: 3})
			raw := bytes.Clone(st.batches[0].Bytes()[:record.BatchOverhead])
			raw[11] = record.BatchOverhead - record.LogOverhead
			raw[57], raw[58], raw[59], raw[60] = 0, 0, 0, 0
			record.SetBaseOffset(raw, 110)
			record.SetMaxTimestamp(raw, record.NoTimestamp)
			st.addRaw(raw)
			st.add(shape{n: 2, gap: 4})
			return st
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t)
			put(t, disk, logName(st.base), st.bytes())
			st.reopened(t, disk, len(st.batches))
			for _, n := range []int{1, 2} {
				mem, state := st.first(n).active(t)
				put(t, mem, logName(st.base), st.bytes())
				s, torn, short, err := Recover(mem, NewFiles(4), dir, state, st.opt)
				if err != nil || torn != nil || short || s.Next() != st.next() {
					t.Fatalf("from batch %d on: next %d, %+v, %v, %v", n, s.Next(), torn, short, err)
				}
				if err := st.check(s, nil); err != nil {
					t.Errorf("from batch %d on: %v", n, err)
				}
				s.Close()
			}
		})
	}
}

// TestRecoverRefusesWhatDoesNotFollow gives recovery a batch that checks and does
// not belong: of an earlier life of the disk, or of another place.
func TestRecoverRefusesWhatDoesNotFollow(t *testing.T) {
	stray := func(base record.Offset, epoch record.Epoch) []byte {
		st := newStory(base, 100, true)
		st.add(shape{n: 2, epoch: epoch})
		return st.batches[0].Bytes()
	}
	st := few(3, 100)
	for name, behind := range map[string][]byte{
		"the last once more":  st.batches[2].Bytes(),
		"an earlier offset":   stray(st.next()-1, 2),
		"a later offset":      stray(st.next()+1, 2),
		"an earlier epoch":    stray(st.next(), 1),
		"a negative epoch":    stray(st.next(), -1),
		"message set magic 1": append(bytes.Clone(stray(st.next(), 2)[:16]), bytes.Repeat([]byte{1}, 60)...),
	} {
		t.Run(name, func(t *testing.T) {
			disk := newDisk(t)
			put(t, disk, logName(st.base), append(st.bytes(), behind...))
			st.recovered(t, disk, State{Base: st.base}, 3, true)
		})
	}
}

// TestRecoverShorterThanKnown has the file lack bytes that were on stable storage:
// that is damage, which readers are told, and nothing is cut or appended.
func TestRecoverShorterThanKnown(t *testing.T) {
	st := few(9, 150)
	for size := 0; size < int(st.size()); size += 50 {
		mem, state := st.active(t)
		put(t, mem, logName(st.base), st.bytes()[:size])
		s, torn, short, err := Recover(mem, NewFiles(4), dir, state, st.opt)
		if err != nil || !short || torn != nil {
			t.Fatalf("%d bytes: short %v, torn %v, %v", size, short, torn, err)
		}
		lost := hits{}
		for i := st.wholeBelow(size); i < len(st.batches); i++ {
			lost[i] = true
		}
		if err := st.check(s, lost); err != nil {
			t.Errorf("%d bytes: %v", size, err)
		}
		seal := finish(t, s)
		if seal.Next != st.next() || seal.Size != st.size() {
			t.Errorf("%d bytes: the seal is %+v", size, seal)
		}
		s.Close()
		s = OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
		if err := st.check(s, lost); err != nil {
			t.Errorf("%d bytes, sealed: %v", size, err)
		}
		s.Close()
	}
}

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
		s, torn, short, err := Recover(killed, NewFiles(4), dir, state, st.opt)
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
	s, torn, _, err := Recover(faulty, NewFiles(4), dir, state, st.opt)
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

// TestAdopt takes up a damaged segment that is known to have been whole, as one
// that was rolled before the next began. Batches behind the damage are read, and
// what is lost is told, then and when it is opened again. The leader epoch is not
// among what is damaged: nothing vouches for it before a segment is sealed.
func TestAdopt(t *testing.T) {
	st := few(12, 150)
	next := st.next()
	for i := range st.batches {
		for _, at := range []int{3, 9, 16, 18, 24, 40, 59, 63} {
			disk := newDisk(t)
			log := st.bytes()
			log[int(st.batches[i].pos)+at] ^= 0x10
			put(t, disk, logName(st.base), log)
			s, torn, short, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, st.opt)
			if err != nil || torn == nil || short {
				t.Fatal(torn, short, err)
			}
			s.Roll()
			if err := s.Adopt(next); err != nil {
				t.Fatal(err)
			}
			if err := s.Settle(0, nil); err != nil {
				t.Fatal(err)
			}
			lost := hits{i: true}
			if s.Next() != next || s.Size() != st.size() {
				t.Fatalf("byte %d of batch %d: next %d, size %d", at, i, s.Next(), s.Size())
			}
			if err := errors.Join(st.check(s, lost), st.checkTimes(t, s, lost)); err != nil {
				t.Errorf("byte %d of batch %d: %v", at, i, err)
			}
			seal := finish(t, s)
			s.Close()
			s = OpenSealed(disk, NewFiles(4), dir, seal, st.opt)
			if err := errors.Join(st.check(s, lost), st.checkTimes(t, s, lost)); err != nil {
				t.Errorf("byte %d of batch %d, opened again: %v", at, i, err)
			}
			s.Close()
			if data, _ := disk.ReadFile(logName(st.base)); !bytes.Equal(data, log) {
				t.Errorf("byte %d of batch %d: adopting has changed the file", at, i)
			}
		}
	}
}

// TestAdoptOfNothing is a segment of which nothing checks.
func TestAdoptOfNothing(t *testing.T) {
	st := few(5, 150)
	disk := newDisk(t)
	put(t, disk, logName(st.base), make([]byte, st.size()))
	s, _, _, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Roll()
	if err := s.Adopt(st.next()); err != nil {
		t.Fatal(err)
	}
	_, err = s.Read(nil, 1, st.base+3, math.MaxInt64, -1)
	var damage *CorruptError
	if !errors.As(err, &damage) || damage.From != st.base || damage.To != st.next() {
		t.Errorf("read: %v", err)
	}
	finish(t, s)
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
						r, torn, short, rerr := Recover(left, NewFiles(4), dir, state, st.opt)
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
		s, torn, _, err := Recover(faulty, NewFiles(4), dir, state, st.opt)
		if err == nil {
			err = s.Settle(state.Size, torn)
		}
		for _, how := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedPrefix, vfs.UnsyncedSectors, vfs.UnsyncedPages, vfs.UnsyncedKept} {
			for seed := range uint64(5) {
				left := mem.Crash(vfs.CrashOptions{Seed: seed, Unsynced: how})
				r, torn, short, rerr := Recover(left, NewFiles(4), dir, state, st.opt)
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

// TestAppendEpochs lists where leader epochs begin, as Kafka's checkpoint of them
// does, over segments that are opened from what is kept of them.
func TestAppendEpochs(t *testing.T) {
	one := newStory(0, 100, true)
	for _, epoch := range []record.Epoch{0, 0, 2, 2, 3} {
		one.add(shape{n: 2, epoch: epoch})
	}
	two := newStory(one.next(), 100, true)
	two.add(shape{n: 1, epoch: 3})
	three := newStory(two.next(), 100, true)
	three.add(shape{n: 1, epoch: 3})
	three.add(shape{n: 1, epoch: 7})
	want := []EpochStart{{0, 0}, {2, 4}, {3, 8}, {7, 12}}
	for damaged := range 2 {
		var got []EpochStart
		for _, st := range []*story{one, two, three, newStory(13, 100, true)} {
			if len(st.batches) == 0 {
				got = OpenActive(newDisk(t), NewFiles(4), dir, State{Base: 13}, st.opt).AppendEpochs(got)
				continue
			}
			mem, seal := st.sealed(t)
			if damaged == 1 && st == one { // the record bytes of a batch say nothing of epochs
				flip(t, mem, 0, int64(st.size())*8-20)
			}
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			got = s.AppendEpochs(got)
			s.Close()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
