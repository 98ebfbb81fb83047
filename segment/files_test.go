package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// row is many small sealed segments in one directory.
func row(t testing.TB, n int) (*vfs.Mem, []*story, []Seal) {
	t.Helper()
	mem := newDisk(t)
	var stories []*story
	var seals []Seal
	files := NewFiles(4)
	for i := range n {
		st := newStory(record.Offset(i)*10, 4096, true)
		st.add(shape{n: 10})
		s := st.write(t, mem, files)
		seals = append(seals, finish(t, s))
		s.Close()
		stories = append(stories, st)
	}
	return mem, stories, seals
}

// TestManySegmentsUnderFewFiles scans ten thousand segments, back and forth, with
// sixteen files. No more than that are ever open.
func TestManySegmentsUnderFewFiles(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	mem, stories, seals := row(t, n)
	faulty := vfs.NewFaulty(mem, nil)
	files := NewFiles(16)
	segs := make([]*Segment, n)
	for i := range segs {
		segs[i] = OpenSealed(faulty, files, dir, seals[i], stories[i].opt)
	}
	if opens := faulty.Count(vfs.OpAny); opens != 0 {
		t.Errorf("opening the segments took %d calls", opens)
	}
	visit := func(i int) {
		if err := stories[i].check(segs[i], nil); err != nil {
			t.Fatalf("segment %d: %v", i, err)
		}
		// The log of the last, and two files of an index while it is opened.
		if files.Open() > 16 || handles(faulty) > 16 {
			t.Fatalf("%d segments and %d files are open", files.Open(), handles(faulty))
		}
	}
	for i := range n {
		visit(i)
	}
	for i := n - 1; i >= 0; i -= 7 {
		visit(i)
	}
	for _, s := range segs {
		s.Close()
	}
	if files.Open() != 0 || handles(faulty) != 0 {
		t.Errorf("%d segments and %d files are left open", files.Open(), handles(faulty))
	}
}

// TestPinnedFilesMayPassTheBound holds readers inside reads of more segments than
// may be open. None is refused, and afterwards the bound holds again.
func TestPinnedFilesMayPassTheBound(t *testing.T) {
	mem, stories, seals := row(t, 12)
	gate := make(chan struct{})
	var held atomic.Int32
	var armed atomic.Bool
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if armed.Load() && op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, LogSuffix) {
			held.Add(1)
			return vfs.Fault{Block: gate}
		}
		return vfs.Fault{}
	})
	files := NewFiles(4)
	armed.Store(true)
	var wg sync.WaitGroup
	for i := range 10 {
		s := OpenSealed(faulty, files, dir, seals[i], stories[i].opt)
		wg.Go(func() {
			if err := stories[i].checkFrom(s, stories[i].base, nil); err != nil {
				t.Errorf("segment %d: %v", i, err)
			}
		})
	}
	for held.Load() < 10 {
		runtime.Gosched()
	}
	if n := files.Open(); n != 10 {
		t.Errorf("%d segments are open, want all ten that are being read", n)
	}
	armed.Store(false)
	close(gate)
	wg.Wait()
	for i := 10; i < 12; i++ {
		s := OpenSealed(faulty, files, dir, seals[i], stories[i].opt)
		if err := stories[i].check(s, nil); err != nil {
			t.Error(err)
		}
	}
	if n := files.Open(); n > 4 {
		t.Errorf("%d segments are open when nobody reads", n)
	}
}

// TestReaderHoldsNoFileBetweenCalls closes everything after a read has returned:
// what it handed out stays good, and it reads on.
func TestReaderHoldsNoFileBetweenCalls(t *testing.T) {
	st := few(8, 100)
	mem, seal := st.sealed(t)
	faulty := vfs.NewFaulty(mem, nil)
	files := NewFiles(4)
	s := OpenSealed(faulty, files, dir, seal, st.opt)
	defer s.Close()
	chunk, err := s.Read(nil, 1, st.base, st.next(), -1)
	if err != nil || len(chunk.Data) == 0 {
		t.Fatal(err)
	}
	for files.evict() {
	}
	if files.Open() != 0 || handles(faulty) != 0 {
		t.Fatalf("%d files are open between two reads", handles(faulty))
	}
	if string(chunk.Data) != string(st.bytes()[:chunk.Pos]) {
		t.Error("what was read has changed")
	}
	told, err := read(s, 1, chunk.Next, st.next())
	if err != nil || st.holds(told, chunk.Next, nil) != "" {
		t.Errorf("reading on: %v, %s", err, st.holds(told, chunk.Next, nil))
	}
}

// TestNoDescriptorsLeft has the process, or the system, run out of descriptors or
// mappings: files that nobody reads are closed until the opening succeeds, and
// without any it is an error that says so.
func TestNoDescriptorsLeft(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE} {
		mem, stories, seals := row(t, 20)
		var f *vfs.Faulty
		room := int64(5)
		f = vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
			if (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && room <= 0 {
				return vfs.Fault{Err: cause}
			}
			switch op.Kind {
			case vfs.OpOpen, vfs.OpCreate:
				room--
			case vfs.OpClose:
				room++
			}
			return vfs.Fault{}
		})
		files := NewFiles(1000)
		for round := range 2 {
			for i := range stories {
				s := OpenSealed(f, files, dir, seals[i], stories[i].opt)
				if err := stories[i].check(s, nil); err != nil {
					t.Fatalf("%v, round %d, segment %d: %v", cause, round, i, err)
				}
			}
		}
		if n := files.Open(); n < 2 || n > 5 {
			t.Errorf("%v: %d segments are open, with room for five files", cause, n)
		}
		for files.evict() {
		}
		room = 0
		s := OpenSealed(f, files, dir, seals[0], stories[0].opt)
		if _, err := s.Read(nil, 1, 0, 10, -1); !errors.Is(err, cause) || errors.As(err, new(*CorruptError)) {
			t.Errorf("with nothing to close: %v", err)
		}
	}
}

// TestNoMappingsLeft has the kernel refuse to map more than a few files.
func TestNoMappingsLeft(t *testing.T) {
	var stories []*story
	mem := newDisk(t)
	var segs []*Segment
	mapped := 0
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if op.Kind != vfs.OpMap {
			return vfs.Fault{}
		}
		if mapped++; mapped%5 == 4 { // one in five, and what is tried again succeeds
			return vfs.Fault{Err: syscall.ENOMEM}
		}
		return vfs.Fault{}
	})
	files := NewFiles(100)
	for i := range 20 {
		st := newStory(record.Offset(i)*1000, 50, true)
		for range 5 {
			st.add(shape{n: 1})
		}
		s := st.write(t, faulty, files)
		finish(t, s)
		stories, segs = append(stories, st), append(segs, s)
	}
	for i := range stories {
		if err := stories[i].check(segs[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range segs {
		if h := s.open.Load(); h != nil && h.index.Load() == nil {
			t.Errorf("%s does without an index", s.Path())
		}
	}
}

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

// TestOpeningAndClosingLeaksNothing opens, reads and closes a thousand times, with
// every kind of end in between.
func TestOpeningAndClosingLeaksNothing(t *testing.T) {
	st := few(6, 50)
	mem, seal := st.sealed(t)
	clean, state := st.active(t)
	before := runtime.NumGoroutine()
	for _, disk := range []*vfs.Mem{mem, clean} {
		faulty := vfs.NewFaulty(disk, nil)
		files := NewFiles(4)
		for i := range 1000 {
			var s *Segment
			if disk == mem {
				s = OpenSealed(faulty, files, dir, seal, st.opt)
			} else {
				s = OpenActive(faulty, files, dir, state, st.opt)
			}
			if _, err := s.Read(nil, 1, st.base+record.Offset(i)%10, st.next(), -1); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				files.evict()
			}
			s.Close()
		}
		if n := handles(faulty); n != 0 || files.Open() != 0 {
			t.Errorf("%d files are left open, %d in the table", n, files.Open())
		}
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// TestRemoveWhileReading removes a segment in the middle of a read: it ends with
// the right bytes. Later ones get the error of a removed segment, and the files
// are gone with the last reader.
func TestRemoveWhileReading(t *testing.T) {
	st := few(10, 50)
	for _, hold := range []string{LogSuffix, IndexSuffix} {
		mem, seal := st.sealed(t)
		gate := make(chan struct{})
		var held atomic.Bool
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
			if strings.HasSuffix(op.Name, hold) && (op.Kind == vfs.OpRead || op.Kind == vfs.OpMap) && held.CompareAndSwap(false, true) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		})
		files := NewFiles(4)
		s := OpenSealed(faulty, files, dir, seal, st.opt)
		type result struct {
			chunk Chunk
			err   error
		}
		done := make(chan result)
		from := st.batches[7].BaseOffset
		go func() {
			chunk, err := s.Read(nil, 1<<20, from, st.next(), -1)
			done <- result{chunk, err}
		}()
		for !held.Load() {
			runtime.Gosched()
		}
		removed := make(chan error)
		go func() { removed <- s.Remove() }()
		for i := 0; i < 1000; i++ {
			runtime.Gosched()
		}
		close(gate)
		if err := <-removed; err != nil {
			t.Fatal(err)
		}
		got := <-done
		if got.err != nil || string(got.chunk.Data) != string(st.bytes()[st.batches[7].pos:]) {
			t.Errorf("the read that was under way: %d bytes, %v", len(got.chunk.Data), got.err)
		}
		if _, err := s.Read(nil, 1, from, st.next(), -1); !IsRemoved(err) {
			t.Errorf("a read afterwards: %v", err)
		}
		if _, _, err := s.FindTime(0, 0, math.MaxInt64, 1<<20); !IsRemoved(err) {
			t.Errorf("a lookup afterwards: %v", err)
		}
		if left := mem.Files(); len(left) != 0 {
			t.Errorf("left over: %v", left)
		}
		if n := handles(faulty); n != 0 || files.Open() != 0 || mem.Used() != 0 {
			t.Errorf("%d files are open, %d in the table, %d bytes used", n, files.Open(), mem.Used())
		}
	}
}

// TestRemoveIsDoneAgain has each removal of a file fail once. The log goes last, so
// that what is left can be found and removed.
func TestRemoveIsDoneAgain(t *testing.T) {
	st := few(10, 50)
	for n := int64(1); n <= 3; n++ {
		mem, seal := st.sealed(t)
		faulty := vfs.NewFaulty(mem, vfs.FailNth(vfs.OpRemove, "*", n, syscall.EPERM))
		s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
		if err := s.Remove(); !errors.Is(err, syscall.EPERM) {
			t.Fatalf("removal %d fails: %v", n, err)
		}
		if _, err := mem.Stat(logName(st.base)); err != nil {
			t.Errorf("removal %d fails, and the log is gone: %v", n, err)
		}
		if err := s.Remove(); err != nil || len(mem.Files()) != 0 {
			t.Errorf("again: %v, left %v", err, mem.Files())
		}
	}
}

// TestFinishAfterRemove finishes a segment that retention has taken meanwhile: its
// files do not come back.
func TestFinishAfterRemove(t *testing.T) {
	st := few(10, 50)
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(4))
	s.Roll()
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Finish(); !IsRemoved(err) {
		t.Errorf("finish: %v", err)
	}
	if left := mem.Files(); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestLookupMeetsFinish is a lookup that has found the segment unfinished when it
// is finished: it goes to the files, which are no longer to be grown.
func TestLookupMeetsFinish(t *testing.T) {
	for _, resumed := range []bool{false, true} {
		st := timed()
		mem, state := st.active(t)
		s := OpenActive(mem, NewFiles(4), dir, state, st.opt)
		if !resumed {
			s.Close()
			mem = newDisk(t)
			s = st.write(t, mem, NewFiles(4))
		}
		seal := finish(t, s)
		good := indexFiles(t, mem, st.base)
		if a, err := s.activeIndex(); !errors.Is(err, errFinished) {
			t.Errorf("an index to append to, of a finished segment: %v, %v", a, err)
		}
		if now := indexFiles(t, mem, st.base); string(now[0]) != string(good[0]) || string(now[1]) != string(good[1]) {
			t.Error("the files of a finished segment were changed")
		}
		if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
			t.Error(err)
		}
		s.Close()
		st.verify(t, mem, seal)
	}
}

// TestRealMappingThatFaults cuts an index file on a real disk while it is mapped,
// so that an access raises a signal.
func TestRealMappingThatFaults(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a cut does to a mapping is known of linux only")
	}
	root := t.TempDir()
	fsys := vfs.Dir(root)
	if err := fsys.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	st := newStory(0, 1, true)
	for range 1200 { // more than two pages of entries
		st.add(shape{n: 1})
	}
	s := st.write(t, fsys, NewFiles(4))
	defer s.Close()
	finish(t, s)
	if err := st.checkFrom(s, 1100, nil); err != nil {
		t.Fatal(err)
	}
	if s.open.Load().index.Load() == nil {
		t.Fatal("the index is not mapped")
	}
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
		if err := os.Truncate(root+"/"+dir+"/"+FileName(0)+suffix, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, off := range []record.Offset{0, 1, 600, 1199} {
		if err := st.checkFrom(s, off, nil); err != nil {
			t.Error(err)
		}
		ts := int64(off) * 1000
		if got, found, err := s.FindTime(ts, 0, st.next(), 1<<20); got != off || !found || err != nil {
			t.Errorf("time %d is found at %d, %v, %v", ts, got, found, err)
		}
	}
}
