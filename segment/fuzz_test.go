package segment

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// logSeeds are log files, and the ways in which they go wrong.
func logSeeds() [][]byte {
	st := few(8, 150)
	whole := st.bytes()
	seeds := [][]byte{nil, whole, whole[:len(whole)-7], whole[:40], append(bytes.Clone(whole[:300]), make([]byte, 200)...)}
	for _, at := range []int{7, 11, 14, 16, 18, 24, 60, 80} {
		bad := bytes.Clone(whole)
		bad[int(st.batches[3].pos)+at] ^= 0x21
		seeds = append(seeds, bad)
	}
	trap := newStory(100, 150, true)
	trap.add(shape{n: 1, epoch: 2})
	trap.addTrap(0, 2)
	trap.add(shape{n: 2, epoch: 2})
	bad := trap.bytes()
	bad[int(trap.batches[1].pos)+10] ^= 1
	return append(seeds, trap.bytes(), bad)
}

// counting is a file that knows how much was asked of it.
type counting struct {
	data  []byte
	asked int64
	calls int
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.asked += int64(len(p))
	c.calls++
	if off >= int64(len(c.data)) {
		return 0, io.EOF
	}
	n := copy(p, c.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// FuzzScanner scans and walks any bytes as a log file. Both end, what they hand
// out checks, lies where they say, and follows on; what is between them is told.
func FuzzScanner(f *testing.F) {
	for _, seed := range logSeeds() {
		f.Add(seed, int64(100), true)
		f.Add(seed, int64(0), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, base int64, dense bool) {
		if base < 0 || base > 1<<40 {
			return
		}
		file := &counting{data: data}
		end := record.Pos(0)
		sc := NewScanner(file, 0, record.Pos(len(data)))
		for sc.Next() {
			b := sc.Batch()
			if sc.At() != end || sc.Pos() != end+record.Pos(b.Size()) || b.Verify() != nil ||
				!bytes.Equal(b.Bytes(), data[sc.At():sc.Pos()]) {
				t.Fatalf("at %d: a batch of %d bytes, to %d", sc.At(), b.Size(), sc.Pos())
			}
			end = sc.Pos()
		}
		var damage *Damage
		switch err := sc.Err(); {
		case err == nil && end != record.Pos(len(data)):
			t.Fatalf("ends at %d of %d bytes", end, len(data))
		case err != nil && (!errors.As(err, &damage) || damage.At != end || damage.Reason == ""):
			t.Fatalf("ends at %d with %v", end, err)
		}
		if cap(sc.buf) > max(scanWindow, len(data)) {
			t.Fatalf("%d bytes of memory for a file of %d", cap(sc.buf), len(data))
		}

		end = 0
		next := record.Offset(base)
		w := Walk{
			File: file, End: record.Pos(len(data)), Next: next + 1000,
			Chain: Chain{Next: next, Exact: dense, Dense: dense, Epoch: math.MinInt32, Until: next + 1000},
			Batch: func(b *record.Batch, at record.Pos) bool {
				if at != end || b.Verify() != nil || b.BaseOffset < next || dense && b.BaseOffset != next {
					t.Fatalf("batch of offset %d at %d, expected %d at %d", b.BaseOffset, at, next, end)
				}
				end, next = at+record.Pos(b.Size()), b.NextOffset()
				return true
			},
			Hole: func(h Hole) bool {
				if h.At != end || h.Resume <= h.At || h.From != next || h.To <= h.From || h.Reason == "" {
					t.Fatalf("hole %+v, expected at %d, offset %d", h, end, next)
				}
				end, next = h.Resume, h.To
				return true
			},
		}
		if err := w.Run(); err != nil {
			t.Fatal(err)
		}
		if end != record.Pos(len(data)) {
			t.Fatalf("the walk ends at %d of %d bytes", end, len(data))
		}
	})
}

// FuzzRecover opens any bytes as the files of a segment, as one whose end is not
// known. Recovering and settling ends; what is read is what is in the file and
// follows on; a second time gives the same; appends go on.
func FuzzRecover(f *testing.F) {
	st := few(8, 150)
	mem, _ := st.sealed(f)
	files := indexFiles(f, mem, st.base)
	for _, seed := range logSeeds() {
		f.Add(seed, files[0], files[1], uint16(0), true)
		f.Add(seed, files[1], files[0], uint16(3), false)
	}
	f.Fuzz(func(t *testing.T, log, offsets, times []byte, batches uint16, dense bool) {
		opt := Options{Dense: dense, Index: index.Options{Interval: 150}}
		known := State{Base: st.base}
		if n := int(batches) % 9; n > 0 { // a state that belongs to the seeds
			_, known = st.first(n).active(t)
		}
		disk := newDisk(t)
		put(t, disk, logName(st.base), log)
		put(t, disk, dir+"/"+FileName(st.base)+IndexSuffix, offsets)
		put(t, disk, dir+"/"+FileName(st.base)+TimeIndexSuffix, times)
		s, torn, short, err := Recover(disk, NewFiles(4), dir, known, 0, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if short != (len(log) < int(known.Size)) {
			t.Fatalf("short %v, with %d bytes of %d", short, len(log), known.Size)
		}
		first := readFuzzed(t, s, log)
		if short {
			return
		}
		if torn == nil && int(s.Size()) != len(log) || torn != nil && (torn.At != s.Size() || torn.Bytes != int64(len(log))-int64(torn.At)) {
			t.Fatalf("%d of %d bytes, torn %+v", s.Size(), len(log), torn)
		}
		if err := s.Settle(known.Size, torn); err != nil {
			t.Fatal(err)
		}
		if now, err := disk.ReadFile(logName(st.base)); err != nil || !bytes.Equal(now, log[:s.Size()]) {
			t.Fatalf("settling leaves %d bytes, %v", len(now), err)
		}
		again, torn, short, err := Recover(disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept}), NewFiles(4), dir, known, 0, opt)
		got, want := again.state(), s.state()
		got.LastAppend, got.FirstAppend = want.LastAppend, want.FirstAppend // when the file was changed
		if err != nil || torn != nil || short || got != want {
			t.Fatalf("a second time: %+v, %v, %v, want %+v", got, torn, err, want)
		}
		again.Close()
		if s.Next() > math.MaxInt64-10 || !s.Fits(200, s.Next()) {
			return
		}
		more := newStory(s.Next(), 150, true)
		more.add(shape{n: 2, epoch: max(s.LastEpoch(), 0)})
		more.appendTo(t, s, 0)
		finish(t, s)
		log = append(log[:s.Size()-more.size():s.Size()-more.size()], more.bytes()...)
		// Where a header is wrecked an entry that came with the append may end the
		// hole later than before; the appended batch is there in any case.
		last := readFuzzed(t, s, log).batches
		if n := len(last); n == 0 || n > len(first.batches)+1 || !bytes.Equal(last[n-1].Bytes(), more.bytes()) {
			t.Fatalf("%d batches, after one was appended to %d", n, len(first.batches))
		}
	})
}

// readFuzzed reads a segment from front to back, and from each batch it found,
// and holds what comes against the bytes of the log.
func readFuzzed(t *testing.T, s *Segment, log []byte) tale {
	t.Helper()
	told, err := read(s, 1, s.Base(), s.Next())
	if err != nil {
		t.Fatal(err)
	}
	for i := range told.batches {
		b := &told.batches[i]
		if b.Verify() != nil || !bytes.Contains(log, b.Bytes()) {
			t.Fatalf("batch of offset %d is not in the file", b.BaseOffset)
		}
		if i > 0 && b.BaseOffset < told.batches[i-1].NextOffset() {
			t.Fatalf("batch of offset %d behind one that ends at %d", b.BaseOffset, told.batches[i-1].LastOffset())
		}
		chunk, err := s.Read(nil, 1, b.LastOffset(), s.Next(), -1)
		if err != nil || !bytes.HasPrefix(chunk.Data, b.Bytes()) {
			t.Fatalf("offset %d by itself: %v", b.LastOffset(), err)
		}
		if _, _, err := s.findTime(b.MaxTimestamp, s.Base(), s.Next(), 1<<16); err != nil {
			t.Fatal(err)
		}
	}
	return told
}

// FuzzReadSealed reads any bytes in the place of a sealed log. Each read ends; it
// hands out batches of the story as they were, or tells of a gap.
func FuzzReadSealed(f *testing.F) {
	st := few(8, 150)
	mem, seal := st.sealed(f)
	for _, seed := range logSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		disk := mem.Clone()
		s := st.withLog(t, log, seal, disk)
		defer s.Close()
		told := readFuzzed(t, s, log)
		for _, gap := range told.gaps {
			if gap.From < st.base || gap.To > st.next() || gap.Reason == "" {
				t.Fatalf("gap %+v", gap)
			}
		}
		next := st.base
		for len(told.batches)+len(told.gaps) > 0 { // together they are everything
			if len(told.gaps) > 0 && told.gaps[0].From == next {
				next, told.gaps = told.gaps[0].To, told.gaps[1:]
				continue
			}
			if len(told.batches) == 0 || told.batches[0].BaseOffset != next {
				t.Fatalf("offset %d is neither read nor told as lost", next)
			}
			next, told.batches = told.batches[0].NextOffset(), told.batches[1:]
		}
		if next != st.next() {
			t.Fatalf("offset %d is neither read nor told as lost", next)
		}
	})
}
