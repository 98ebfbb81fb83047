package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/varvelog/varve/record"
)

const testBase record.Offset = 1000

// batch is what an index is told of one batch.
type batch struct {
	last record.Offset
	pos  record.Pos
	size int
	ts   int64
}

// moment is an indexed batch, with the largest timestamp up to and with it.
type moment struct {
	batch
	max       int64
	maxOffset record.Offset
}

// model is an index kept in the plainest way: all batches, and the moments among
// them found by going through them from the start.
type model struct {
	interval int
	batches  []batch
}

func (m *model) next() (record.Offset, record.Pos) {
	if len(m.batches) == 0 {
		return testBase, 0
	}
	b := m.batches[len(m.batches)-1]
	return b.last + 1, b.pos + record.Pos(b.size)
}

// moments are the indexed batches, and last the state behind all of them.
func (m *model) moments() (out []moment, last moment) {
	indexed := record.Pos(0)
	last.max = record.NoTimestamp
	for _, b := range m.batches {
		last.batch = b
		if b.ts > last.max {
			last.max, last.maxOffset = b.ts, b.last
		}
		if int64(b.pos-indexed) > int64(m.interval) {
			out = append(out, last)
			indexed = b.pos
		}
	}
	return out, last
}

// files are the two files as Kafka would have written them.
func (m *model) files(sealed bool) (index, times []byte) {
	newest := record.NoTimestamp
	time := func(s moment) {
		if s.max > newest {
			newest = s.max
			times = binary.BigEndian.AppendUint64(times, uint64(s.max))
			times = binary.BigEndian.AppendUint32(times, uint32(s.maxOffset-testBase))
		}
	}
	moments, last := m.moments()
	for _, s := range moments {
		index = binary.BigEndian.AppendUint32(index, uint32(s.last-testBase))
		index = binary.BigEndian.AppendUint32(index, uint32(s.pos))
		time(s)
	}
	if sealed {
		time(last)
	}
	return index, times
}

var start = Entry{Offset: testBase - 1}

// lookupIn is the answer by going through all moments.
func lookupIn(moments []moment, off record.Offset) Entry {
	e := start
	for _, s := range moments {
		if s.last <= off {
			e = Entry{s.last, s.pos}
		}
	}
	return e
}

// lookupTimeIn is the last moment that had not reached ts.
func lookupTimeIn(moments []moment, ts int64) Entry {
	e := start
	for _, s := range moments {
		if ts > record.NoTimestamp && s.max < ts {
			e = Entry{s.last, s.pos}
		}
	}
	return e
}

// checkSafe checks what any answer must satisfy, however much of the index is
// missing: it names a batch, or the start, and none before it is passed over.
func (m *model) checkSafe(t fataler, what string, e Entry, wanted func(batch) bool) {
	t.Helper()
	i, found := slices.BinarySearchFunc(m.batches, e.Pos, func(b batch, pos record.Pos) int {
		return cmp.Compare(b.pos, pos)
	})
	if e != start && (!found || m.batches[i].last != e.Offset) {
		t.Fatalf("%s: %+v is no batch", what, e)
	}
	if i := slices.IndexFunc(m.batches, wanted); i >= 0 && m.batches[i].pos < e.Pos {
		t.Fatalf("%s: %+v is behind the first batch wanted, %+v", what, e, m.batches[i])
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// interesting are the offsets and times around all that was appended.
func (m *model) interesting() (offs []record.Offset, times []int64) {
	offs = []record.Offset{math.MinInt64, -1, 0, testBase - 1, testBase, math.MaxInt64}
	times = []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, math.MaxInt64}
	for i, b := range m.batches {
		if len(m.batches) > 200 && i%97 != 0 && i < len(m.batches)-4 {
			continue
		}
		offs = append(offs, b.last-1, b.last, b.last+1)
		times = append(times, b.ts, b.ts+1)
		if b.ts > math.MinInt64 {
			times = append(times, b.ts-1)
		}
	}
	return offs, times
}

// checkAll compares every lookup with the model; exact says that no entry can
// have been dropped.
func (m *model) checkAll(t fataler, exact bool, lookup func(record.Offset) Entry, lookupTime func(int64) Entry) {
	t.Helper()
	moments, _ := m.moments()
	offs, times := m.interesting()
	for _, off := range offs {
		e := lookup(off)
		if want := lookupIn(moments, off); exact && e != want {
			t.Fatalf("lookup %d: got %+v, want %+v", off, e, want)
		}
		m.checkSafe(t, "lookup", e, func(b batch) bool { return b.last >= off })
	}
	for _, ts := range times {
		e := lookupTime(ts)
		if want := lookupTimeIn(moments, ts); exact && e != want {
			t.Fatalf("lookup of time %d: got %+v, want %+v", ts, e, want)
		}
		m.checkSafe(t, "lookup of time", e, func(b batch) bool { return b.ts >= ts })
	}
}

func (m *model) checkActive(t fataler, a *Active, exact bool) {
	t.Helper()
	m.checkAll(t, exact, a.Lookup, a.LookupTime)
}

func (m *model) checkSealed(t fataler, s *Sealed) {
	t.Helper()
	m.checkAll(t, true,
		func(off record.Offset) Entry {
			e, err := s.Lookup(off)
			if err != nil {
				t.Fatalf("lookup: %v", err)
			}
			return e
		},
		func(ts int64) Entry {
			e, err := s.LookupTime(ts)
			if err != nil {
				t.Fatalf("lookup of time: %v", err)
			}
			return e
		})
}

// build makes the index from nothing, as a rebuild does.
func (m *model) build(fs *fakeFS, name string, o Options) *Active {
	a := Create(fs, name, testBase, o)
	for _, b := range m.batches {
		a.Append(b.last, b.pos, b.size, b.ts)
	}
	return a
}

// drawBatch makes up the next batch, its timestamp in the spirit of kind.
func (m *model) drawBatch(t *rapid.T, kind string) batch {
	next, pos := m.next()
	b := batch{
		last: next + record.Offset(rapid.IntRange(0, 5).Draw(t, "delta")),
		pos:  pos,
		size: rapid.IntRange(61, 6000).Draw(t, "size"),
	}
	newest := int64(0)
	if n := len(m.batches); n > 0 {
		newest = m.batches[n-1].ts
	}
	switch kind {
	case "rising":
		b.ts = max(newest, 0)%math.MaxInt32 + int64(rapid.IntRange(1, 9).Draw(t, "step"))
	case "equal":
		b.ts = newest
	case "falling":
		b.ts = newest - min(newest, 3)
	case "any":
		b.ts = rapid.SampledFrom([]int64{
			math.MinInt64, -77, -2, record.NoTimestamp, 0, 1, 5, 100, 1 << 40, math.MaxInt64 - 1, math.MaxInt64,
		}).Draw(t, "timestamp")
	case "none":
		b.ts = record.NoTimestamp
	}
	return b
}

var errDisk = syscall.ENOSPC

// TestModel drives an index through its life, over restarts and disks that fail
// for a while, beside the model.
func TestModel(t *testing.T) { rapid.Check(t, checkModel) }

func checkModel(t *rapid.T) {
	const name = "orders/3/00000000000000001000"
	fs := newFake()
	fs.put(name+".index", []byte("what an earlier life left"))
	o := Options{Interval: rapid.SampledFrom([]int{1, 100, 4096}).Draw(t, "interval")}
	m := &model{interval: o.Interval}
	a := Create(fs, name, testBase, o)
	exact := true // no entry can have been dropped yet

	t.Repeat(map[string]func(*rapid.T){
		"append": func(t *rapid.T) {
			kind := rapid.SampledFrom([]string{"rising", "equal", "falling", "any", "none"}).Draw(t, "kind")
			n := rapid.SampledFrom([]int{1, 1, 1, 40, 300}).Draw(t, "count")
			b := m.drawBatch(t, kind)
			for i := range n {
				if i > 0 {
					b.pos += record.Pos(b.size)
					b.last++
					if kind == "rising" {
						b.ts++
					}
				}
				m.batches = append(m.batches, b)
				a.Append(b.last, b.pos, b.size, b.ts)
			}
		},
		"disk fails": func(t *rapid.T) {
			fs.fail = func(op string) error {
				if op == "write" || op == "remove" {
					return errDisk
				}
				return nil
			}
		},
		"disk works": func(t *rapid.T) { fs.fail = nil },
		"restart": func(t *rapid.T) {
			fs.fail = nil
			stop := rapid.SampledFrom([]func(*Active) (Mark, error){(*Active).Flush, (*Active).Rest}).Draw(t, "stop")
			mark, err := stop(a)
			if err != nil {
				t.Fatalf("stop: %v", err)
			}
			for _, f := range []string{name + ".index", name + ".timeindex"} {
				if junk := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "junk behind the mark"); fs.has(f) {
					fs.put(f, append(fs.get(f), junk...))
				}
			}
			if a, err = Resume(fs, name, testBase, o, mark); err != nil {
				t.Fatalf("resume: %v", err)
			}
		},
		"": func(t *rapid.T) {
			if fs.open != 0 {
				t.Fatalf("%d descriptors are left open", fs.open)
			}
			exact = exact && a.Err() == nil
			m.checkActive(t, a, exact)
		},
	})

	fs.fail = nil
	mark, err := a.Seal()
	if err == nil != exact || err != nil && !errors.Is(err, ErrIncomplete) {
		t.Fatalf("seal: %v, but entries dropped: %v", err, !exact)
	}
	if err != nil {
		a = m.build(fs, name, o)
		if mark, err = a.Seal(); err != nil {
			t.Fatalf("seal after rebuilding: %v", err)
		}
	}
	m.checkActive(t, a, true)
	m.checkFiles(t, fs, name, mark)
}

// checkFiles checks a sealed index: byte by byte, and by its lookups.
func (m *model) checkFiles(t fataler, fs *fakeFS, name string, mark Mark) {
	t.Helper()
	index, times := m.files(true)
	if got := fs.get(name + ".index"); !bytes.Equal(got, index) {
		t.Fatalf("offset index:\ngot  %x\nwant %x", got, index)
	}
	if got := fs.get(name + ".timeindex"); !bytes.Equal(got, times) {
		t.Fatalf("time index:\ngot  %x\nwant %x", got, times)
	}
	s, err := OpenSealed(fs, name, testBase, mark)
	if err != nil {
		t.Fatalf("open sealed: %v", err)
	}
	m.checkSealed(t, s)
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if fs.open != 0 || fs.maps != 0 {
		t.Fatalf("%d descriptors and %d mappings are left", fs.open, fs.maps)
	}
}
