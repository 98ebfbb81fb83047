package segment

import (
	"errors"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// TestIndexThatCannotBeWritten lacks the index files on a disk that is full, or
// read-only. All answers are right; the attempt to make them is not repeated for
// each, and succeeds when the file is opened again after there is room.
func TestIndexThatCannotBeWritten(t *testing.T) {
	st := timed()
	disk, seal := st.sealed(t)
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, syscall.EIO} {
		t.Run(cause.Error(), func(t *testing.T) {
			mem := disk.Clone()
			spoil(t, mem, st.base, []int{0, 1}, "missing")
			refuse, tries := true, 0
			faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
				if !refuse || !strings.HasSuffix(op.Name, "index") {
					return vfs.Fault{}
				}
				switch op.Kind {
				case vfs.OpCreate, vfs.OpWrite, vfs.OpRemove, vfs.OpTruncate:
					tries++
					return vfs.Fault{Err: cause}
				}
				return vfs.Fault{}
			})
			files := NewFiles(4)
			s := OpenSealed(faulty, files, dir, seal, st.opt)
			defer s.Close()
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Error(err)
			}
			if tries == 0 || tries > 4 {
				t.Errorf("%d tries to write an index, want one for each file", tries)
			}
			refuse = false
			for files.evict() {
			}
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Error(err)
			}
			if mark, err := index.OpenSealed(mem, dir+"/"+FileName(st.base), st.base, seal.Index); err != nil {
				t.Errorf("the index was not made when it could be: %v", err)
			} else {
				mark.Close()
			}
		})
	}
}

// TestAppendsDoNotNeedTheIndex refuses every write to the index while the segment
// grows (KAFKA-7866 is what happens when an append depends on it). Appends succeed
// and lookups are right; sealing makes the index from the log once it can.
func TestAppendsDoNotNeedTheIndex(t *testing.T) {
	st := newStory(0, 1, true)
	for i := range 1100 { // more than a page of entries
		st.add(shape{n: 1, time: func(int) int64 { return int64(i) }})
	}
	mem := newDisk(t)
	refuse := true
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if refuse && strings.HasSuffix(op.Name, "index") && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpCreate) {
			return vfs.Fault{Err: syscall.ENOSPC}
		}
		return vfs.Fault{}
	})
	s := st.write(t, faulty, NewFiles(4))
	defer s.Close()
	check := func() {
		t.Helper()
		for _, off := range []record.Offset{0, 1, 500, 513, 1000, 1099} {
			if err := st.checkFrom(s, off, nil); err != nil {
				t.Error(err)
			}
			if got, found, err := s.findTime(int64(off), 0, st.next(), 1<<20); got != off || !found || err != nil {
				t.Errorf("time %d is found at %d, %v, %v", off, got, found, err)
			}
		}
	}
	check()
	s.Roll()
	if _, err := s.Finish(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("finish on a full disk: %v", err)
	}
	check()
	refuse = false
	seal, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	check()
	want, _ := st.sealed(t)
	now, good := indexFiles(t, mem, 0), indexFiles(t, want, 0)
	if !slices.EqualFunc(now[:], good[:], slices.Equal) {
		t.Error("the index is not what it would have been")
	}
	if seal.Index.Entries != len(good[0])/8 || seal.Index.TimeEntries != len(good[1])/12 {
		t.Errorf("the seal speaks of %+v", seal.Index)
	}
}

// TestMappedIndexThatFaults maps an index every access of which is a memory fault,
// as on a disk error. The process lives, and reads are right.
func TestMappedIndexThatFaults(t *testing.T) {
	st := timed()
	disk, seal := st.sealed(t)
	for _, bad := range []string{"*.index", "*.timeindex", "*index"} {
		for _, when := range []int{1, 2, 3, 1 << 30} { // how many mappings are bad
			n := 0
			faulty := vfs.NewFaulty(disk.Clone(), func(op vfs.Op) vfs.Fault {
				if ok, _ := path.Match(bad, path.Base(op.Name)); !ok || op.Kind != vfs.OpMap || n >= when {
					return vfs.Fault{}
				}
				n++
				return vfs.Fault{Bad: true}
			})
			s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
			if err := errors.Join(st.check(s, nil), st.checkTimes(t, s, nil)); err != nil {
				t.Errorf("%d mappings of %s fault: %v", when, bad, err)
			}
			s.Close()
		}
	}
}

// TestFailedMappingsLeakNothing has every mapping refused, a thousand times over
// (oxia-db/oxia#1230). Reads are right, and no file stays open.
func TestFailedMappingsLeakNothing(t *testing.T) {
	st := few(4, 50)
	disk, seal := st.sealed(t)
	faulty := vfs.NewFaulty(disk, vfs.FailFrom(vfs.OpMap, "*", 1, syscall.ENODEV))
	files := NewFiles(4)
	for range 1000 {
		s := OpenSealed(faulty, files, dir, seal, st.opt)
		if err := st.checkFrom(s, st.next()-1, nil); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	if faulty.Count(vfs.OpMap) < 1000 {
		t.Errorf("%d mappings were tried", faulty.Count(vfs.OpMap))
	}
	if n := handles(faulty); n != 0 || files.Open() != 0 {
		t.Errorf("%d files are left open, %d in the table", n, files.Open())
	}
}

// handles is how many files are open, of a disk on which no opening failed.
func handles(f *vfs.Faulty) int64 {
	return f.Count(vfs.OpOpen) + f.Count(vfs.OpCreate) - f.Count(vfs.OpClose)
}
