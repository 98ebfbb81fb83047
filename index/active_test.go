package index

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/varvelog/varve/record"
)

const testName = "orders/3/00000000000000001000"

// uniform is a log of n batches of one record and 100 bytes, a millisecond apart.
func uniform(n int) *model {
	m := &model{interval: 1}
	for i := range n {
		m.batches = append(m.batches, batch{testBase + record.Offset(i), record.Pos(100 * i), 100, int64(i)})
	}
	return m
}

func mustSeal(t *testing.T, a *Active) Mark {
	t.Helper()
	m, err := a.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The entries of a small log, worked out by hand: interval 200; batches of 100
// bytes and 10 records; the third carries the largest timestamp, 0x1122.
func TestFilesByHand(t *testing.T) {
	disk := newFake()
	a := Create(disk, testName, 1000, Options{Interval: 200})
	times := []int64{0x1100, 0x1000, 0x1122, 0x1121, 0x1120, 0x1122, 0x1122, 0x1123}
	for i, ts := range times {
		a.Append(record.Offset(1009+10*i), record.Pos(100*i), 100, ts)
	}
	m := mustSeal(t, a)
	// Moments: more than 200 bytes were appended before batches 3 and 6. At both
	// the largest timestamp is that of batch 2, which ends with 1029; the last
	// batch ends with 1079 and makes the closing time entry.
	const index = "00000027" + "0000012c" + "00000045" + "00000258"
	const timeindex = "0000000000001122" + "0000001d" + "0000000000001123" + "0000004f"
	if got := hex.EncodeToString(disk.get(testName + ".index")); got != index {
		t.Errorf("offset index %s, want %s", got, index)
	}
	if got := hex.EncodeToString(disk.get(testName + ".timeindex")); got != timeindex {
		t.Errorf("time index %s, want %s", got, timeindex)
	}
	if m.Entries != 2 || m.TimeEntries != 2 || m.Tail != (Tail{}) {
		t.Errorf("mark %+v", m)
	}
}

func TestDefaultsAreKafkas(t *testing.T) {
	a := Create(newFake(), testName, testBase, Options{})
	if a.interval != 4096 || a.maxBytes != 10<<20 {
		t.Errorf("interval %d, size %d", a.interval, a.maxBytes)
	}
}

func TestNoFileBeforeItIsNeeded(t *testing.T) {
	disk := newFake()
	disk.put(testName+".index", []byte("an earlier life"))
	a := uniform(300).build(disk, testName, Options{Interval: 1})
	if len(disk.ops) != 0 {
		t.Fatalf("appends into the first page did %v", disk.ops)
	}
	if _, err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := len(disk.get(testName + ".index")); got != 299*8 {
		t.Errorf("offset index has %d bytes after a flush", got)
	}
	disk.ops = nil
	a.Flush()
	if len(disk.ops) != 0 {
		t.Errorf("a flush with nothing new did %v", disk.ops)
	}
}

func TestSealOfAnEmptyIndexMakesEmptyFiles(t *testing.T) {
	disk := newFake()
	disk.put(testName+".timeindex", []byte("an earlier life"))
	m := mustSeal(t, Create(disk, testName, testBase, Options{}))
	for _, name := range []string{testName + ".index", testName + ".timeindex"} {
		if !disk.has(name) || len(disk.get(name)) != 0 {
			t.Errorf("%s: there %v, %d bytes", name, disk.has(name), len(disk.get(name)))
		}
	}
	s, err := OpenSealed(disk, testName, testBase, m)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := s.Lookup(testBase + 5); e != start || err != nil {
		t.Errorf("lookup: %+v, %v", e, err)
	}
	if e, err := s.LookupTime(5); e != start || err != nil {
		t.Errorf("lookup of time: %+v, %v", e, err)
	}
}

// A file that somebody may have mapped is replaced, not emptied under him.
func TestRebuildLeavesTheOldFileAlone(t *testing.T) {
	disk := newFake()
	disk.put(testName+".index", []byte("still mapped"))
	old := disk.files[testName+".index"]
	mustSeal(t, uniform(10).build(disk, testName, Options{Interval: 1}))
	if string(*old) != "still mapped" {
		t.Errorf("the old file became %q", *old)
	}
}

func TestFull(t *testing.T) {
	for _, c := range []struct {
		name          string
		maxBytes      int
		timesRise     bool
		entriesAtFull int
	}{
		{"offset index is full", 80, false, 10},
		{"time index is full but for one", 72, true, 5},
		{"too small for anything", 1, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newFake()
			a := Create(disk, testName, testBase, Options{Interval: 1, MaxBytes: c.maxBytes})
			for i := 0; !a.Full(); i++ {
				ts := int64(0)
				if c.timesRise {
					ts = int64(i)
				}
				a.Append(testBase+record.Offset(i), record.Pos(100*i), 100, ts)
			}
			a.Append(testBase+math.MaxInt32, math.MaxInt32, 100, math.MaxInt64) // makes the closing time entry due
			m := mustSeal(t, a)
			if m.Entries != c.entriesAtFull+1 {
				t.Errorf("full with %d entries, want %d", m.Entries-1, c.entriesAtFull)
			}
		})
	}
}

func TestRefusedAppends(t *testing.T) {
	full := func() *Active {
		a := Create(newFake(), testName, testBase, Options{Interval: 1})
		a.Append(testBase+9, 0, 100, 5)
		a.Append(testBase+19, 100, 100, 6)
		return a
	}
	for _, c := range []struct {
		name string
		last record.Offset
		pos  record.Pos
		text string // "" when it is accepted
	}{
		{"largest offset", testBase + math.MaxInt32, 200, ""},
		{"largest position", testBase + 29, math.MaxInt32, ""},
		{"offset past 2^31-1", testBase + math.MaxInt32 + 1, 200, "beyond what an index entry can say"},
		{"offset that wraps", math.MinInt64, 200, "beyond"},
		{"position past 2^31-1", testBase + 29, math.MaxInt32 + 1, "beyond"},
		{"offset below the base", testBase - 1, 200, "does not follow"},
		{"same offset", testBase + 19, 200, "does not follow"},
		{"same position", testBase + 29, 100, "does not follow"},
		{"negative position", testBase + 29, -1, "does not follow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := full()
			a.Append(c.last, c.pos, 100, 7)
			if err := a.Err(); (err == nil) != (c.text == "") || err != nil && !strings.Contains(err.Error(), c.text) {
				t.Fatalf("error %v, want %q", err, c.text)
			}
			_, err := a.Seal()
			if refused := c.text != ""; errors.Is(err, ErrIncomplete) != refused {
				t.Errorf("seal: %v", err)
			}
			if e := a.Lookup(testBase + 20); e != (Entry{testBase + 19, 100}) {
				t.Errorf("lookup: %+v", e)
			}
		})
	}
}

func TestNoAppendAfterTheEnd(t *testing.T) {
	for name, end := range map[string]func(*Active) error{
		"seal":  func(a *Active) error { _, err := a.Seal(); return err },
		"close": (*Active).Close,
	} {
		m := uniform(100)
		a := m.build(newFake(), testName, Options{Interval: 1})
		if err := end(a); err != nil {
			t.Fatal(err)
		}
		a.Append(testBase+100, 100*100, 100, 100)
		if err := a.Err(); err == nil || !strings.Contains(err.Error(), "after the end") {
			t.Errorf("append after %s: %v", name, err)
		}
		m.checkActive(t, a, true)
	}
}

// Every operation fails once, then for ever, wherever it is in the life of an
// index that fills several pages. Lookups stay right, and sealing gives the same
// bytes as on a good disk or says that it did not.
func TestEveryFailure(t *testing.T) {
	m := uniform(560)
	life := func(disk *fakeFS) (Mark, error) {
		disk.put(testName+".index", []byte("an earlier life"))
		a := Create(disk, testName, testBase, Options{Interval: 1})
		for i, b := range m.batches {
			a.Append(b.last, b.pos, b.size, b.ts)
			if i%200 == 199 {
				a.Flush()
			}
		}
		a.Seal()
		m.checkActive(t, a, disk.fail == nil)
		return a.Seal() // once more: an error is no end
	}
	good := newFake()
	if _, err := life(good); err != nil {
		t.Fatal(err)
	}
	for k := range good.ops {
		for _, forever := range []bool{false, true} {
			disk := newFake()
			n := 0
			disk.fail = func(string) error {
				n++
				if n == k+1 || forever && n > k {
					return errDisk
				}
				return nil
			}
			mark, err := life(disk)
			if forever && err == nil {
				t.Fatalf("operation %d and all that follow failed, and seal succeeded", k)
			}
			disk.fail = nil
			if err != nil {
				mark = mustSeal(t, m.build(disk, testName, Options{Interval: 1}))
			}
			m.checkFiles(t, disk, testName, mark)
		}
	}
}

// A page that was written and does not come back as it was costs a longer scan
// and nothing else.
func TestDamagedPage(t *testing.T) {
	m := uniform(3000)
	for name, spoil := range map[string]func(*fakeFS, string){
		"flipped": func(d *fakeFS, name string) { (*d.files[name])[4096+5] ^= 0x40 },
		"cut":     func(d *fakeFS, name string) { d.put(name, d.get(name)[:5000]) },
		"gone":    func(d *fakeFS, name string) { delete(d.files, name) },
		"zeroed":  func(d *fakeFS, name string) { clear(*d.files[name]) },
		"unread": func(d *fakeFS, _ string) {
			d.fail = func(op string) error {
				if op == "read" {
					return errDisk
				}
				return nil
			}
		},
	} {
		for _, suffix := range []string{".index", ".timeindex"} {
			t.Run(name+" "+suffix, func(t *testing.T) {
				disk := newFake()
				a := m.build(disk, testName, Options{Interval: 1})
				spoil(disk, testName+suffix)
				m.checkActive(t, a, false)
				if a.Err() == nil {
					t.Error("the damage was not noticed")
				}
				// No more than a page is scanned in vain.
				if e := a.Lookup(testBase + 700); e.Offset < testBase+700-512 {
					t.Errorf("lookup of %d gave %d", testBase+700, e.Offset)
				}
				if e := a.LookupTime(700); e.Offset < testBase+700-512-341 {
					t.Errorf("lookup of time 700 gave %d", e.Offset)
				}
			})
		}
	}
}

func TestSyncReportsFailure(t *testing.T) {
	disk := newFake()
	a := uniform(10).build(disk, testName, Options{Interval: 1})
	if err := a.Sync(); err != nil {
		t.Errorf("sync without files: %v", err)
	}
	a.Flush()
	disk.fail = func(op string) error {
		if op == "sync" {
			return errDisk
		}
		return nil
	}
	if err := a.Sync(); !errors.Is(err, errDisk) || !strings.Contains(err.Error(), testName+".index") {
		t.Errorf("sync: %v", err)
	}
}

func TestLookupReadsOnePage(t *testing.T) {
	disk := newFake()
	m := uniform(100_000)
	a := m.build(disk, testName, Options{Interval: 1})
	for _, off := range []record.Offset{0, 1, 511, 512, 513, 50_000, 99_999} {
		for what, lookup := range map[string]func(){
			"lookup": func() { a.Lookup(testBase + off) },
			"time":   func() { a.LookupTime(int64(off)) },
		} {
			disk.ops, disk.read = nil, 0
			lookup()
			pages := map[string]int{"lookup": 1, "time": 2}[what] // a page of each index
			if len(disk.ops) > 3*pages || disk.read > pages*pageSize {
				t.Errorf("%s of %d: %d bytes read, %v", what, off, disk.read, disk.ops)
			}
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	bytes := func(a *Active) (n int) {
		n = int(unsafe.Sizeof(*a))
		for _, x := range []*table{&a.offsets, &a.times} {
			v := x.view.Load()
			n += int(unsafe.Sizeof(*v)) + cap(v.page) + cap(v.fences)*int(unsafe.Sizeof(fence{}))
		}
		return n
	}
	for _, c := range []struct{ batches, limit int }{
		{0, 512},
		{5, 1 << 10},
		{100_000, 2*pageSize + 100_000/341*2*2*16}, // of 2 MB on the disk
	} {
		a := uniform(c.batches).build(newFake(), testName, Options{Interval: 1})
		if got := bytes(a); got > c.limit {
			t.Errorf("%d batches: %d bytes in memory, want at most %d", c.batches, got, c.limit)
		}
	}
}

func TestLookupsDoNotAllocate(t *testing.T) {
	m := uniform(1000)
	disk := newFake()
	a := m.build(disk, testName, Options{Interval: 1})
	s, err := OpenSealed(disk, testName, testBase, mustSeal(t, a))
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"active":       func() { a.Lookup(testBase + 990) },
		"active, time": func() { a.LookupTime(990) },
		"sealed":       func() { s.Lookup(testBase + 500) },
		"sealed, time": func() { s.LookupTime(500) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestDamageErrorText(t *testing.T) {
	err := damage(newFake(), "t/1.index", 40, "file is missing", fs.ErrNotExist)
	if got := err.Error(); got != "index /data/t/1.index: damaged at position 40: file is missing: file does not exist" {
		t.Error(got)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("the cause is lost")
	}
}
