package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

const dir = "p"

// stored is one batch of a story: what is in the file, and where.
type stored struct {
	record.Batch
	pos record.Pos
}

// story is everything that was appended to one segment, in memory: the model
// that reads are held against.
type story struct {
	base    record.Offset
	opt     Options
	batches []stored
	decoded [][]record.Record // of the first batches, kept by firstAt
}

func newStory(base record.Offset, interval int, dense bool) *story {
	return &story{base: base, opt: Options{Dense: dense, Index: index.Options{Interval: interval}}}
}

// shape is how the next batch of a story is to be.
type shape struct {
	n     int // records, at least 1
	codec record.Codec
	epoch record.Epoch
	gap   record.Offset      // offsets left out in front of it
	value func(i int) []byte // of record i; nil: some bytes
	time  func(i int) int64  // of record i; nil: the offset, in seconds
}

func (st *story) next() record.Offset {
	if n := len(st.batches); n > 0 {
		return st.batches[n-1].NextOffset()
	}
	return st.base
}

func (st *story) size() record.Pos {
	if n := len(st.batches); n > 0 {
		return st.batches[n-1].pos + record.Pos(st.batches[n-1].Size())
	}
	return 0
}

func (st *story) bytes() []byte {
	var all []byte
	for i := range st.batches {
		all = append(all, st.batches[i].Bytes()...)
	}
	return all
}

// add makes the next batch.
func (st *story) add(sh shape) *stored {
	base := st.next() + sh.gap
	if sh.value == nil {
		rng := rand.New(rand.NewPCG(uint64(base), 7))
		sh.value = func(int) []byte {
			return bytes.Repeat([]byte{'a' + byte(rng.IntN(4)), byte(rng.Uint32())}, 3+rng.IntN(9))
		}
	}
	if sh.time == nil {
		sh.time = func(i int) int64 { return int64(base+record.Offset(i)) * 1000 }
	}
	var b record.Builder
	b.Reset(nil, base, record.BatchOptions{Codec: sh.codec, Epoch: sh.epoch})
	for i := range sh.n {
		b.Add(sh.time(i), fmt.Appendf(nil, "k%d", i), sh.value(i), nil)
	}
	return st.addRaw(b.Finish())
}

// addRaw takes a finished batch as it is.
func (st *story) addRaw(raw []byte) *stored {
	batch, err := record.Parse(raw)
	if err != nil {
		panic(err)
	}
	st.batches = append(st.batches, stored{batch, st.size()})
	return &st.batches[len(st.batches)-1]
}

func (st *story) entries() []Entry {
	list := make([]Entry, len(st.batches))
	for i := range st.batches {
		list[i] = entryOf(&st.batches[i].Batch)
	}
	return list
}

// holding is the batch that holds off, or the first behind it.
func (st *story) holding(off record.Offset) int {
	for i := range st.batches {
		if st.batches[i].LastOffset() >= off {
			return i
		}
	}
	return len(st.batches)
}

// write puts the story into a new active segment, one append for each batch.
func (st *story) write(t testing.TB, fsys vfs.FS, files *Files) *Segment {
	t.Helper()
	s, err := Create(fsys, files, dir, st.base, st.opt)
	if err != nil {
		t.Fatal(err)
	}
	st.appendTo(t, s, 0)
	return s
}

// appendTo appends what the story has from batch i on.
func (st *story) appendTo(t testing.TB, s *Segment, i int) {
	t.Helper()
	entries := st.entries()
	for ; i < len(entries); i++ {
		raw := st.batches[i].Bytes()
		if err := s.Append([][]byte{raw[:30], raw[30:]}, entries[i:i+1], int64(1000+i)); err != nil {
			t.Fatal(err)
		}
	}
	s.Show(s.Size())
}

// finish seals s.
func finish(t testing.TB, s *Segment) Seal {
	t.Helper()
	s.Roll()
	seal, err := s.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// sealed writes the story to a disk of its own and seals it.
func (st *story) sealed(t testing.TB) (*vfs.Mem, Seal) {
	t.Helper()
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(8))
	seal := finish(t, s)
	s.Close()
	syncNames(t, mem)
	return mem, seal
}

// active writes the story to a disk of its own and leaves it as a clean stop does.
func (st *story) active(t testing.TB) (*vfs.Mem, State) {
	t.Helper()
	mem := newDisk(t)
	s := st.write(t, mem, NewFiles(8))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	state, err := s.Rest()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	syncNames(t, mem)
	return mem, state
}

func syncNames(t testing.TB, mem *vfs.Mem) {
	t.Helper()
	if err := mem.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

func newDisk(t testing.TB) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	if err := mem.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return mem
}

// tale is what a reader was told: batches, and gaps between them.
type tale struct {
	batches []record.Batch
	gaps    []*CorruptError
}

// read tells all of a segment from an offset on, as a consumer does: from chunk
// to chunk, and on behind each gap. Where damage does not end the tale, err does.
func read(s *Segment, most int, from, end record.Offset) (tale, error) {
	var told tale
	var buf []byte
	at := record.Pos(-1)
	for from < end {
		chunk, err := s.Read(buf, most, from, end, at)
		var damage *CorruptError
		switch {
		case errors.As(err, &damage):
			if damage.To <= from || damage.From > damage.To {
				return told, fmt.Errorf("no progress at offset %d: %w", from, err)
			}
			told.gaps = append(told.gaps, damage)
			from, at = damage.To, -1
			continue
		case err != nil:
			return told, err
		case len(chunk.Data) == 0:
			return told, nil
		}
		for data := bytes.Clone(chunk.Data); len(data) > 0; {
			b, err := record.Parse(data)
			if err != nil {
				return told, fmt.Errorf("a chunk does not parse: %w", err)
			}
			told.batches = append(told.batches, b)
			data = data[b.Size():]
		}
		if chunk.Next <= from {
			return told, fmt.Errorf("no progress at offset %d", from)
		}
		buf, from, at = chunk.Data, chunk.Next, chunk.Pos
	}
	return told, nil
}

// hits are the batches of a story that were damaged.
type hits map[int]bool

// holds says what is wrong with a tale of the story from an offset on, when
// these batches were damaged, or "". Every byte handed out is one that was
// stored; whatever was not damaged was handed out, in order and once; of what
// was damaged the gaps speak, and in a dense story of nothing else.
func (st *story) holds(told tale, from record.Offset, damaged hits) string {
	const none, whole = -1, -2
	fate := make([]int, st.next()-st.base) // of each offset: batch that was damaged, or whole
	for i := range fate {
		fate[i] = none
	}
	for i := range st.batches {
		want := &st.batches[i]
		for off := want.BaseOffset; off <= want.LastOffset(); off++ {
			fate[off-st.base] = whole
			if damaged[i] {
				fate[off-st.base] = i
			}
		}
		if damaged[i] || want.LastOffset() < from {
			continue
		}
		if len(told.batches) == 0 {
			return fmt.Sprintf("batch %d at offset %d is missing, gaps %v", i, want.BaseOffset, told.gaps)
		}
		got := told.batches[0]
		told.batches = told.batches[1:]
		if got.BaseOffset != want.BaseOffset || !bytes.Equal(got.Bytes(), want.Bytes()) {
			return fmt.Sprintf("batch %d at offset %d came as one of offset %d, gaps %v", i, want.BaseOffset, got.BaseOffset, told.gaps)
		}
	}
	if len(told.batches) > 0 {
		return fmt.Sprintf("one batch of offset %d too many", told.batches[0].BaseOffset)
	}
	for _, gap := range told.gaps {
		if gap.From < st.base || gap.To > st.next() || gap.Reason == "" || gap.Offset != gap.From-1 {
			return fmt.Sprintf("a gap that cannot be: %+v", gap)
		}
		if first := fate[gap.From-st.base]; st.opt.Dense && (first < 0 || gap.At != st.batches[first].pos || gap.From != st.batches[first].BaseOffset) {
			return fmt.Sprintf("a gap that begins at no damage: %+v", gap)
		}
		for off := gap.From; off < gap.To; off++ {
			if fate[off-st.base] == whole {
				return fmt.Sprintf("offset %d can be read and is in a gap: %v", off, gap)
			}
			fate[off-st.base] = none
		}
	}
	for i, batch := range fate {
		if off := st.base + record.Offset(i); batch >= 0 && off >= from {
			return fmt.Sprintf("damage to batch %d, offset %d, was not told: %v", batch, off, told.gaps)
		}
	}
	return ""
}

// check reads the segment from front to back, and from each batch on, and holds
// what comes against the story.
func (st *story) check(s *Segment, damaged hits) error {
	froms := []record.Offset{st.base}
	for i := range st.batches {
		froms = append(froms, st.batches[i].LastOffset())
	}
	for _, from := range froms {
		if err := st.checkFrom(s, from, damaged); err != nil {
			return err
		}
	}
	return nil
}

func (st *story) checkFrom(s *Segment, from record.Offset, damaged hits) error {
	told, err := read(s, 1, from, st.next())
	if err != nil {
		return fmt.Errorf("from offset %d: %w", from, err)
	}
	if why := st.holds(told, from, damaged); why != "" {
		return fmt.Errorf("from offset %d: %s", from, why)
	}
	return nil
}

// verify opens the segment anew from its disk, and reads it whole: the end of
// every test that wrote one.
func (st *story) verify(t testing.TB, fsys vfs.FS, seal Seal) {
	t.Helper()
	s := OpenSealed(fsys, NewFiles(4), dir, seal, st.opt)
	defer s.Close()
	if err := st.check(s, nil); err != nil {
		t.Fatal(err)
	}
}

func logName(base record.Offset) string { return dir + "/" + FileName(base) + LogSuffix }

// findTime is FindTime for who wants the offset alone; it holds the batch against it.
func (s *Segment) findTime(ts int64, from, end record.Offset, maxInflated int) (record.Offset, bool, error) {
	f, err := s.FindTime(ts, from, end, maxInflated)
	if err != nil || len(f.Data) == 0 {
		return 0, false, err
	}
	b, err := record.Parse(f.Data)
	if err == nil && (b.Size() != len(f.Data) || b.BaseOffset > f.Offset || b.LastOffset() < f.Offset || b.NextOffset() != f.Next) {
		err = fmt.Errorf("offset %d comes with the batch [%d, %d), and Next is %d", f.Offset, b.BaseOffset, b.NextOffset(), f.Next)
	}
	return f.Offset, true, err
}
