package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
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

// TestTwoDamagesLoseTwo damages any two batches of a segment, neighbours among
// them. Whatever was not hit is read, with an index and without.
func TestTwoDamagesLoseTwo(t *testing.T) {
	damages := []struct {
		name     string
		inHeader bool
		do       func(raw []byte)
	}{
		{"value", false, func(raw []byte) { raw[len(raw)-3] ^= 8 }},
		{"checksum", false, func(raw []byte) { raw[sumAt] ^= 8 }},
		{"length", true, func(raw []byte) { raw[11] ^= 8 }},
		{"base offset", true, func(raw []byte) { raw[7] ^= 1 }},
		{"magic", true, func(raw []byte) { raw[16] ^= 1 }},
	}
	for _, interval := range []int{200, math.MaxInt32} {
		st := few(12, interval)
		mem, seal := st.sealed(t)
		for first := range st.batches {
			for second := first + 1; second < len(st.batches); second++ {
				for k := range len(damages) * len(damages) {
					one, two := damages[k/len(damages)], damages[k%len(damages)]
					if second == first+1 && (one.inHeader || two.inHeader) {
						continue // nobody vouches for where the second begins, or ends
					}
					log := st.bytes()
					one.do(log[st.batches[first].pos:][:st.batches[first].Size()])
					two.do(log[st.batches[second].pos:][:st.batches[second].Size()])
					s := st.withLog(t, log, seal, mem)
					if err := st.checkFrom(s, st.base, hits{first: true, second: true}); err != nil {
						t.Errorf("interval %d, %s of batch %d and %s of batch %d: %v", interval, one.name, first, two.name, second, err)
					}
					s.Close()
				}
			}
		}
	}
}

// TestWreckedHeaderLosesToTheNextEntry overwrites the whole header of a batch, so
// that nothing is left of its length. With an index what lies in front of the next
// entry may go with it, without one nothing does.
func TestWreckedHeaderLosesToTheNextEntry(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, fill := range []string{"zeros", "noise"} {
		for _, interval := range []int{500, math.MaxInt32} {
			st := few(20, interval)
			mem, seal := st.sealed(t)
			entries := offsetEntries(t, mem, st.base)
			for i := range st.batches {
				log := st.bytes()
				head := log[st.batches[i].pos:][:record.BatchOverhead]
				for j := range head {
					head[j] = 0
					if fill == "noise" {
						head[j] = byte(rng.Uint32())
					}
				}
				lost := hits{i: true}
				for j := i + 1; j < len(st.batches) && interval == 500 && !entries[st.batches[j].pos]; j++ {
					lost[j] = true
				}
				if interval == 500 && i+len(lost) == len(st.batches) {
					lost = hits{i: true} // behind the last entry the rest is searched
				}
				s := st.withLog(t, log, seal, mem)
				if err := st.checkFrom(s, st.base, lost); err != nil {
					t.Errorf("%s in the header of batch %d, interval %d: %v", fill, i, interval, err)
				}
				s.Close()
			}
		}
	}
}

// offsetEntries are the positions of which the offset index speaks.
func offsetEntries(t testing.TB, mem *vfs.Mem, base record.Offset) map[record.Pos]bool {
	t.Helper()
	data, err := mem.ReadFile(dir + "/" + FileName(base) + IndexSuffix)
	if err != nil {
		t.Fatal(err)
	}
	list := map[record.Pos]bool{}
	for ; len(data) > 0; data = data[8:] {
		list[record.Pos(binary.BigEndian.Uint32(data[4:]))] = true
	}
	return list
}

// TestBlocksOfZerosAreConfined zeroes a block anywhere, as a lost page does. What
// was stored comes back or is told as lost; batches that end before the block and
// those behind the next entry are there.
func TestBlocksOfZerosAreConfined(t *testing.T) {
	st := manyBatches(true, noGaps, constant(5))
	mem, seal := st.sealed(t)
	entries := offsetEntries(t, mem, st.base)
	for _, size := range []int{16, 64, 512, 1024} {
		for at := 0; at+size <= int(st.size()); at += 41 {
			log := st.bytes()
			clear(log[at : at+size])
			if bytes.Equal(log, st.bytes()) {
				continue
			}
			must, may := hits{}, hits{}
			last := 0
			for i := range st.batches {
				b := &st.batches[i]
				if int(b.pos) < at+size && int(b.pos)+b.Size() > at {
					may[i] = true
					last = i
					if !bytes.Equal(log[b.pos:][:b.Size()], b.Bytes()) {
						must[i] = true
					}
				}
			}
			for j := last + 1; j < len(st.batches) && !entries[st.batches[j].pos]; j++ {
				may[j] = true
			}
			s := st.withLog(t, log, seal, mem)
			told, err := read(s, 1, st.base, st.next())
			if err != nil {
				t.Fatal(err)
			}
			if why := st.within(told, must, may); why != "" {
				t.Errorf("%d zeros at position %d: %s", size, at, why)
			}
			s.Close()
		}
	}
}

// within is holds for damage of which it is known that it takes at least must and
// at most may.
func (st *story) within(told tale, must, may hits) string {
	lost := hits{}
	for i := range st.batches {
		if must[i] || may[i] && !slices.ContainsFunc(told.batches, func(b record.Batch) bool { return b.BaseOffset == st.batches[i].BaseOffset }) {
			lost[i] = true
		}
	}
	return st.holds(told, st.base, lost)
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
		if _, _, err := s.FindTime(0, st.base, st.next(), 1<<20); err != nil {
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
			if off, found, err := s.FindTime(0, st.base, st.next(), 1<<20); found || err != nil {
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
