package segment

import (
	"bytes"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

var allCodecs = []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd}

// manyBatches is a segment of some thirty batches: of one record and of fifty,
// of all codecs, and one that holds a trap. gap and epoch shape batch i.
func manyBatches(dense bool, gap func(i int) record.Offset, epoch func(i int) record.Epoch) *story {
	st := newStory(4096, 300, dense)
	for i := range 30 {
		sh := shape{n: 1, codec: allCodecs[i%len(allCodecs)], gap: gap(i), epoch: epoch(i)}
		switch {
		case i == 11 || i == 27:
			sh.n = 50
		case i%3 == 1:
			sh.n = 2 + i%5
		}
		if i == 13 {
			st.addTrap(sh.gap, sh.epoch)
			continue
		}
		st.add(sh)
	}
	return st
}

// addTrap makes a batch of three records the last of which holds a whole batch
// as its value: one that checks, of offsets that would fit, ending where the
// outer one ends, and placed so that a single bit of the outer length leads to
// it. Whoever looks for the next batch that checks walks into it.
func (st *story) addTrap(gap record.Offset, epoch record.Epoch) {
	const size = 256
	base := st.next() + gap
	var inner record.Builder
	for fill := 0; ; fill++ {
		inner.Reset(nil, base+1, record.BatchOptions{Epoch: epoch})
		inner.Add(1, nil, []byte("never published"), nil)
		inner.Add(2, nil, bytes.Repeat([]byte{'!'}, fill), nil)
		trap := inner.Finish()
		if len(trap) < size {
			continue
		}
		if len(trap) > size {
			panic("no trap of that size")
		}
		st.addAround(base, epoch, trap)
		return
	}
}

// addAround wraps the trap. Its last byte is the header count of its last record,
// which is zero: the outer record's own completes it.
func (st *story) addAround(base record.Offset, epoch record.Epoch, trap []byte) {
	var outer record.Builder
	for fill := 0; ; fill++ {
		outer.Reset(nil, base, record.BatchOptions{Epoch: epoch})
		outer.Add(1, nil, []byte("one"), nil)
		outer.Add(2, nil, bytes.Repeat([]byte{'.'}, fill), nil)
		outer.Add(3, nil, trap[:len(trap)-1], nil)
		raw := outer.Finish()
		length := len(raw) - record.LogOverhead
		if length&len(trap) == 0 {
			continue
		}
		if !bytes.HasSuffix(raw, trap) {
			panic("the trap is not at the end")
		}
		st.addRaw(raw)
		return
	}
}

func constant(epoch record.Epoch) func(int) record.Epoch {
	return func(int) record.Epoch { return epoch }
}

// stepping is an epoch for which a flip of one bit often is another epoch of the
// same segment.
func stepping(i int) record.Epoch { return []record.Epoch{0, 1, 3, 4, 7}[i/6] }

func noGaps(int) record.Offset { return 0 }

func someGaps(i int) record.Offset { return record.Offset([]int{0, 0, 7, 1, 100}[i%5]) }

var flipStories = []struct {
	name string
	make func() *story
}{
	{"dense", func() *story { return manyBatches(true, noGaps, constant(5)) }},
	{"dense, of several epochs", func() *story { return manyBatches(true, noGaps, stepping) }},
	{"sparse", func() *story { return manyBatches(false, someGaps, constant(5)) }},
	{"sparse, of several epochs", func() *story { return manyBatches(false, someGaps, stepping) }},
}

// TestEveryFlipIsNoticed flips every single bit of a log file and reads it all.
// No byte that was not stored is handed out, the flip is told as a gap, and only
// the batch that was hit is lost.
func TestEveryFlipIsNoticed(t *testing.T) {
	for k, kind := range flipStories {
		st := kind.make()
		step := int64(1)
		if testing.Short() || k > 0 {
			step = 29 // under the checksum one story is like another
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			mem, seal := st.sealed(t)
			eachFlip(t, st, mem, step, func() *Segment { return OpenSealed(mem, NewFiles(4), dir, seal, st.opt) })
		})
		t.Run(kind.name+", active", func(t *testing.T) {
			t.Parallel()
			mem, state := st.active(t)
			eachFlip(t, st, mem, max(step, 5), func() *Segment { return OpenActive(mem, NewFiles(4), dir, state, st.opt) })
		})
	}
}

// eachFlip flips every bit in front of what a checksum covers, and behind it every
// one in so many. Some are read by offset too: the batch that was hit, and the next.
func eachFlip(t *testing.T, st *story, mem *vfs.Mem, step int64, open func() *Segment) {
	failed := 0
	for i := range st.batches {
		b := &st.batches[i]
		for bit := range int64(b.Size()) * 8 {
			if bit >= covered*8 && bit%step != 0 {
				continue
			}
			froms := []record.Offset{st.base}
			if bit%8 == 3 {
				froms = append(froms, b.LastOffset(), min(b.NextOffset(), st.next()-1))
			}
			flip(t, mem, st.base, int64(b.pos)*8+bit)
			for _, from := range froms {
				s := open()
				if err := st.checkFrom(s, from, hits{i: true}); err != nil {
					failed++
					t.Errorf("bit %d of byte %d of batch %d (a batch of %d bytes): %v", bit%8, bit/8, i, b.Size(), err)
				}
				s.Close()
			}
			flip(t, mem, st.base, int64(b.pos)*8+bit)
			if failed > 20 {
				t.Fatal("and more")
			}
		}
	}
}

func flip(t testing.TB, mem *vfs.Mem, base record.Offset, bit int64) {
	t.Helper()
	if err := mem.FlipBit(logName(base), bit); err != nil {
		t.Fatal(err)
	}
}
