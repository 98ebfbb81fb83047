package index

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// listing is what a walk gives, one word an entry, "!" before what is damaged.
func listing(t *testing.T, suffix, file string) string {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(file, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	disk := newFake()
	disk.put(testName+suffix, b)
	var words []string
	word := func(at, what int64, err error) {
		var damage *DamageError
		switch {
		case err == nil:
			words = append(words, fmt.Sprintf("%d@%d", what, at))
		case errors.As(err, &damage):
			words = append(words, fmt.Sprintf("!%d", damage.At))
		default:
			t.Fatal(err)
		}
	}
	if suffix == ".index" {
		for e, err := range Entries(disk, testName, 1000) {
			word(int64(e.Pos), int64(e.Offset), err)
		}
	} else {
		for e, err := range Times(disk, testName, 1000) {
			word(int64(e.Offset), e.Timestamp, err)
		}
	}
	if disk.open != 0 {
		t.Errorf("%d descriptors are left open", disk.open)
	}
	return strings.Join(words, " ")
}

func TestWalk(t *testing.T) {
	const zero8, zero12 = "0000000000000000", "000000000000000000000000"
	for _, c := range []struct{ name, suffix, file, want string }{
		{"empty", ".index", "", ""},
		{"two entries", ".index", "00000005 00000064 00000009 000000c8", "1005@100 1009@200"},
		{"preallocated, no entry yet", ".index", strings.Repeat(zero8, 1300), ""},
		{"preallocated", ".index", "00000005 00000064" + strings.Repeat(zero8, 1300), "1005@100"},
		{"a zero between", ".index", "00000005 00000064" + zero8 + "00000009 000000c8", "1005@100 !8 1009@200"},
		{"zeros between", ".index", "00000005 00000064" + zero8 + zero8 + "00000009 000000c8 0000000a 000000d8", "1005@100 !8 1009@200 1010@216"},
		{"first batch indexed, as by old brokers", ".index", zero8 + "00000009 000000c8", "1000@0 1009@200"},
		{"two zeros before", ".index", zero8 + zero8 + "00000009 000000c8", "!0 1009@200"},
		{"out of order, goes on", ".index", "00000005 00000064 00000004 000000c8 00000006 0000012c", "1005@100 !8 1006@300"},
		{"beyond 2^31-1", ".index", "80000005 00000064 00000005 80000000", "!0 !8"},
		{"half an entry", ".index", "00000005 00000064 000000", "1005@100 !8"},
		{"half an entry behind zeros", ".index", "00000005 00000064" + zero8 + "00", "1005@100 !16"},

		{"two times", ".timeindex", "0000000000000002 00000005 0000000000000003 00000006", "2@1005 3@1006"},
		{"preallocated times", ".timeindex", "0000000000000002 00000005" + strings.Repeat(zero12, 1000), "2@1005"},
		{"preallocated, no time yet", ".timeindex", strings.Repeat(zero12, 1000), ""},
		{"1970 in the first record", ".timeindex", zero12, "0@1000"},
		{"1970 in the first record, then more", ".timeindex", zero12 + "0000000000000003 00000006", "0@1000 3@1006"},
		{"time before 1970", ".timeindex", "ffffffffffffff00 00000005", "!0"},
		{"half a time", ".timeindex", "0000000000000002 00000005 00000000", "2@1005 !12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := listing(t, c.suffix, c.file); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWalkGivesWhatWasAppended(t *testing.T) {
	m := uniform(3000)
	disk := newFake()
	sealedOn(t, disk, m)
	moments, _ := m.moments()
	i := 0
	for e, err := range Entries(disk, testName, testBase) {
		if err != nil || e != (Entry{moments[i].last, moments[i].pos}) {
			t.Fatalf("entry %d: %+v, %v", i, e, err)
		}
		i++
	}
	if i != len(moments) {
		t.Errorf("%d entries of %d", i, len(moments))
	}
	i = 0
	for e, err := range Times(disk, testName, testBase) {
		if err != nil || e != (TimeEntry{moments[i].max, moments[i].maxOffset}) {
			t.Fatalf("time entry %d: %+v, %v", i, e, err)
		}
		i++
	}
	if i != len(moments) {
		t.Errorf("%d time entries of %d", i, len(moments))
	}
	if disk.read > 2*3000*12 || slices.Max([]int{disk.open}) != 0 {
		t.Errorf("%d bytes read, %d descriptors open", disk.read, disk.open)
	}
}

func TestWalkStopsWhenToldTo(t *testing.T) {
	disk := newFake()
	sealedOn(t, disk, uniform(3000))
	n := 0
	for range Entries(disk, testName, testBase) {
		if n++; n == 600 {
			break
		}
	}
	if n != 600 || disk.open != 0 {
		t.Errorf("%d entries, %d descriptors open", n, disk.open)
	}
}

func TestWalkReportsDiskErrors(t *testing.T) {
	var errs []error
	for _, err := range Entries(newFake(), testName, testBase) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !errors.Is(errs[0], fs.ErrNotExist) {
		t.Errorf("no file: %v", errs)
	}
	disk := newFake()
	sealedOn(t, disk, uniform(3000))
	reads := 0
	disk.fail = func(op string) error {
		if op == "read" {
			if reads++; reads == 2 {
				return errDisk
			}
		}
		return nil
	}
	n, errs := 0, nil
	for _, err := range Entries(disk, testName, testBase) {
		if n++; err != nil {
			errs = append(errs, err)
		}
	}
	if n != 513 || len(errs) != 1 || !errors.Is(errs[0], errDisk) {
		t.Errorf("the second page failed: %d entries, %v", n-1, errs)
	}
}
