package segment

import (
	"bytes"
	"fmt"
	"slices"
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
	s, cut, short, err := Recover(mem, NewFiles(4), dir, known, 0, st.opt)
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
		s, torn, _, err := Recover(disk, NewFiles(4), dir, State{Base: st.base}, 0, st.opt)
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
				s, torn, short, err := Recover(mem, NewFiles(4), dir, state, 0, st.opt)
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
		s, torn, short, err := Recover(mem, NewFiles(4), dir, state, 0, st.opt)
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
