package segment

import (
	"errors"
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
