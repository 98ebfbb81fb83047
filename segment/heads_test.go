package segment

import (
	"bytes"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// TestFlippedBit finds every bit by what it does to the checksum, and says so
// when it was more than one.
func TestFlippedBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 17, 34, 1700} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		sum := crc32.Checksum(data, castagnoli)
		for bit := range n * 8 {
			data[bit/8] ^= 1 << (bit % 8)
			if got := flippedBit(sum^crc32.Checksum(data, castagnoli), n); got != bit {
				t.Fatalf("bit %d of %d bytes is found at %d", bit, n, got)
			}
			data[bit/8] ^= 1 << (bit % 8)
		}
		for range 200 {
			a, b := rng.IntN(n*8), rng.IntN(n*8)
			if a == b {
				continue
			}
			data[a/8] ^= 1 << (a % 8)
			data[b/8] ^= 1 << (b % 8)
			if got := flippedBit(sum^crc32.Checksum(data, castagnoli), n); got >= 0 {
				t.Fatalf("bits %d and %d of %d bytes are found at %d", a, b, n, got)
			}
			data[a/8] ^= 1 << (a % 8)
			data[b/8] ^= 1 << (b % 8)
		}
	}
	if got := flippedBit(0, 100); got >= 0 {
		t.Errorf("no difference is found at %d", got)
	}
}

// TestHeadersAreReadOnce counts reads: headers are gone through once in the life
// of a segment of several epochs or with gaps, and never where neighbours do.
func TestHeadersAreReadOnce(t *testing.T) {
	for name, c := range map[string]struct {
		st    *story
		reads bool
	}{
		"dense, one epoch": {manyBatches(true, noGaps, constant(5)), false},
		"several epochs":   {manyBatches(true, noGaps, stepping), true},
		"sparse":           {manyBatches(false, someGaps, constant(5)), true},
	} {
		mem, seal := c.st.sealed(t)
		var whole int
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpRead && op.Len == int(c.st.size()) {
				whole++
			}
			return vfs.Fault{}
		})
		s := OpenSealed(faulty, NewFiles(4), dir, seal, c.st.opt)
		for range 3 {
			if err := c.st.checkFrom(s, c.st.base, nil); err != nil {
				t.Fatal(name, err)
			}
			s.files.evict()
		}
		if want := map[bool]int{true: 1}[c.reads]; whole != want {
			t.Errorf("%s: the headers are gone through %d times, want %d", name, whole, want)
		}
		s.Close()
	}
}

// TestEpochsOfASegmentThatGrows appends under one epoch after the other while it is
// read, and flips epochs under the reader's feet. It is opened anew between.
func TestEpochsOfASegmentThatGrows(t *testing.T) {
	st := newStory(50, 120, true)
	mem := newDisk(t)
	var s *Segment
	var err error
	if s, err = Create(mem, NewFiles(4), dir, st.base, st.opt); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		st.add(shape{n: 1 + i%2, epoch: []record.Epoch{0, 0, 3, 6, 7, 7, 7}[i/3]})
		st.appendTo(t, s, i)
		for hit := range st.batches {
			for bit := range int64(4) {
				at := (int64(st.batches[hit].pos)+15)*8 + bit
				flip(t, mem, st.base, at)
				if err := st.checkFrom(s, st.base, hits{hit: true}); err != nil {
					t.Fatalf("after %d appends, bit %d of the epoch of batch %d: %v", i+1, bit, hit, err)
				}
				flip(t, mem, st.base, at)
			}
		}
		if i%8 == 7 {
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
			state, err := s.Rest()
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if i == 7 {
				s = OpenActive(mem, NewFiles(4), dir, state, st.opt)
			} else if s, _, _, err = Recover(mem, NewFiles(4), dir, state, 0, st.opt); err != nil {
				t.Fatal(err)
			}
		}
	}
	seal := finish(t, s)
	if err := st.check(s, nil); err != nil {
		t.Error(err)
	}
	s.Close()
	st.verify(t, mem, seal)
}

// TestFinishedSegmentIsLookedThroughAgain reads a segment with gaps while it grows,
// when nothing vouches for base offsets, and once more when it is finished.
func TestFinishedSegmentIsLookedThroughAgain(t *testing.T) {
	st := manyBatches(false, someGaps, stepping)
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(4))
	defer s.Close()
	if err := st.check(s, nil); err != nil {
		t.Fatal(err)
	}
	finish(t, s)
	flip(t, mem, st.base, int64(st.batches[8].pos+7)*8)
	if err := st.checkFrom(s, st.base, hits{8: true}); err != nil {
		t.Error(err)
	}
}

// TestBaseOffsetsOfASparseActiveSegment flips base offsets in a segment with gaps
// that was written by this process: what leads out of the segment, or behind the
// batch before, is noticed. The rest is once the segment is finished.
func TestBaseOffsetsOfASparseActiveSegment(t *testing.T) {
	st := manyBatches(false, someGaps, constant(5))
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(4))
	defer s.Close()
	noticed := 0
	for i := 1; i < len(st.batches); i++ {
		b := &st.batches[i]
		for bit := range 64 {
			was := b.BaseOffset ^ 1<<(8*(7-bit/8)+bit%8)
			if was >= st.batches[i-1].NextOffset() && was+record.Offset(b.LastOffsetDelta) < st.next() {
				continue
			}
			noticed++
			flip(t, mem, st.base, int64(b.pos)*8+int64(bit))
			if err := st.checkFrom(s, st.base, hits{i: true}); err != nil {
				t.Errorf("bit %d of batch %d: %v", bit, i, err)
			}
			flip(t, mem, st.base, int64(b.pos)*8+int64(bit))
		}
	}
	if noticed < 50*len(st.batches) {
		t.Errorf("only %d flips are of this kind", noticed)
	}
}

// TestManyWrongHeaders flips more than the sum can find: what neighbours notice is
// told, and the others are read.
func TestManyWrongHeaders(t *testing.T) {
	st := manyBatches(true, noGaps, stepping)
	mem, seal := st.sealed(t)
	log := st.bytes()
	lost := hits{}
	for i := 2; i < len(st.batches); i += 5 {
		log[int(st.batches[i].pos)+12] ^= 0x40 // far above every epoch there is
		lost[i] = true
	}
	s := st.withLog(t, log, seal, mem)
	defer s.Close()
	if err := st.checkFrom(s, st.base, lost); err != nil {
		t.Error(err)
	}
}

// TestWrongSumOfHeaders gives a sum that has nothing to do with the file, as a stale
// seal may: it is derived, and whole batches are read all the same.
func TestWrongSumOfHeaders(t *testing.T) {
	for _, st := range []*story{manyBatches(true, noGaps, stepping), manyBatches(false, someGaps, stepping)} {
		mem, seal := st.sealed(t)
		seal.HeaderSum ^= 0x5a5a1234
		s := OpenSealed(mem, NewFiles(4), dir, seal, st.opt)
		if err := st.check(s, nil); err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// TestHeadersThatCannotBeRead has the disk refuse when the headers are gone
// through: the read goes on without, and the next one tries again.
func TestHeadersThatCannotBeRead(t *testing.T) {
	st := manyBatches(true, noGaps, stepping)
	mem, seal := st.sealed(t)
	refuse := true
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if refuse && op.Kind == vfs.OpRead && op.Len == int(st.size()) {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	})
	s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	if err := st.check(s, nil); err != nil {
		t.Error(err)
	}
	refuse = false
	flip(t, mem, st.base, (int64(st.batches[3].pos)+15)*8)
	if err := st.checkFrom(s, st.base, hits{3: true}); err != nil {
		t.Error(err)
	}
}

// TestEachHeader goes through the headers of files that are not what they should
// be. It ends, and reserves no memory by a length.
func TestEachHeader(t *testing.T) {
	st := few(30, 100)
	whole := st.bytes()
	long := newStory(0, 100, true)
	for range 5 {
		long.add(shape{n: 1, value: func(int) []byte { return make([]byte, 200_000) }})
	}
	collect := func(data []byte, size int) (at []record.Pos) {
		t.Helper()
		err := eachHeader(bytes.NewReader(data), record.Pos(size), func(pos record.Pos, head []byte) {
			at = append(at, pos)
			if len(head) != uncovered || pos+uncovered <= record.Pos(len(data)) && !bytes.Equal(head, data[pos:pos+uncovered]) {
				t.Fatalf("at %d it is %x", pos, head)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for _, story := range []*story{st, long} {
		var want []record.Pos
		for i := range story.batches {
			want = append(want, story.batches[i].pos)
		}
		if got := collect(story.bytes(), int(story.size())); !slices.Equal(got, want) {
			t.Errorf("headers at %v, want %v", got, want)
		}
	}
	for size := range len(whole) {
		collect(whole[:size], len(whole))
		collect(whole[:size], size)
	}
	collect(make([]byte, 100_000), 100_000)
	collect(bytes.Repeat([]byte{0xff}, 100_000), 100_000)
	errDisk := errors.New("disk does not answer")
	if err := eachHeader(failing{errDisk}, 100, nil); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }
