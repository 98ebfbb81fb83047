package segment

import (
	"errors"
	"math"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

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
		if _, _, err := s.findTime(0, 0, math.MaxInt64, 1<<20); !IsRemoved(err) {
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
	for _, synced := range []bool{false, true} {
		s := st.write(t, mem, NewFiles(4))
		if synced {
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
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
}

// TestMissingFileOfARemovedSegment is a file that somebody else deleted before the
// segment was removed: the reader who finds out is told of the removal.
func TestMissingFileOfARemovedSegment(t *testing.T) {
	st := few(2, 50)
	mem, seal := st.sealed(t)
	s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
	notThere := &os.PathError{Op: "open", Path: s.Path(), Err: os.ErrNotExist}
	if err := s.missing(notThere); !errors.As(err, new(*CorruptError)) {
		t.Errorf("while it is in use: %v", err)
	}
	s.Close()
	if err := s.missing(notThere); !IsRemoved(err) {
		t.Errorf("afterwards: %v", err)
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
