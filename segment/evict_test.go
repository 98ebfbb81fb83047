package segment

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// TestDirtyFileIsSyncedBeforeItIsClosed makes room in a table full of unsynced
// segments. Each is synced, then closed: closing first could lose the error of a
// failed write-back.
func TestDirtyFileIsSyncedBeforeItIsClosed(t *testing.T) {
	var events []string
	mem := newDisk(t)
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if op.Name == logName(100) && (op.Kind == vfs.OpSync || op.Kind == vfs.OpClose) {
			events = append(events, op.Kind.String())
		}
		return vfs.Fault{}
	})
	files := NewFiles(4)
	st := few(3, 100)
	s := st.write(t, faulty, files)
	for files.evict() {
	}
	if fmt.Sprint(events) != "[sync close]" || s.Unsynced() {
		t.Errorf("%v, unsynced %v", events, s.Unsynced())
	}
	if err := st.check(s, nil); err != nil {
		t.Error(err)
	}
}

// TestCleanFilesGoFirst has one synced and three unsynced segments: the synced one
// is closed to make room, though it was used last.
func TestCleanFilesGoFirst(t *testing.T) {
	faulty := vfs.NewFaulty(newDisk(t), nil)
	files := NewFiles(4)
	var segs []*Segment
	for i := range 4 {
		st := newStory(record.Offset(i*10), 100, true)
		st.add(shape{n: 1})
		segs = append(segs, st.write(t, faulty, files))
	}
	if err := segs[3].Sync(); err != nil {
		t.Fatal(err)
	}
	syncs := faulty.Count(vfs.OpSync)
	if !files.evict() || segs[3].open.Load() != nil || faulty.Count(vfs.OpSync) != syncs {
		t.Errorf("another one than the clean file was closed, with %d syncs", faulty.Count(vfs.OpSync)-syncs)
	}
}

// TestAppendDuringEviction appends while the sync of an eviction runs. What was
// appended is synced too before its file is closed.
func TestAppendDuringEviction(t *testing.T) {
	st := few(4, 100)
	gate, began := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var s *Segment
	var closedDirty atomic.Bool
	faulty := vfs.NewFaulty(newDisk(t), func(op vfs.Op) vfs.Fault {
		switch {
		case op.Name != logName(100):
		case op.Kind == vfs.OpSync:
			blocked := false
			once.Do(func() { blocked = true; close(began) })
			if blocked {
				return vfs.Fault{Block: gate}
			}
		case op.Kind == vfs.OpClose && s.Unsynced():
			closedDirty.Store(true)
		}
		return vfs.Fault{}
	})
	files := NewFiles(4)
	s, err := Create(faulty, files, dir, st.base, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.tryAppend(s, 0, 2); err != nil {
		t.Fatal(err)
	}
	done := make(chan bool)
	go func() { done <- files.evict() }()
	<-began
	if err := st.tryAppend(s, 2, 4); err != nil {
		t.Fatal(err)
	}
	close(gate)
	if !<-done {
		t.Fatal("nothing was evicted")
	}
	if closedDirty.Load() {
		t.Error("a file with unsynced bytes was closed")
	}
	s.Show(s.Size())
	if err := st.check(s, nil); err != nil {
		t.Error(err)
	}
	seal := finish(t, s)
	s.Close()
	st.verify(t, faulty, seal)
}

// TestFailedSyncOfAnEvictionIsOneSegments has the sync fail by which room is made
// for another segment. It poisons the one whose bytes it was; whoever wanted the
// room gets it, then and later.
func TestFailedSyncOfAnEvictionIsOneSegments(t *testing.T) {
	mem, stories, seals := row(t, 10)
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpSync {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	})
	files := NewFiles(4)
	var dirty []*Segment
	for i := range 4 {
		st := newStory(record.Offset(1000+i*10), 100, true)
		st.add(shape{n: 2})
		dirty = append(dirty, st.write(t, faulty, files))
	}
	for i := range stories {
		s := OpenSealed(faulty, files, dir, seals[i], stories[i].opt)
		if err := stories[i].check(s, nil); err != nil {
			t.Fatalf("segment %d is read: %v", i, err)
		}
		if s.Failed() != nil {
			t.Errorf("segment %d is poisoned: %v", i, s.Failed())
		}
	}
	poisoned := 0
	for _, s := range dirty {
		if s.Failed() != nil {
			poisoned++
			if !errors.Is(s.Sync(), syscall.EIO) || !s.Unsynced() {
				t.Errorf("sync of a poisoned segment: %v", s.Sync())
			}
		}
		if told, err := read(s, 1, s.Base(), s.Next()); err != nil || len(told.batches) != 1 {
			t.Errorf("read of a poisoned segment: %v, %v", told, err)
		}
	}
	if poisoned == 0 {
		t.Error("no segment noticed that its sync failed")
	}
	if files.Open() > 4 {
		t.Errorf("%d files are open", files.Open())
	}
}
