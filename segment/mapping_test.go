package segment

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

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

// mapCount counts the mappings of a file system that are in use.
type mapCount struct {
	vfs.FS
	n *atomic.Int64
}

type countedFile struct {
	vfs.File
	n *atomic.Int64
}

type countedMapping struct {
	vfs.Mapping
	n *atomic.Int64
}

func (m mapCount) OpenFile(name string, flag int) (vfs.File, error) {
	f, err := m.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return countedFile{f, m.n}, nil
}

func (f countedFile) Map(size int64) (vfs.Mapping, error) {
	m, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	f.n.Add(1)
	return countedMapping{m, f.n}, nil
}

func (m countedMapping) Close() error {
	m.n.Add(-1)
	return m.Mapping.Close()
}

// TestMappingsAreGivenBack counts the mappings of many segments under few files:
// two for each that is open, none when all are closed.
func TestMappingsAreGivenBack(t *testing.T) {
	var n atomic.Int64
	fsys := mapCount{newDisk(t), &n}
	files := NewFiles(4)
	var segs []*Segment
	for i := range 12 {
		st := newStory(record.Offset(i)*1000, 50, true)
		for range 5 {
			st.add(shape{n: 1})
		}
		s := st.write(t, fsys, files)
		finish(t, s)
		segs = append(segs, s)
		for _, s := range segs {
			if _, err := s.Read(nil, 1, s.Base()+3, s.Next(), -1); err != nil {
				t.Fatal(err)
			}
			if n.Load() > int64(2*files.Open()) {
				t.Fatalf("%d mappings for %d open segments", n.Load(), files.Open())
			}
		}
	}
	if n.Load() == 0 {
		t.Error("nothing was mapped")
	}
	for _, s := range segs {
		s.Close()
	}
	if n.Load() != 0 {
		t.Errorf("%d mappings are left", n.Load())
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
		if got, found, err := s.findTime(ts, 0, st.next(), 1<<20); got != off || !found || err != nil {
			t.Errorf("time %d is found at %d, %v, %v", ts, got, found, err)
		}
	}
}
