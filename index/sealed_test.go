package index

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// sealedOn makes the sealed index of m on disk.
func sealedOn(t *testing.T, disk *fakeFS, m *model) Mark {
	t.Helper()
	return mustSeal(t, m.build(disk, testName, Options{Interval: m.interval}))
}

func TestSealedRefusesWhateverIsNotWhatWasSealed(t *testing.T) {
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	flip := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { b[i] ^= 1; return b }
	}
	for _, c := range []struct {
		name  string
		spoil func([]byte) []byte
		text  string
	}{
		{"cut to nothing", cut(0), "should have"},
		{"cut to 1 byte", cut(1), "should have"},
		{"cut to 7 bytes", cut(7), "should have"},
		{"cut to 13 bytes", cut(13), "should have"},
		{"cut by one entry", func(b []byte) []byte { return b[:len(b)-12] }, "should have"},
		// KAFKA-10207, KAFKA-12734: zeros that look like entries of 1970.
		{"12 zeros appended", func(b []byte) []byte { return append(b, make([]byte, 12)...) }, "should have"},
		{"1200 zeros appended", func(b []byte) []byte { return append(b, make([]byte, 1200)...) }, "should have"},
		{"all zeros", func(b []byte) []byte { clear(b); return b }, "checksum mismatch"},
		{"random bytes", func(b []byte) []byte { return bytes.Repeat([]byte{0xA7}, len(b)) }, "checksum mismatch"},
		{"first bit", flip(0), "checksum mismatch"},
		{"a bit within", flip(100), "checksum mismatch"},
		{"entries swapped", func(b []byte) []byte {
			return slices.Concat(b[24:48], b[:24], b[48:])
		}, "checksum mismatch"},
		{"last position beyond 2^31-1", func(b []byte) []byte { b[len(b)-4] |= 0x80; return b }, "checksum mismatch"},
		{"stale copy", func(b []byte) []byte { return append(b[:len(b)-12], b[:12]...) }, "checksum mismatch"},
	} {
		for _, suffix := range []string{".index", ".timeindex"} {
			t.Run(c.name+suffix, func(t *testing.T) {
				disk, m := newFake(), uniform(900)
				mark := sealedOn(t, disk, m)
				disk.put(testName+suffix, c.spoil(disk.get(testName+suffix)))
				s, err := OpenSealed(disk, testName, testBase, mark)
				var damage *DamageError
				if s != nil || !errors.As(err, &damage) || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("error %v, want %q", err, c.text)
				}
				if damage.Path != disk.Path(testName+suffix) {
					t.Errorf("damage is said to be in %s", damage.Path)
				}
				m.checkFiles(t, disk, testName, sealedOn(t, disk, m))
			})
		}
	}
}

// Entries that cannot be right are refused even where the checksum is theirs.
func TestSealedChecksOrder(t *testing.T) {
	entry := func(offset, pos uint32) []byte {
		b := make([]byte, 8)
		offsetLayout.put(b, 0, slot{int64(offset), int64(pos)})
		return b
	}
	for _, c := range []struct {
		name string
		file []byte
		at   record.Pos // of the entry refused, -1 when there is none
	}{
		{"right", slices.Concat(entry(0, 0), entry(1, 1), entry(1<<31-1, 1<<31-1)), -1},
		{"same offset", slices.Concat(entry(5, 10), entry(5, 20)), 8},
		{"offset falls", slices.Concat(entry(5, 10), entry(4, 20)), 8},
		{"same position", slices.Concat(entry(5, 10), entry(6, 20), entry(7, 20)), 16},
		{"position falls", slices.Concat(entry(5, 10), entry(6, 9)), 8},
		{"offset beyond 2^31-1", slices.Concat(entry(5, 10), entry(1<<31, 20)), 8},
		{"position beyond 2^31-1", slices.Concat(entry(5, 10), entry(6, 1<<31)), 8},
		{"first of them negative", entry(1<<32-1, 10), 0},
		{"zeros behind", slices.Concat(entry(5, 10), entry(0, 0)), 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := newFake()
			disk.put(testName+".index", c.file)
			disk.put(testName+".timeindex", nil)
			mark := Mark{Entries: len(c.file) / 8, Sum: checksum(c.file)}
			_, err := OpenSealed(disk, testName, testBase, mark)
			var damage *DamageError
			if c.at < 0 {
				if err != nil {
					t.Fatal(err)
				}
			} else if !errors.As(err, &damage) || damage.At != c.at || damage.Reason != "entry out of order" {
				t.Fatalf("error %v, want an entry out of order at %d", err, c.at)
			}
		})
	}
}

func TestSealedRefusesImpossibleMarks(t *testing.T) {
	disk, m := newFake(), uniform(900)
	mark := sealedOn(t, disk, m)
	for _, n := range []int{-1, 0, mark.Entries - 1, mark.Entries + 1, math.MaxInt, math.MinInt, (math.MaxInt>>3 + 1) + mark.Entries} {
		bad := mark
		bad.Entries = n
		if _, err := OpenSealed(disk, testName, testBase, bad); !errors.As(err, new(*DamageError)) {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

func TestSealedMissingFileOrNoFile(t *testing.T) {
	root := t.TempDir()
	disk := vfs.Dir(root)
	m := uniform(900)
	path := filepath.Join(root, "1000.timeindex")
	rebuild := func() Mark {
		a := Create(disk, "1000", testBase, Options{Interval: 1})
		for _, b := range m.batches {
			a.Append(b.last, b.pos, b.size, b.ts)
		}
		return mustSeal(t, a)
	}
	check := func(what string, mark Mark) {
		t.Helper()
		_, err := OpenSealed(disk, "1000", testBase, mark)
		var damage *DamageError
		if !errors.As(err, &damage) || damage.Path != path {
			t.Fatalf("%s: %v", what, err)
		}
		s, err := OpenSealed(disk, "1000", testBase, rebuild())
		if err != nil {
			t.Fatalf("%s, after rebuilding: %v", what, err)
		}
		m.checkSealed(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}

	mark := rebuild()
	os.Remove(path)
	check("missing", mark)
	if _, err := OpenSealed(disk, "no/such", testBase, mark); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}

	os.Remove(path)
	os.Mkdir(path, 0o700)
	check("a directory", mark)

	if runtime.GOOS != "windows" { // which lets few users make links
		os.Rename(path, path+".elsewhere")
		os.Symlink(path+".elsewhere", path)
		check("a symbolic link", mark)
	}
}

// A file that is cut short under its mapping gives an error and not a crash.
func TestSealedSurvivesAFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("windows does not let a mapped file be cut short, which is the fault of this test")
	}
	root := t.TempDir()
	disk := vfs.Dir(root)
	a := Create(disk, "1000", testBase, Options{Interval: 1})
	for _, b := range uniform(5000).batches {
		a.Append(b.last, b.pos, b.size, b.ts)
	}
	s, err := OpenSealed(disk, "1000", testBase, mustSeal(t, a))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	os.Truncate(filepath.Join(root, "1000.timeindex"), 0)
	if e, err := s.LookupTime(3000); err == nil {
		t.Errorf("a lookup in a file that is gone gave %+v", e)
	}
	if e, err := s.Lookup(testBase + 3000); err != nil || e.Offset != testBase+3000 {
		t.Errorf("the offset index is whole, and a lookup gave %+v, %v", e, err)
	}
	os.Truncate(filepath.Join(root, "1000.index"), 0)
	if e, err := s.Lookup(testBase + 3000); err == nil {
		t.Errorf("a lookup in a file that is gone gave %+v", e)
	}
}

func TestOpenSealedPassesOnDiskErrors(t *testing.T) {
	good := newFake()
	mark := sealedOn(t, good, uniform(900))
	good.ops = nil
	if _, err := OpenSealed(good, testName, testBase, mark); err != nil {
		t.Fatal(err)
	}
	for k, op := range good.ops {
		if op == "close" {
			continue // nothing was written: it has nothing to say
		}
		disk := newFake()
		sealedOn(t, disk, uniform(900))
		n := 0
		disk.fail = func(string) error {
			if n++; n == k+1 {
				return errDisk
			}
			return nil
		}
		if _, err := OpenSealed(disk, testName, testBase, mark); !errors.Is(err, errDisk) {
			t.Errorf("%s failed, open says %v", op, err)
		}
		if disk.open != 0 || disk.maps != 0 {
			t.Errorf("%s failed, %d descriptors and %d mappings are left", op, disk.open, disk.maps)
		}
	}
}
