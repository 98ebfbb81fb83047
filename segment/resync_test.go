package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

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
		entries := offsetEntries(t, mem, st.base)
		for first := range st.batches {
			for second := first + 1; second < len(st.batches); second++ {
				for k := range len(damages) * len(damages) {
					one, two := damages[k/len(damages)], damages[k%len(damages)]
					log := st.bytes()
					one.do(log[st.batches[first].pos:][:st.batches[first].Size()])
					two.do(log[st.batches[second].pos:][:st.batches[second].Size()])
					must, may := hits{first: true, second: true}, hits{}
					if second == first+1 && (one.inHeader || two.inHeader) {
						// Nobody vouches for where the second begins, or ends: what is in
						// front of the next entry may go with it, but not be wrong.
						for j := second + 1; j < len(st.batches) && !entries[st.batches[j].pos]; j++ {
							may[j] = true
						}
					}
					s := st.withLog(t, log, seal, mem)
					told, err := read(s, 1, st.base, st.next())
					if err != nil {
						t.Fatal(err)
					}
					if why := st.within(told, must, may); why != "" {
						t.Errorf("interval %d, %s of batch %d and %s of batch %d: %s", interval, one.name, first, two.name, second, why)
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

// TestWreckedHeaderBeforeAWrongLast wrecks a header and has the last batch claim
// other offsets, so that everything behind the wreck checks and does not add up.
func TestWreckedHeaderBeforeAWrongLast(t *testing.T) {
	st := few(12, math.MaxInt32)
	mem, seal := st.sealed(t)
	may := hits{}
	for i := 4; i < 11; i++ {
		may[i] = true
	}
	for less := record.Offset(1); less < 30; less++ {
		log := st.bytes()
		clear(log[st.batches[3].pos:][:record.BatchOverhead])
		record.SetBaseOffset(log[st.batches[11].pos:], st.batches[11].BaseOffset-less)
		s := st.withLog(t, log, seal, mem)
		told, err := read(s, 1, st.base, st.next())
		if err != nil {
			t.Fatal(err)
		}
		if why := st.within(told, hits{3: true, 11: true}, may); why != "" {
			t.Errorf("%d less: %s", less, why)
		}
		s.Close()
	}
}

// TestWreckedHeaderInFrontOfWhatIsNotVisible wrecks the header of a batch in an
// active segment that goes on behind what readers may see.
func TestWreckedHeaderInFrontOfWhatIsNotVisible(t *testing.T) {
	st := few(12, math.MaxInt32)
	for i := range 9 {
		mem := newDisk(t)
		s := st.write(t, mem, NewFiles(4))
		s.visible.Store(int64(st.batches[9].pos))
		file, err := mem.OpenFile(logName(st.base), os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt(make([]byte, record.BatchOverhead), int64(st.batches[i].pos)); err != nil {
			t.Fatal(err)
		}
		file.Close()
		told, err := read(s, 1, st.base, st.batches[9].BaseOffset)
		if err != nil {
			t.Fatal(err)
		}
		if why := st.first(9).holds(told, st.base, hits{i: true}); why != "" {
			t.Errorf("batch %d: %s", i, why)
		}
		s.Close()
	}
}

// TestChecksumOfAPart writes, in the place of a batch's checksum, that of its first
// bytes: where that comes out no batch ends.
func TestChecksumOfAPart(t *testing.T) {
	st := few(12, 300)
	mem, seal := st.sealed(t)
	for i := range st.batches {
		b := &st.batches[i]
		for _, end := range []int{record.BatchOverhead, b.Size() - 8, b.Size() - 1} {
			log := st.bytes()
			raw := log[b.pos:]
			binary.BigEndian.PutUint32(raw[sumAt:], crc32.Checksum(raw[covered:end], castagnoli))
			s := st.withLog(t, log, seal, mem)
			if err := st.checkFrom(s, st.base, hits{i: true}); err != nil {
				t.Errorf("the checksum of %d of the %d bytes of batch %d: %v", end, b.Size(), i, err)
			}
			s.Close()
		}
	}
}

// TestWalkOfAFileWithoutAnEnd walks damage without knowing how many offsets there
// should be: what was expected at the damage is lost, at the least.
func TestWalkOfAFileWithoutAnEnd(t *testing.T) {
	st := few(3, 300)
	log := st.bytes()
	clear(log[st.batches[1].pos:])
	var holes []Hole
	w := Walk{
		File: bytes.NewReader(log), End: st.size(), Chain: Chain{Next: st.base, Exact: true, Dense: true},
		Batch: func(*record.Batch, record.Pos) bool { return true },
		Hole:  func(h Hole) bool { holes = append(holes, h); return true },
	}
	if err := w.Run(); err != nil {
		t.Fatal(err)
	}
	next := st.batches[0].NextOffset()
	if len(holes) != 1 || holes[0].From != next || holes[0].To != next+1 || holes[0].Resume != st.size() {
		t.Errorf("%+v", holes)
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

// TestSearchIsGivenUp wrecks the header of a batch whose value is made of headers,
// each of which claims all that is left of the file. The search for the next batch
// ends all the same, and what is behind is told as lost.
func TestSearchIsGivenUp(t *testing.T) {
	st := newStory(0, math.MaxInt32, true)
	st.add(shape{n: 1})
	fake := make([]byte, record.BatchOverhead)
	copy(fake, st.batches[0].Bytes())
	fake[7] = 2 // an offset that is missing
	binary.BigEndian.PutUint32(fake[8:], 1<<20)
	st.add(shape{n: 2, value: func(int) []byte { return bytes.Repeat(fake, 20_000) }})
	st.add(shape{n: 1})
	mem, seal := st.sealed(t)
	var asked int64
	faulty := vfs.NewFaulty(mem, func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpRead {
			asked += int64(op.Len)
		}
		return vfs.Fault{}
	})
	overwrite(t, mem, st.base, int64(st.batches[1].pos)+16, -1)
	s := OpenSealed(faulty, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	told, err := read(s, 1, 0, st.next())
	if err != nil {
		t.Fatal(err)
	}
	if len(told.gaps) != 1 || told.gaps[0].From != 1 || told.gaps[0].To != st.next() {
		t.Errorf("told %d batches, gaps %v", len(told.batches), told.gaps)
	}
	if limit := 100 * int64(st.size()); asked > limit {
		t.Errorf("%d bytes were read of a file of %d", asked, st.size())
	}
}
