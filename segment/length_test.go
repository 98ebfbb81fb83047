package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// TestScannerKeepsToItsEnd scans a file that goes on behind the end it was given,
// wherever that is.
func TestScannerKeepsToItsEnd(t *testing.T) {
	st := few(5, 300)
	whole := st.bytes()
	for end := range len(whole) + 1 {
		file := &counting{data: whole}
		n := 0
		sc := NewScanner(file, 0, record.Pos(end))
		for sc.Next() {
			n++
		}
		if want := st.wholeBelow(end); n != want || (sc.Err() == nil) != (st.first(want).size() == record.Pos(end)) {
			t.Errorf("up to %d: %d batches, %v, want %d", end, n, sc.Err(), want)
		}
		if file.asked > int64(len(whole)*len(st.batches)) {
			t.Errorf("up to %d: %d bytes were read", end, file.asked)
		}
	}
}

// TestLengthsAreNotBelieved writes lengths that no batch has into a header. It is
// damage, the others are read, and no memory follows the claim.
func TestLengthsAreNotBelieved(t *testing.T) {
	st := newStory(0, 4096, true)
	st.add(shape{n: 1})
	st.add(shape{n: 2})
	st.add(shape{n: 1})
	large := func(int) []byte { return make([]byte, 900<<10) }
	for range 40 {
		st.add(shape{n: 1, value: large})
	}
	mem, seal := st.sealed(t)
	for _, hit := range []int{0, 1, 20, 42} {
		b := &st.batches[hit]
		rest := int32(int(st.size()-b.pos) - record.LogOverhead)
		for _, length := range []int32{0, 1, 48, 49, 1 << 24, rest, rest + 1, math.MaxInt32, -1, math.MinInt32} {
			if length == b.Length {
				continue
			}
			overwrite(t, mem, st.base, int64(b.pos)+8, length)
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			took := allocated(func() {
				_, err := s.Read(nil, 1, b.BaseOffset, st.next(), -1)
				var damage *CorruptError
				if !errors.As(err, &damage) || damage.From != b.BaseOffset || damage.To != b.NextOffset() {
					t.Errorf("length %d in batch %d: %v", length, hit, err)
				}
			})
			if took > 8<<20 {
				t.Errorf("length %d in batch %d: %d bytes were allocated", length, hit, took)
			}
			took = allocated(func() {
				file, err := mem.OpenFile(logName(st.base), os.O_RDONLY)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				sc := NewScanner(file, b.pos, st.size())
				if sc.Next() || !errors.As(sc.Err(), new(*Damage)) {
					t.Errorf("length %d in batch %d: the scanner says %v", length, hit, sc.Err())
				}
			})
			if took > 8<<20 {
				t.Errorf("length %d in batch %d: the scanner allocated %d bytes", length, hit, took)
			}
			s.Close()
		}
		overwrite(t, mem, st.base, int64(b.pos)+8, b.Length)
	}
	s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	if err := st.checkFrom(s, 0, nil); err != nil {
		t.Error(err)
	}
}

// overwrite puts a number into a log file, in place.
func overwrite(t testing.TB, mem *vfs.Mem, base record.Offset, at int64, n int32) {
	t.Helper()
	file, err := mem.OpenFile(logName(base), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), at); err != nil {
		t.Fatal(err)
	}
}

// allocated is how many bytes f makes the heap grow by, freed ones included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLargeBatchesAreRead reads batches above the size for which a length counts
// as proof, intact and damaged.
func TestLargeBatchesAreRead(t *testing.T) {
	st := newStory(0, 4096, true)
	for i := range 3 {
		st.add(shape{n: 2, value: func(int) []byte { return bytes.Repeat([]byte{byte(i)}, trusted) }})
	}
	mem, seal := st.sealed(t)
	st.verify(t, mem, seal)
	for i := range st.batches {
		for _, at := range []int64{9, 18, trusted + 100} {
			flip(t, mem, 0, (int64(st.batches[i].pos)+at)*8)
			s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
			if err := st.checkFrom(s, 0, hits{i: true}); err != nil {
				t.Errorf("byte %d of batch %d: %v", at, i, err)
			}
			s.Close()
			flip(t, mem, 0, (int64(st.batches[i].pos)+at)*8)
		}
	}
}
