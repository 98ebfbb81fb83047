package index

import (
	"errors"
	"hash/crc32"
	"testing"

	"github.com/varvelog/varve/record"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// seeds are pairs of files: right ones, and the ways in which files go wrong.
func seeds(f *testing.F, add func(index, times []byte)) {
	m := uniform(30)
	index, times := m.files(true)
	add(index, times)
	add(nil, nil)
	add(index[:13], times[:7])
	add(append(index[:80:80], make([]byte, 16)...), append(times[:120:120], make([]byte, 24)...))
	add(times, index)
	m = &model{interval: 1, batches: []batch{{1000, 0, 100, 0}, {1001, 100, 100, 0}}}
	index, times = m.files(true)
	add(index, times)
}

// checkOrder looks up at every key there is, and beside: answers rise with what
// is asked for and never lie beyond it.
func checkOrder(t *testing.T, index, times []byte, lookup func(record.Offset) (Entry, error), lookupTime func(int64) (Entry, error)) {
	last := start
	for i := range len(index) / 8 {
		off := testBase + record.Offset(offsetLayout.at(index, i).key)
		for _, off := range []record.Offset{off - 1, off, off + 1} {
			e, err := lookup(off)
			if err != nil || e.Offset > max(off, testBase-1) || e.Pos < 0 {
				t.Fatalf("lookup %d: %+v, %v", off, e, err)
			}
			if off == testBase+record.Offset(offsetLayout.at(index, i).key) && e.Offset != off {
				t.Fatalf("lookup %d: %+v, though there is an entry", off, e)
			}
			if e.Offset < last.Offset || e.Pos < last.Pos {
				t.Fatalf("lookup %d: %+v after %+v", off, e, last)
			}
		}
		last, _ = lookup(off)
	}
	last = start
	for i := range len(times) / 12 {
		s := timeLayout.at(times, i)
		e, err := lookupTime(s.key)
		if err != nil || e.Pos < last.Pos || s.value > 0 && e.Offset >= testBase+record.Offset(s.value) {
			t.Fatalf("lookup of time %d (first reached at %d): %+v, %v, after %+v", s.key, s.value, e, err, last)
		}
		last = e
	}
}

func FuzzOpenSealed(f *testing.F) {
	seeds(f, func(index, times []byte) {
		f.Add(index, times, len(index)/8, len(times)/12, uint32(0), uint32(0))
		f.Add(index, times, len(index)/8+1, -1, uint32(1), uint32(1))
	})
	f.Fuzz(func(t *testing.T, index, times []byte, entries, timeEntries int, wrong, timeWrong uint32) {
		disk := newFake()
		disk.put(testName+".index", index)
		disk.put(testName+".timeindex", times)
		m := Mark{
			Entries: entries, TimeEntries: timeEntries,
			Sum: checksum(index) + wrong, TimeSum: checksum(times) + timeWrong,
		}
		s, err := OpenSealed(disk, testName, testBase, m)
		if err != nil {
			if s != nil || !errors.As(err, new(*DamageError)) {
				t.Fatalf("%v is no damage", err)
			}
			return
		}
		if m.Entries*8 != len(index) || m.TimeEntries*12 != len(times) ||
			(wrong != 0 && len(index) > 0) || (timeWrong != 0 && len(times) > 0) {
			t.Fatalf("opened with %+v: %d and %d bytes", m, len(index), len(times))
		}
		checkOrder(t, index, times, s.Lookup, s.LookupTime)
	})
}

func FuzzResume(f *testing.F) {
	seeds(f, func(index, times []byte) {
		f.Add(index, times, len(index)/8, len(times)/12, uint32(0), int64(100), int64(29), int64(29))
		f.Add(index, times, min(3, len(index)/8), 0, uint32(0), int64(100), int64(-1), int64(0))
	})
	index, times := uniform(600).files(false) // more than a page of each
	f.Add(index, times, len(index)/8, len(times)/12, uint32(0), int64(100), int64(599), int64(599))
	f.Fuzz(func(t *testing.T, index, times []byte, entries, timeEntries int, wrong uint32, since, newest, newestAt int64) {
		disk := newFake()
		disk.put(testName+".index", index)
		disk.put(testName+".timeindex", times)
		m := Mark{
			Entries: entries, TimeEntries: timeEntries,
			Sum:     checksum(index[:min(uint(entries)*8, uint(len(index)))]) + wrong,
			TimeSum: checksum(times[:min(uint(timeEntries)*12, uint(len(times)))]),
			Tail:    Tail{Since: since, MaxTimestamp: newest, MaxOffset: testBase + record.Offset(newestAt)},
		}
		a, err := Resume(disk, testName, testBase, Options{Interval: 1}, m)
		if disk.open != 0 {
			t.Fatalf("%d descriptors are left open", disk.open)
		}
		if err != nil {
			return
		}
		index, times = index[:entries*8], times[:timeEntries*12]
		checkOrder(t, index, times,
			func(off record.Offset) (Entry, error) { return a.Lookup(off), a.Err() },
			func(ts int64) (Entry, error) { return a.LookupTime(ts), a.Err() })
		// It goes on, unless what was there leaves no room for another offset.
		last, pos := max(a.seen, 0)+1, a.offsets.last.value+100
		for i := range int64(20) {
			a.Append(testBase+record.Offset(last+i), record.Pos(pos+i*100), 100, newest)
		}
		mark, err := a.Seal()
		if err != nil {
			if !errors.Is(err, ErrIncomplete) {
				t.Fatal(err)
			}
			return
		}
		s, err := OpenSealed(disk, testName, testBase, mark)
		if err != nil {
			t.Fatal(err)
		}
		checkOrder(t, disk.get(testName+".index"), disk.get(testName+".timeindex"), s.Lookup, s.LookupTime)
	})
}

func FuzzWalk(f *testing.F) {
	seeds(f, func(index, times []byte) { f.Add(index, times) })
	f.Fuzz(func(t *testing.T, index, times []byte) {
		disk := newFake()
		disk.put(testName+".index", index)
		disk.put(testName+".timeindex", times)
		last := slot{int64(testBase) - 1, -1}
		n := 0
		for e, err := range Entries(disk, testName, testBase) {
			n++
			s := slot{int64(e.Offset), int64(e.Pos)}
			if err == nil && !s.above(last) {
				t.Fatalf("%+v follows %+v", s, last)
			}
			if !errors.As(err, new(*DamageError)) && err != nil {
				t.Fatal(err)
			}
			if err == nil {
				last = s
			} else {
				last = slot{-1 << 62, -1 << 62}
			}
		}
		if n > len(index)/8+1 {
			t.Fatalf("%d entries in %d bytes", n, len(index))
		}
		n = 0
		for _, err := range Times(disk, testName, testBase) {
			if n++; err != nil && !errors.As(err, new(*DamageError)) {
				t.Fatal(err)
			}
		}
		if n > len(times)/12+1 {
			t.Fatalf("%d entries in %d bytes", n, len(times))
		}
	})
}
