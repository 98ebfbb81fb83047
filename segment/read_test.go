package segment

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// TestReadKeepsToItsBounds reads between all offsets, with little room and much.
func TestReadKeepsToItsBounds(t *testing.T) {
	st := few(8, 150)
	st.add(shape{n: 3, epoch: 2, value: func(int) []byte { return make([]byte, 5000) }})
	st.add(shape{n: 1, epoch: 2})
	mem, seal := st.sealed(t)
	s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	for from := st.base; from < st.next(); from++ {
		for end := from + 1; end <= st.next()+1; end++ {
			for _, most := range []int{0, 1, 6000, 1 << 20} {
				chunk, err := s.Read(nil, most, from, end, -1)
				if err != nil {
					t.Fatal(err)
				}
				first := st.holding(from)
				last := first
				for last < len(st.batches) && st.batches[last].BaseOffset < end {
					last++
				}
				want := st.bytes()[st.batches[first].pos:st.first(last).size()]
				switch {
				case len(chunk.Data) == 0 || !bytes.HasPrefix(want, chunk.Data):
					t.Fatalf("[%d, %d), %d bytes: got %d, of %d", from, end, most, len(chunk.Data), len(want))
				case len(chunk.Data) > max(most, minRead, st.batches[first].Size()):
					t.Fatalf("[%d, %d), %d bytes: got %d", from, end, most, len(chunk.Data))
				case most == 1<<20 && len(chunk.Data) != len(want):
					t.Fatalf("[%d, %d): got %d bytes of %d", from, end, len(chunk.Data), len(want))
				case chunk.Pos != st.batches[first].pos+record.Pos(len(chunk.Data)):
					t.Fatalf("[%d, %d): ends at position %d", from, end, chunk.Pos)
				case st.batches[st.wholeBelow(int(chunk.Pos))-1].NextOffset() != chunk.Next:
					t.Fatalf("[%d, %d): ends at offset %d", from, end, chunk.Next)
				}
			}
		}
	}
}

// TestReadErrorsAreNoDamage has the disk refuse to read: that says nothing of
// what is on it.
func TestReadErrorsAreNoDamage(t *testing.T) {
	st := few(10, 300)
	mem, seal := st.sealed(t)
	errDisk := errors.New("disk does not answer")
	for n := int64(1); ; n++ {
		rule := vfs.FailNth(vfs.OpRead, "*.log", n, errDisk)
		faulty := vfs.NewFaulty(mem, rule)
		s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
		err := st.check(s, nil)
		if err == nil {
			if n < 10 {
				t.Errorf("there were only %d reads", n)
			}
			break
		}
		if !errors.Is(err, errDisk) || errors.As(err, new(*CorruptError)) || !strings.Contains(err.Error(), s.Path()) {
			t.Fatalf("read %d fails: %v", n, err)
		}
		if err := st.check(s, nil); err != nil {
			t.Fatalf("after read %d failed: %v", n, err)
		}
		s.Close()
	}
}

// TestBitsFlippedOnTheWayAreNoticed flips bits in what single reads return, while
// the file is as it should be. A damaged batch may be told as lost once; no wrong
// one comes.
func TestBitsFlippedOnTheWayAreNoticed(t *testing.T) {
	st := few(10, 300)
	mem, seal := st.sealed(t)
	for bit := 0; bit < int(st.size())*8; bit += 5 {
		n := 0
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
			if op.Kind != vfs.OpRead {
				return vfs.Fault{}
			}
			if n++; n != 1 {
				return vfs.Fault{}
			}
			return vfs.Fault{Flip: []int{bit}}
		})
		s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
		told, err := read(s, math.MaxInt32, st.base, st.next())
		if err != nil {
			t.Fatal(err)
		}
		may := hits{}
		for i := range st.batches {
			may[i] = true
		}
		if why := st.within(told, nil, may); why != "" {
			t.Errorf("bit %d: %s", bit, why)
		}
		if len(st.batches)-len(told.batches) > 1 {
			t.Errorf("bit %d: %d of %d batches came", bit, len(told.batches), len(st.batches))
		}
		s.Close()
	}
}

// TestOneReadIsEnough looks up every offset and every time, in batches that are small,
// that have an index entry each, and of all sizes: the log file is read once for each.
func TestOneReadIsEnough(t *testing.T) {
	for name, size := range map[string]func(i int) int{
		"small":         func(int) int { return 500 },
		"an entry each": func(int) int { return 5000 },
		"mixed":         func(i int) int { return []int{10, 2500, 400, 20_000, 60, 600, 1300}[i%7] },
	} {
		clock := int64(0)
		st := newStory(100, 4096, true)
		for i := range 60 {
			clock += 10
			at := clock
			st.add(shape{n: 1 + i%3, value: func(int) []byte { return make([]byte, size(i)) }, time: func(int) int64 { return at }})
		}
		mem, seal := st.sealed(t)
		reads := 0
		s := OpenSealed(vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, LogSuffix) {
				reads++
			}
			return vfs.Fault{}
		}), NewFiles(4), dir, seal, st.opt)
		defer s.Close()
		once := func(what string, of int64) {
			t.Helper()
			most := 1
			if name == "mixed" {
				most = 3 // where batches differ, the entry behind is not always the place
			}
			if reads > most {
				t.Errorf("%s: %s %d takes %d reads", name, what, of, reads)
			}
			reads = 0
		}
		for off := st.base + 1; off < st.next(); off++ {
			chunk, err := s.Read(nil, 1, off, st.next(), -1)
			b, perr := record.Parse(chunk.Data)
			if err != nil || perr != nil || b.BaseOffset > off || b.LastOffset() < off {
				t.Fatalf("%s: offset %d: [%d, %d), %v, %v", name, off, b.BaseOffset, b.NextOffset(), err, perr)
			}
			once("offset", int64(off))
		}
		for i, b := range st.batches {
			off, found, err := s.findTime(b.MaxTimestamp-3, 0, st.next(), 1<<20)
			if !found || err != nil || off != b.BaseOffset {
				t.Fatalf("%s: time of batch %d: offset %d, %v, %v; want %d", name, i, off, found, err, b.BaseOffset)
			}
			once("time", b.MaxTimestamp)
		}
	}
}
