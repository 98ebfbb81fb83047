package segment

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// onLog is a rule for one kind of call on log files, while it is armed.
func onLog(kind vfs.OpKind, armed *atomic.Bool, fault vfs.Fault) func(vfs.Op) vfs.Fault {
	return func(op vfs.Op) vfs.Fault {
		if armed.Load() && op.Kind == kind && op.Name == logName(100) {
			return fault
		}
		return vfs.Fault{}
	}
}

// tryAppend appends batches i to j of the story with one call.
func (st *story) tryAppend(s *Segment, i, j int) error {
	var bufs [][]byte
	for k := i; k < j; k++ {
		raw := st.batches[k].Bytes()
		bufs = append(bufs, raw[:16], raw[16:])
	}
	return s.Append(bufs, st.entries()[i:j], 5)
}

// reopened recovers what is on a disk, settles it, and holds it against the first
// n batches of the story.
func (st *story) reopened(t testing.TB, fsys vfs.FS, n int) {
	t.Helper()
	s, torn, short, err := Recover(fsys, NewFiles(4), dir, State{Base: st.base}, 0, st.opt)
	if err != nil || short {
		t.Fatalf("recover: %v, %v", short, err)
	}
	defer s.Close()
	if err := s.Settle(0, torn); err != nil {
		t.Fatal(err)
	}
	part := &story{base: st.base, opt: st.opt, batches: st.batches[:n]}
	if s.Next() != part.next() || s.Size() != part.size() {
		t.Fatalf("recovered up to offset %d, position %d, want %d, %d", s.Next(), s.Size(), part.next(), part.size())
	}
	if err := part.check(s, nil); err != nil {
		t.Fatal(err)
	}
}

// TestFailedAppendIsTakenBack has the write of three batches stop at each byte. The
// append fails and nothing of it is left; the next one gets the same place.
func TestFailedAppendIsTakenBack(t *testing.T) {
	st := few(6, 100)
	total := 0
	for _, b := range st.batches[2:5] {
		total += b.Size()
	}
	for k := 0; k <= total; k++ {
		mem := newDisk(t)
		var armed atomic.Bool
		faulty := vfs.NewFaulty(mem, onLog(vfs.OpWrite, &armed, vfs.Fault{Err: syscall.ENOSPC, Short: k}))
		s, err := Create(faulty, NewFiles(4), dir, st.base, st.opt)
		if err != nil {
			t.Fatal(err)
		}
		if err := st.tryAppend(s, 0, 2); err != nil {
			t.Fatal(err)
		}
		s.Show(s.Size())
		before := s.state()
		armed.Store(true)
		if err := st.tryAppend(s, 2, 5); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("stopped at byte %d: %v", k, err)
		}
		armed.Store(false)
		if s.state() != before || s.Failed() != nil {
			t.Fatalf("stopped at byte %d: %+v, before %+v, failed %v", k, s.state(), before, s.Failed())
		}
		if info, err := mem.Stat(logName(st.base)); err != nil || info.Size() != int64(before.Size) {
			t.Fatalf("stopped at byte %d: the file has %v, %v, want %d", k, info.Size(), err, before.Size)
		}
		if told, err := read(s, 1, st.base, math.MaxInt64); err != nil || len(told.batches) != 2 || len(told.gaps) != 0 {
			t.Fatalf("stopped at byte %d: %v, %v", k, told, err)
		}
		st.reopened(t, mem.Clone(), 2)
		if err := st.tryAppend(s, 2, 6); err != nil {
			t.Fatal(err)
		}
		s.Show(s.Size())
		if err := st.check(s, nil); err != nil {
			t.Fatalf("stopped at byte %d: %v", k, err)
		}
		seal := finish(t, s)
		s.Close()
		st.verify(t, mem, seal)
	}
}

// TestFailedCutBackPoisons has the cut after a failed write fail too. Nothing is
// appended or synced any more, readers go on, and recovery finds whole batches.
func TestFailedCutBackPoisons(t *testing.T) {
	st := few(6, 100)
	mem := newDisk(t)
	var armed atomic.Bool
	short := st.batches[2].Size() - 1
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		switch {
		case !armed.Load():
		case op.Kind == vfs.OpWrite:
			return vfs.Fault{Err: syscall.ENOSPC, Short: short}
		case op.Kind == vfs.OpTruncate:
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	})
	s, err := Create(faulty, NewFiles(4), dir, st.base, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := st.tryAppend(s, 0, 2); err != nil {
		t.Fatal(err)
	}
	s.Show(s.Size())
	armed.Store(true)
	if err := st.tryAppend(s, 2, 5); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	armed.Store(false)
	if !errors.Is(s.Failed(), syscall.EIO) {
		t.Fatalf("failed: %v", s.Failed())
	}
	for what, err := range map[string]error{"append": st.tryAppend(s, 2, 3), "sync": s.Sync()} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s afterwards: %v", what, err)
		}
	}
	s.Roll()
	if _, err := s.Finish(); !errors.Is(err, syscall.EIO) {
		t.Errorf("finish afterwards: %v", err)
	}
	told, err := read(s, 1, st.base, math.MaxInt64)
	if err != nil || len(told.batches) != 2 || len(told.gaps) != 0 {
		t.Errorf("read afterwards: %v, %v", told, err)
	}
	st.reopened(t, mem.Clone(), 2)
}

// TestFailedSyncIsFinal has one sync fail. Nothing is synced or appended any more,
// though the disk would take it, and readers go on.
func TestFailedSyncIsFinal(t *testing.T) {
	st := few(6, 100)
	mem := newDisk(t)
	var armed atomic.Bool
	faulty := vfs.NewFaulty(mem, onLog(vfs.OpSync, &armed, vfs.Fault{Err: syscall.EIO, DropOnSyncFail: true}))
	s := st.write(t, faulty, NewFiles(4))
	defer s.Close()
	armed.Store(true)
	if err := s.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	armed.Store(false)
	syncs := faulty.Count(vfs.OpSync)
	for range 3 {
		if err := s.Sync(); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync again: %v", err)
		}
		if err := st.tryAppend(s, 0, 1); !errors.Is(err, syscall.EIO) {
			t.Errorf("append: %v", err)
		}
	}
	if !s.Unsynced() || faulty.Count(vfs.OpSync) != syncs {
		t.Errorf("unsynced %v, %d syncs after the failed one", s.Unsynced(), faulty.Count(vfs.OpSync)-syncs)
	}
	if err := st.check(s, nil); err != nil {
		t.Error(err)
	}
}

// TestSyncsOfOneSegmentTakeTurns runs two syncs beside each other, of which the
// kernel tells only the first that the bytes are lost. Neither may succeed.
func TestSyncsOfOneSegmentTakeTurns(t *testing.T) {
	st := few(3, 100)
	gate := make(chan struct{})
	var syncs atomic.Int32
	faulty := vfs.NewFaulty(newDisk(t), func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpSync && syncs.Add(1) == 1 {
			return vfs.Fault{Block: gate, Err: syscall.EIO}
		}
		return vfs.Fault{}
	})
	s := st.write(t, faulty, NewFiles(4))
	defer s.Close()
	results := make(chan error, 2)
	go func() { results <- s.Sync() }()
	for syncs.Load() == 0 {
		runtime.Gosched()
	}
	go func() { results <- s.Sync() }()
	for i := 0; i < 10_000 && len(results) == 0; i++ {
		runtime.Gosched() // time enough for the second to overtake
	}
	close(gate)
	for range 2 {
		if err := <-results; !errors.Is(err, syscall.EIO) {
			t.Errorf("a sync beside the failed one says %v", err)
		}
	}
	if !s.Unsynced() {
		t.Error("the bytes count as synced")
	}
}

// TestSyncCoversNoLaterAppend appends while a sync runs.
func TestSyncCoversNoLaterAppend(t *testing.T) {
	st := few(4, 100)
	gate, began := make(chan struct{}), make(chan struct{})
	faulty := vfs.NewFaulty(newDisk(t), func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpSync && gate != nil {
			close(began)
			return vfs.Fault{Block: gate}
		}
		return vfs.Fault{}
	})
	s, err := Create(faulty, NewFiles(4), dir, st.base, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := st.tryAppend(s, 0, 2); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Sync() }()
	<-began
	if err := st.tryAppend(s, 2, 4); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !s.Unsynced() {
		t.Error("the sync covers what was appended after it began")
	}
	gate = nil
	if err := s.Sync(); err != nil || s.Unsynced() {
		t.Errorf("the next sync: %v, unsynced %v", err, s.Unsynced())
	}
}

// TestVisibleNeverGoesBack shows positions from many goroutines, close behind one
// another.
func TestVisibleNeverGoesBack(t *testing.T) {
	s := OpenActive(newDisk(t), NewFiles(4), dir, State{}, Options{})
	var last atomic.Int64
	done := make(chan struct{})
	for range 4 {
		go func() {
			for range 200_000 {
				pos := last.Add(1)
				s.Show(record.Pos(pos))
				if seen := s.visible.Load(); seen < pos {
					t.Errorf("%d is visible after %d was shown", seen, pos)
					break
				}
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
}

// TestFits is about what a segment has room for at all: 31 bits of positions and
// of relative offsets (KAFKA-4451).
func TestFits(t *testing.T) {
	const most = math.MaxInt32
	for _, c := range []struct {
		size int64
		more int64
		last record.Offset
		want bool
	}{
		{0, most, 100, true},
		{0, most, 100 + most, true},
		{0, 1, 100 + most + 1, false},
		{0, 1, math.MaxInt64, false},
		{1, most - 1, 100, true},
		{1, most, 100, false},
		{most - 1, 1, 100, true},
		{most, 1, 100, false},
		{most, math.MaxInt64 - most, 100, false},
		{10, 10, 100 + most, true},
		{10, 10, 100 + most + 1, false},
	} {
		s := OpenActive(nil, NewFiles(4), dir, State{Base: 100, Size: record.Pos(c.size)}, Options{})
		if got := s.Fits(c.more, c.last); got != c.want {
			t.Errorf("%d bytes and %d more, up to offset %d: %v", c.size, c.more, c.last, got)
		}
	}
}

// TestCreate takes over an empty file (KAFKA-6388) and refuses one with bytes.
func TestCreate(t *testing.T) {
	mem := newDisk(t)
	st := few(2, 100)
	put(t, mem, logName(st.base), nil)
	files := NewFiles(4)
	s := st.write(t, mem, files)
	seal := finish(t, s)
	if _, err := Create(mem, files, dir, st.base, st.opt); err == nil {
		t.Error("a segment with bytes in it was made anew")
	}
	if files.Open() != 1 {
		t.Errorf("%d files are open, want the one of the segment that is there", files.Open())
	}
	s.Close()
	if _, err := Create(mem, files, "q", st.base, st.opt); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that is not there: %v", err)
	}
	if files.Open() != 0 {
		t.Errorf("%d files are left open", files.Open())
	}
	st.verify(t, mem, seal)
}

// TestAppendKeepsWhatItIsGiven checks that neither an append nor a read changes
// the buffers of its caller, or hands out its own.
func TestAppendKeepsWhatItIsGiven(t *testing.T) {
	st := few(6, 100)
	want := st.bytes()
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(4))
	defer s.Close()
	if !bytes.Equal(st.bytes(), want) {
		t.Error("appending changes what is appended")
	}
	chunk, err := s.Read(nil, 1<<20, st.base, st.next(), -1)
	if err != nil || !bytes.Equal(chunk.Data, want) || chunk.Next != st.next() || chunk.Pos != st.size() {
		t.Fatalf("read: %d bytes, next %d, position %d, %v", len(chunk.Data), chunk.Next, chunk.Pos, err)
	}
	clear(chunk.Data)
	buf := make([]byte, 0, 10_000)
	again, err := s.Read(buf, 1<<20, st.base, st.next(), -1)
	if err != nil || !bytes.Equal(again.Data, want) {
		t.Errorf("read again: %v", err)
	}
	if &again.Data[0] != &buf[:1][0] {
		t.Error("the caller's buffer is not used")
	}
	if cap(again.Data) != len(again.Data) {
		t.Error("a chunk has room behind it, which an append would write to")
	}
}
