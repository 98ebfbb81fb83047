package wal

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

const dir = "wal"

func disk(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem()
	if err := m.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t testing.TB, fsys vfs.FS) *Journal {
	t.Helper()
	_, old := readAll(t, fsys)
	j := Open(fsys, dir, Options{MaxBytes: MinBytes}, old, 0)
	t.Cleanup(func() { j.Close() })
	return j
}

// aFrame is a frame that tells which one it is.
func aFrame(n, size int) Frame {
	payload := bytes.Repeat([]byte{byte(n), byte(n >> 8), 0xa5}, size/3+1)[:size]
	return Frame{
		Kind: Data, Log: Log{Topic: [16]byte{1, byte(n)}, Partition: int32(n)}, Base: record.Offset(n), Pos: record.Pos(n) * 1000,
		Next: record.Offset(n + size), Length: int64(size), Payload: payload,
	}
}

func readAll(t testing.TB, fsys vfs.FS) ([]Round, *Old) {
	t.Helper()
	var rounds []Round
	old, err := Read(fsys, dir, func(r Round) error {
		r.Frames = slices.Clone(r.Frames)
		rounds = append(rounds, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rounds, old
}

func same(a, b Frame) bool {
	return a.Kind == b.Kind && a.Log == b.Log && a.Base == b.Base && a.Pos == b.Pos &&
		a.Next == b.Next && bytes.Equal(a.Payload, b.Payload) && a.Length == b.Length
}

func write(t testing.TB, j *Journal, frames ...Frame) {
	t.Helper()
	if _, err := j.Write(frames); err != nil {
		t.Fatal(err)
	}
}

// What was written is read back, over many files, released ones used again.
func TestWrittenIsRead(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	var want [][]Frame
	for n := range 200 {
		frames := []Frame{aFrame(n, n*37%5000), {Kind: Direct, Log: Log{Partition: 7}, Base: 5, Pos: 6, Next: record.Offset(n + 5), Length: 1 << 40}}
		write(t, j, frames...)
		want = append(want, frames)
		if n%15 == 14 {
			want = want[len(want)-5:]
			if err := j.Release(j.Round() - 5); err != nil {
				t.Fatal(err)
			}
		}
	}
	rounds, old := readAll(t, m)
	if old.round != 200 {
		t.Fatalf("last round %d", old.round)
	}
	rounds = rounds[len(rounds)-len(want):]
	for i, r := range rounds {
		if r.Number != uint64(200-len(want)+i+1) || r.Damaged != "" || r.Last != (i == len(want)-1) {
			t.Fatalf("round %d: %+v", i, r)
		}
		for k, f := range r.Frames {
			if !same(f, want[i][k]) {
				t.Fatalf("round %d frame %d differs", r.Number, k)
			}
		}
	}
	if n := len(m.Files()); n > 6 {
		t.Errorf("%d files for a few rounds that are needed", n)
	}
}

// Every cut of the power, whatever it leaves of what was not synced: all rounds
// whose Write returned are there, whole; of the one under way nothing, or some of
// its frames, and it is the last.
func TestEveryPowerCut(t *testing.T) {
	for cut := int64(1); ; cut++ {
		m := disk(t)
		var crashed []*vfs.Mem
		var returned atomic.Int64 // rounds whose Write has
		durable := 0              // of them when the power went; a file is prepared meanwhile
		faulty := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
			if op.Seq < cut {
				return vfs.Fault{}
			}
			if op.Seq == cut {
				durable = int(returned.Load())
				for seed := range uint64(4) {
					crashed = append(crashed, m.Crash(vfs.CrashOptions{Seed: seed, Unsynced: vfs.UnsyncedPages}))
				}
			}
			return vfs.Fault{Err: syscall.EIO}
		})
		old, err := Read(faulty, dir, func(Round) error { return nil })
		if err == nil {
			j := Open(faulty, dir, Options{MaxBytes: MinBytes}, old, 0)
			for n := 1; n <= 40 && err == nil; n++ {
				if _, err = j.Write([]Frame{aFrame(n, 3000), aFrame(n, 100)}); err == nil {
					returned.Store(int64(n))
				}
			}
			j.Close()
		}
		if err == nil {
			return
		}
		for seed, c := range crashed {
			rounds, _ := readAll(t, c)
			if len(rounds) < durable {
				t.Fatalf("cut %d seed %d: %d rounds of %d that were durable", cut, seed, len(rounds), durable)
			}
			for i, r := range rounds {
				if i < durable && (r.Damaged != "" || len(r.Frames) != 2) {
					t.Fatalf("cut %d seed %d: durable round %d is %+v", cut, seed, i+1, r.Damaged)
				}
				for _, f := range r.Frames {
					if !same(f, aFrame(i+1, len(f.Payload))) {
						t.Fatalf("cut %d seed %d: round %d holds what was never written", cut, seed, i+1)
					}
				}
			}
			if len(rounds) > durable+1 {
				t.Fatalf("cut %d seed %d: %d rounds, %d durable", cut, seed, len(rounds), durable)
			}
		}
	}
}

// A flip of any bit takes one frame at most, and is told of.
func TestEveryFlipTakesOneFrame(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	for n, size := range []int{5000, 100, 10} {
		write(t, j, aFrame(3*n, 40), aFrame(3*n+1, size), aFrame(3*n+2, 0))
	}
	write(t, j) // the closing mark
	j.Close()
	name := fileName(dir, 1)
	used := j.cur.pos * 8
	for bit := int64(0); bit < used; bit++ {
		if bit%(page*8) > 300*8 && bit%67 != 0 {
			continue // in the payload of the large frame, or in nothing
		}
		m.FlipBit(name, bit)
		rounds, _ := readAll(t, m)
		frames, damaged := 0, 0
		for _, r := range rounds {
			frames += len(r.Frames)
			if r.Damaged != "" {
				damaged++
			}
			for _, f := range r.Frames {
				if f.Kind == Data && f.Payload == nil && f.Length > 0 {
					frames--
					continue
				}
				if !same(f, aFrame(int(f.Base), len(f.Payload))) {
					t.Fatalf("bit %d: a frame that was never written", bit)
				}
			}
		}
		if frames < 8 {
			t.Fatalf("bit %d: %d of 9 frames left", bit, frames)
		}
		if frames < 9 && damaged == 0 {
			t.Fatalf("bit %d: a frame is missing and nothing is said", bit)
		}
		m.FlipBit(name, bit)
	}
}

// A disk that is full when a new file is needed costs nothing that was written,
// and writing goes on when there is room again.
func TestFullDisk(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	write(t, j, aFrame(0, 3000))
	m.Limit(m.Used())
	n := 1
	for ; n < 1000; n++ {
		if _, err := j.Write([]Frame{aFrame(n, 3000)}); err != nil {
			if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 10 || n == 1000 {
		t.Fatalf("%d rounds on a full disk", n)
	}
	if _, err := j.Write([]Frame{aFrame(n, 3000)}); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	m.Limit(1 << 40)
	write(t, j, aFrame(n, 3000))
	if rounds, _ := readAll(t, m); len(rounds) != n+1 || len(rounds[n].Frames) != 1 {
		t.Fatalf("%d rounds, %d were written", len(rounds), n+1)
	}
}

// Rounds that are not released fill the journal to its limit and no further.
func TestLimit(t *testing.T) {
	j := open(t, disk(t))
	n := 0
	for ; n < 1000; n++ {
		if _, err := j.Write([]Frame{aFrame(n, 3000)}); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n == 1000 || j.Bytes() > MinBytes || j.Bytes() < MinBytes-minFileBytes {
		t.Fatalf("%d rounds, %d bytes", n, j.Bytes())
	}
	if err := j.Release(j.Round()); err != nil {
		t.Fatal(err)
	}
	write(t, j, aFrame(n, 3000))
}

// What was retired is not read again, whatever the power does; the rounds after it
// are, under higher numbers.
func TestRetiredIsGone(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	for n := range 50 {
		write(t, j, aFrame(n, 3000))
	}
	j.Close()
	_, old := readAll(t, m)
	j = Open(m, dir, Options{MaxBytes: MinBytes}, old, 7)
	if err := j.Retire(j.Round()); err != nil {
		t.Fatal(err)
	}
	if rounds, _ := readAll(t, m.Crash(vfs.CrashOptions{})); len(rounds) > 0 {
		t.Fatalf("%d rounds are left", len(rounds))
	}
	write(t, j, aFrame(1, 10))
	write(t, j)
	if err := j.Retire(j.Round()); err != nil {
		t.Fatal(err)
	}
	write(t, j, aFrame(2, 10))
	rounds, _ := readAll(t, m.Crash(vfs.CrashOptions{}))
	if len(rounds) != 1 || rounds[0].Number != 53 || !same(rounds[0].Frames[0], aFrame(2, 10)) {
		t.Fatalf("read %+v", rounds)
	}
	if n := len(m.Files()); n > 1+spareFiles {
		t.Errorf("%d files for one round", n)
	}
}

// Rounds go on behind what the caller knows of, also when all files are gone.
func TestNumbersNeverGoBack(t *testing.T) {
	j := Open(disk(t), dir, Options{}, &Old{}, 41)
	defer j.Close()
	if n, err := j.Write(nil); n != 42 || err != nil {
		t.Fatal(n, err)
	}
}

// A failed sync is final.
func TestFailedSyncIsFinal(t *testing.T) {
	m := disk(t)
	fail := false
	faulty := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
		if fail && op.Kind == vfs.OpSync {
			fail = false
			return vfs.Fault{Err: syscall.EIO, DropOnSyncFail: true}
		}
		return vfs.Fault{}
	})
	j := open(t, faulty)
	write(t, j, aFrame(1, 100))
	fail = true
	for range 3 {
		if _, err := j.Write([]Frame{aFrame(2, 100)}); !errors.Is(err, syscall.EIO) {
			t.Fatalf("after a failed sync: %v", err)
		}
	}
	if rounds, _ := readAll(t, m.Crash(vfs.CrashOptions{})); len(rounds) != 1 {
		t.Fatalf("%d rounds", len(rounds))
	}
}

// Any bytes as a journal file: no panic, and no frame that was not sealed with the
// id and the position it stands at.
func FuzzRead(f *testing.F) {
	m := disk(f)
	j := open(f, m)
	write(f, j, aFrame(1, 40), aFrame(2, 0))
	write(f, j)
	j.Close()
	whole, err := m.ReadFile(fileName(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:3*page])
	f.Add(whole[:page])
	f.Add([]byte(fileMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := disk(t)
		m.WriteFile(dir+"/0000000001"+Suffix, data)
		Read(m, dir, func(r Round) error {
			if len(r.Frames) > len(data)/frameHeader {
				t.Fatalf("%d frames in %d bytes", len(r.Frames), len(data))
			}
			return nil
		})
	})
}

// Nothing of what a file held before it was used again is read: its rounds were
// small, and the large ones written over them leave some at the end of each file.
func TestNothingOfAnEarlierLifeIsRead(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	n := 0
	fill := func(rounds, size int) {
		for range rounds {
			write(t, j, aFrame(n, size))
			n++
		}
	}
	fill(50, 100) // more than three files
	if err := j.Release(j.Round()); err != nil {
		t.Fatal(err)
	}
	first := n
	fill(6, 24_000) // three files, of which two were used before
	rounds, _ := readAll(t, m)
	for _, r := range rounds {
		for _, f := range r.Frames {
			if r.Number == 0 || int(f.Base) < first && r.Number > uint64(first) {
				t.Fatalf("round %d has frame %d, of an earlier life", r.Number, f.Base)
			}
		}
	}
}

// Pages that stand at another place of the file than where they were written, or in
// another file, are no rounds.
func TestMisplacedPagesAreNoRounds(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	for n := range 5 {
		write(t, j, aFrame(n, 100))
	}
	name := fileName(dir, 1)
	data, err := m.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := readAll(t, m)
	moved := bytes.Clone(data)
	copy(moved[8*page:], data[3*page:6*page]) // behind the last round, with higher numbers than the first ones
	copy(moved[5*page:6*page], make([]byte, page))
	if err := m.WriteFile(name, moved); err != nil {
		t.Fatal(err)
	}
	got, _ := readAll(t, m)
	if len(got) != len(want)-1 {
		t.Fatalf("%d rounds, of which %d are in place", len(got), len(want)-1)
	}
	if err := m.WriteFile(fileName(dir, 2), slices.Concat(fileHead{number: 2, id: 7, size: 64 << 10}.encode(), data[page:])); err != nil {
		t.Fatal(err)
	}
	if again, _ := readAll(t, m); len(again) != len(got) {
		t.Fatalf("%d rounds with those of another file, %d without", len(again), len(got))
	}
}

// Rounds that were released are not missed, when their file was used again and
// another one, older, was not. Those that were not released are.
func TestReleasedRoundsAreNotMissed(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	n := 0
	for i := range 12 {
		for range 7 + 13*(i%4) {
			write(t, j, aFrame(n, 3000))
			n++
		}
		if err := j.Release(j.Round()); err != nil {
			t.Fatal(err)
		}
		write(t, j)
		rounds, old := readAll(t, m)
		if len(old.Damaged) > 0 {
			t.Fatalf("after %d rounds: %v", n, old.Damaged)
		}
		if len(rounds) == 0 || rounds[len(rounds)-1].Number != j.Round() {
			t.Fatalf("after %d rounds: %d are read", n, len(rounds))
		}
	}
	for range 40 {
		write(t, j, aFrame(n, 3000))
		n++
	}
	if err := m.Remove(j.live[len(j.live)-2].name); err != nil {
		t.Fatal(err)
	}
	if _, old := readAll(t, m); len(old.Missing(0)) != 1 {
		t.Fatalf("a file is gone: %v", old.Missing(0))
	}
}

// A frame whose header goes on in the next page is found behind a damaged header of
// its round.
func TestFramesBehindADamagedHeader(t *testing.T) {
	for size := page - 300; size < page; size += 8 {
		m := disk(t)
		j := open(t, m)
		write(t, j, aFrame(0, size), aFrame(1, 50), aFrame(2, 5000), aFrame(3, 1))
		write(t, j)
		if err := m.FlipBit(fileName(dir, 1), 8*(page+10)); err != nil {
			t.Fatal(err)
		}
		rounds, _ := readAll(t, m)
		found := 0
		for _, r := range rounds {
			for _, f := range r.Frames {
				if !same(f, aFrame(int(f.Base), len(f.Payload))) {
					t.Fatal("a frame that was never written")
				}
				found++
			}
		}
		if found != 4 {
			t.Fatalf("size %d: %d of 4 frames found", size, found)
		}
	}
}

// An engine that stops keeps one small file.
func TestShrinkKeepsTheSmallest(t *testing.T) {
	m := disk(t)
	_, old := readAll(t, m)
	j := Open(m, dir, Options{MaxBytes: 8 << 20}, old, 0)
	for n := range 100 {
		write(t, j, aFrame(n, 9000))
	}
	if err := errors.Join(j.Retire(j.Round()), j.Shrink(), j.Close()); err != nil {
		t.Fatal(err)
	}
	files := m.Files()
	if len(files) != 1 {
		t.Fatalf("left are %v", files)
	}
	rounds, old := readAll(t, m)
	if len(rounds) > 0 || old.files[0].head.size > 512<<10 {
		t.Errorf("a file of %d bytes with %d rounds", old.files[0].head.size, len(rounds))
	}
	j = Open(m, dir, Options{MaxBytes: 8 << 20}, old, 100)
	defer j.Close()
	write(t, j, aFrame(1, 10))
}

// A file cut to any length costs the rounds behind the cut. Whatever is in front of it,
// and in the other files, is read, and nothing that was never written; what is missing
// between rounds that are there is told of.
func TestEveryTruncation(t *testing.T) {
	m := disk(t)
	j := open(t, m)
	n := 0
	for ; len(j.live) < 3 || j.cur.pos < 5*page; n++ {
		write(t, j, aFrame(n, 100+n*1500%6000))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want, _ := readAll(t, m)
	if len(want) != n {
		t.Fatalf("%d rounds of %d", len(want), n)
	}
	for i, name := range m.Files() {
		data, err := m.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for size := 0; size < len(data); size += 61 {
			cut := m.Clone()
			if err := cut.Truncate(name, int64(size)); err != nil {
				t.Fatal(err)
			}
			expected := 0
			for _, r := range want {
				if end := r.Pos + roundHeader + frameHeader + r.Frames[0].Length; r.Path != m.Path(name) || int64(size) >= end {
					expected++
				}
			}
			rounds, old := readAll(t, cut)
			whole, damaged := 0, len(old.Missing(0)) > 0
			for _, r := range rounds {
				damaged = damaged || r.Damaged != ""
				for _, f := range r.Frames {
					if f.Payload == nil {
						continue
					}
					if whole++; !same(f, aFrame(int(f.Base), len(f.Payload))) {
						t.Fatalf("%s cut to %d: a frame that was never written", name, size)
					}
				}
			}
			if whole != expected {
				t.Fatalf("%s cut to %d: %d frames are whole, expected %d", name, size, whole, expected)
			}
			if i == 1 && whole < n && !damaged {
				t.Fatalf("%s cut to %d: %d of %d frames, and nothing is said", name, size, whole, n)
			}
		}
	}
}

// A write that fails, whole or in part, is final as a failed sync is: what is on the
// disk of the round is not known. Whatever of it is there, no round but the last is
// damaged, and what was written before is there.
func TestFailedWriteIsFinal(t *testing.T) {
	for short := 0; short <= 8192; short += 100 {
		m := disk(t)
		fail := false
		faulty := vfs.NewFaulty(m, func(op vfs.Op) vfs.Fault {
			if fail && op.Kind == vfs.OpWrite {
				fail = false
				return vfs.Fault{Err: syscall.EIO, Short: short}
			}
			return vfs.Fault{}
		})
		j := open(t, faulty)
		write(t, j, aFrame(1, 100))
		fail = true
		for range 3 {
			if _, err := j.Write([]Frame{aFrame(2, 6000), aFrame(3, 10)}); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrFull) {
				t.Fatalf("after a failed write: %v", err)
			}
		}
		for _, left := range []*vfs.Mem{m, m.Crash(vfs.CrashOptions{})} {
			rounds, old := readAll(t, left)
			if len(rounds) == 0 || len(rounds) > 2 || rounds[0].Damaged != "" || len(old.Damaged) > 0 || !same(rounds[0].Frames[0], aFrame(1, 100)) {
				t.Fatalf("%d bytes: %d rounds, %v", short, len(rounds), old.Damaged)
			}
		}
	}
}
