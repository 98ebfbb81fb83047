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
