package segment

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// few is a small dense segment without a trap, and with index entries or without.
func few(n, interval int) *story {
	st := newStory(100, interval, true)
	for i := range n {
		st.add(shape{n: 1 + i%4, codec: allCodecs[i%len(allCodecs)], epoch: 2})
	}
	return st
}

// withLog opens the story's segment with other bytes in the place of its log.
func (st *story) withLog(t testing.TB, log []byte, seal Seal, mem *vfs.Mem) *Segment {
	t.Helper()
	put(t, mem, logName(st.base), log)
	return OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
}

func put(t testing.TB, mem *vfs.Mem, name string, data []byte) {
	t.Helper()
	if err := mem.WriteFile(name, data); err != nil {
		t.Fatal(err)
	}
}

// TestEveryTruncation cuts the log file to every length. What is whole is read,
// the rest is told as lost, whoever asks for it and however.
func TestEveryTruncation(t *testing.T) {
	st := few(10, 300)
	mem, seal := st.sealed(t)
	whole := st.bytes()
	for size := range len(whole) {
		lost := hits{}
		for i := range st.batches {
			if int(st.batches[i].pos)+st.batches[i].Size() > size {
				lost[i] = true
			}
		}
		s := st.withLog(t, whole[:size], seal, mem)
		for _, from := range []record.Offset{st.base, st.base + 5, st.next() - 1} {
			if err := st.checkFrom(s, from, lost); err != nil {
				t.Errorf("%d of %d bytes: %v", size, len(whole), err)
			}
		}
		if _, _, err := s.findTime(0, st.base, st.next(), 1<<20); err != nil {
			t.Errorf("%d of %d bytes: find time: %v", size, len(whole), err)
		}
		s.Close()
	}
}

// TestLostLogFiles replaces the log file by nothing, by one of no bytes, and by
// zeros: all of it is told as lost, in one error that names the file.
func TestLostLogFiles(t *testing.T) {
	st := few(10, 300)
	for name, change := range map[string]func(t *testing.T, mem *vfs.Mem){
		"missing": func(t *testing.T, mem *vfs.Mem) {
			if err := mem.Remove(logName(st.base)); err != nil {
				t.Fatal(err)
			}
		},
		"empty": func(t *testing.T, mem *vfs.Mem) { put(t, mem, logName(st.base), nil) },
		"zeros": func(t *testing.T, mem *vfs.Mem) { put(t, mem, logName(st.base), make([]byte, st.size())) },
	} {
		t.Run(name, func(t *testing.T) {
			mem, seal := st.sealed(t)
			change(t, mem)
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			defer s.Close()
			_, err := s.Read(nil, 1, st.base+7, st.next(), -1)
			var damage *CorruptError
			if !errors.As(err, &damage) {
				t.Fatalf("read: %v", err)
			}
			if damage.From != st.base || damage.To != st.next() || damage.Offset != st.base-1 || damage.Path != s.Path() {
				t.Errorf("told as %+v", damage)
			}
			if off, found, err := s.findTime(0, st.base, st.next(), 1<<20); found || err != nil {
				t.Errorf("find time: %d, %v, %v", off, found, err)
			}
			if name == "missing" {
				if _, err := mem.Stat(logName(st.base)); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a read has made the file: %v", err)
				}
			}
		})
	}
}

// TestBytesBehindTheEndAreNotRead appends garbage, and a batch that would fit, to
// a sealed file.
func TestBytesBehindTheEndAreNotRead(t *testing.T) {
	st := few(10, 300)
	mem, seal := st.sealed(t)
	more := few(10, 300)
	more.add(shape{n: 3, epoch: 2})
	for _, behind := range [][]byte{{0}, make([]byte, 5000), bytes.Repeat([]byte{0xa5}, 300), more.batches[10].Bytes()} {
		s := st.withLog(t, append(st.bytes(), behind...), seal, mem)
		told, err := read(s, 1, st.base, st.next()+100)
		if err != nil {
			t.Fatal(err)
		}
		if why := st.holds(told, st.base, nil); why != "" {
			t.Errorf("%d bytes behind the end: %s", len(behind), why)
		}
		s.Close()
	}
}
