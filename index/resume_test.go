package index

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
)

// resumable is an index of n moments, flushed.
func resumable(t *testing.T, n int) (*fakeFS, *model, Mark) {
	t.Helper()
	disk, m := newFake(), uniform(n+1)
	mark, err := m.build(disk, testName, Options{Interval: 1}).Flush()
	if err != nil {
		t.Fatal(err)
	}
	return disk, m, mark
}

func TestResumeGoesOnAsIfNothingHappened(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 340, 341, 342, 511, 512, 513, 2000} {
		disk, m, mark := resumable(t, n)
		a, err := Resume(disk, testName, testBase, Options{Interval: 1}, mark)
		if err != nil {
			t.Fatalf("%d entries: %v", n, err)
		}
		m.checkActive(t, a, true)
		for range 600 {
			off, pos := m.next()
			m.batches = append(m.batches, batch{off, pos, 100, int64(off)})
			a.Append(off, pos, 100, int64(off))
		}
		m.checkActive(t, a, true)
		m.checkFiles(t, disk, testName, mustSeal(t, a))
	}
}

// The largest timestamp may sit in a batch that no entry covers when the index
// is closed; forgetting it would hide the batch from every later time lookup.
func TestResumeRemembersTheLargestTimestamp(t *testing.T) {
	disk, m := newFake(), &model{interval: 1000}
	o := Options{Interval: m.interval}
	add := func(a *Active, size int, ts int64) {
		off, pos := m.next()
		m.batches = append(m.batches, batch{off, pos, size, ts})
		a.Append(off, pos, size, ts)
	}
	a := Create(disk, testName, testBase, o)
	add(a, 1001, 10)
	add(a, 100, 10) // a moment
	add(a, 100, 50) // not covered yet
	mark, err := a.Flush()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = Resume(disk, testName, testBase, o, mark); err != nil {
		t.Fatal(err)
	}
	add(a, 1001, 20)
	add(a, 100, 20) // the next moment
	add(a, 1001, 60)
	add(a, 100, 20)
	m.checkActive(t, a, true)
	m.checkFiles(t, disk, testName, mustSeal(t, a))
}

// At rest the files are what sealing would make of them, and the mark is not.
func TestRest(t *testing.T) {
	for _, n := range []int{0, 1, 2, 300, 600} {
		disk, m := newFake(), &model{interval: 150}
		for i := range n {
			m.batches = append(m.batches, batch{testBase + record.Offset(i), record.Pos(100 * i), 100, int64(i)})
		}
		o := Options{Interval: m.interval}
		disk.put(testName+".index", []byte("an earlier life"))
		a := m.build(disk, testName, o)
		mark, err := a.Rest()
		if err != nil {
			t.Fatal(err)
		}
		index, times := m.files(true)
		if got := disk.get(testName + ".index"); !disk.has(testName+".index") || !bytes.Equal(got, index) {
			t.Errorf("%d batches: offset index %x, want %x", n, got, index)
		}
		if got := disk.get(testName + ".timeindex"); !disk.has(testName+".timeindex") || !bytes.Equal(got, times) {
			t.Errorf("%d batches: time index %x, want %x", n, got, times)
		}
		if _, grown := m.files(false); mark.TimeEntries*12 != len(grown) {
			t.Errorf("%d batches: the mark counts %d time entries of %d", n, mark.TimeEntries, len(grown)/12)
		}
		resumed, err := Resume(disk, testName, testBase, o, mark)
		if err != nil {
			t.Fatal(err)
		}
		if n == 300 {
			resumed = a // nor is anything lost where the stop did not come
		}
		for range 5 {
			off, pos := m.next()
			m.batches = append(m.batches, batch{off, pos, 100, 0})
			resumed.Append(off, pos, 100, 0)
		}
		m.checkActive(t, resumed, true)
		m.checkFiles(t, disk, testName, mustSeal(t, resumed))
	}
}

func TestRestReportsDiskErrors(t *testing.T) {
	rest := func(disk *fakeFS) error {
		m := uniform(10)
		m.batches[9].ts = 100
		a := Create(disk, testName, testBase, Options{Interval: 150})
		for _, b := range m.batches {
			a.Append(b.last, b.pos, b.size, b.ts)
		}
		_, err := a.Rest()
		return err
	}
	good := newFake()
	if err := rest(good); err != nil {
		t.Fatal(err)
	}
	for k, op := range good.ops {
		disk, n := newFake(), 0
		disk.fail = func(string) error {
			if n++; n == k+1 {
				return errDisk
			}
			return nil
		}
		if err := rest(disk); !errors.Is(err, errDisk) {
			t.Errorf("%s failed, rest says %v", op, err)
		}
		if disk.open != 0 {
			t.Errorf("%s failed, %d descriptors are left open", op, disk.open)
		}
	}
}

func TestResumeRefuses(t *testing.T) {
	file := testName + ".index"
	for _, c := range []struct {
		name   string
		spoil  func(*fakeFS, *Mark)
		text   string
		damage bool
	}{
		{"missing file", func(d *fakeFS, _ *Mark) { delete(d.files, file) }, "file is missing", true},
		{"cut by a byte", func(d *fakeFS, _ *Mark) { d.put(file, d.get(file)[:599*8-1]) }, "cut short: 4791 bytes of 599 entries", true},
		{"cut to 1 byte", func(d *fakeFS, _ *Mark) { d.put(file, d.get(file)[:1]) }, "cut short", true},
		{"empty", func(d *fakeFS, _ *Mark) { d.put(file, nil) }, "cut short", true},
		{"flipped timestamp", func(d *fakeFS, _ *Mark) { (*d.files[testName+".timeindex"])[7] ^= 1 }, "checksum mismatch", true},
		{"flipped position", func(d *fakeFS, _ *Mark) { (*d.files[file])[7] ^= 1 }, "checksum mismatch", true},
		{"zeros", func(d *fakeFS, _ *Mark) { clear(*d.files[file]) }, "out of order", true},
		{"random", func(d *fakeFS, _ *Mark) { d.put(file, []byte(strings.Repeat("random!?", 599))) }, "out of order", true},
		{"pages out of order, and summed so", func(d *fakeFS, m *Mark) {
			copy((*d.files[file])[4096:], (*d.files[file])[:87*8])
			m.Sum = checksum(*d.files[file])
		}, "position 4096: entry out of order", true},
		{"stale copy", func(d *fakeFS, m *Mark) { m.Sum++ }, "checksum mismatch", true},
		{"fewer entries than summed", func(d *fakeFS, m *Mark) { m.TimeEntries-- }, "checksum mismatch", true},
		{"more entries than there are", func(d *fakeFS, m *Mark) { m.Entries++ }, "cut short", true},
		{"far more entries", func(d *fakeFS, m *Mark) { m.Entries = math.MaxInt32 }, "cut short", true},
		{"more entries than bytes can be counted", func(d *fakeFS, m *Mark) { m.TimeEntries = math.MaxInt }, "cut short", true},
		{"negative entries", func(d *fakeFS, m *Mark) { m.Entries = -1 }, "negative", false},
		{"negative time entries", func(d *fakeFS, m *Mark) { m.TimeEntries = math.MinInt32 }, "negative", false},
		{"tail not kept", func(d *fakeFS, m *Mark) { m.Tail = Tail{} }, "no tail", false},
		{"negative bytes", func(d *fakeFS, m *Mark) { m.Tail.Since = -1 }, "impossible tail", false},
		{"negative largest timestamp", func(d *fakeFS, m *Mark) { m.Tail.MaxTimestamp = -2 }, "impossible tail", false},
		{"negative number missing", func(d *fakeFS, m *Mark) { m.Tail.Missing = -1 }, "impossible tail", false},
		{"offset below the segment", func(d *fakeFS, m *Mark) { m.Tail.MaxOffset = testBase - 1 }, "outside the segment", false},
		{"offset beyond the segment", func(d *fakeFS, m *Mark) { m.Tail.MaxOffset = math.MaxInt64 }, "outside the segment", false},
		{"entries younger than the largest timestamp", func(d *fakeFS, m *Mark) { m.Tail.MaxTimestamp-- }, "beyond the largest", true},
		{"entries and no largest timestamp", func(d *fakeFS, m *Mark) { m.Tail.MaxTimestamp = record.NoTimestamp }, "beyond the largest", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk, m, mark := resumable(t, 599)
			c.spoil(disk, &mark)
			a, err := Resume(disk, testName, testBase, Options{Interval: 1}, mark)
			if err == nil || a != nil || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("error %v, want %q", err, c.text)
			}
			if errors.As(err, new(*DamageError)) != c.damage {
				t.Errorf("damage reported: %v, want %v: %v", !c.damage, c.damage, err)
			}
			m.checkFiles(t, disk, testName, mustSeal(t, m.build(disk, testName, Options{Interval: 1})))
		})
	}
}

func TestResumeCutsWhatFollows(t *testing.T) {
	for _, n := range []int{0, 3, 600} {
		disk, _, mark := resumable(t, n)
		names := []string{testName + ".index", testName + ".timeindex"}
		for _, name := range names {
			disk.put(name, append(disk.get(name), make([]byte, 1200)...)) // KAFKA-10207, KAFKA-12734
		}
		if _, err := Resume(disk, testName, testBase, Options{Interval: 1}, mark); err != nil {
			t.Fatal(err)
		}
		if a, b := len(disk.get(names[0])), len(disk.get(names[1])); a != n*8 || b != n*12 {
			t.Errorf("%d entries: files of %d and %d bytes", n, a, b)
		}
		if disk.open != 0 {
			t.Errorf("%d descriptors are left open", disk.open)
		}
	}
}

func TestResumePassesOnDiskErrors(t *testing.T) {
	good, _, mark := resumable(t, 600)
	good.ops = nil
	if _, err := Resume(good, testName, testBase, Options{}, mark); err != nil {
		t.Fatal(err)
	}
	for k := range good.ops {
		disk, _, mark := resumable(t, 600)
		n := 0
		disk.fail = func(string) error {
			if n++; n == k+1 {
				return errDisk
			}
			return nil
		}
		if _, err := Resume(disk, testName, testBase, Options{}, mark); !errors.Is(err, errDisk) {
			t.Errorf("%s failed, resume says %v", good.ops[k], err)
		}
		if disk.open != 0 {
			t.Errorf("%s failed, %d descriptors are left open", good.ops[k], disk.open)
		}
	}
}
