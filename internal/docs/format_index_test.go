package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// story is the segment that both index pages tell of: fifteen batches of ten
// records and 1,080 bytes, a second apart.
func story(t *testing.T) (dir, name string) {
	t.Helper()
	dir, name = t.TempDir(), "00000000000000004096"
	x := index.Create(vfs.Dir(dir), name, 4096, index.Options{})
	for i := range int64(15) {
		x.Append(record.Offset(4096+10*i+9), record.Pos(1080*i), 1080, 1_700_000_000_000+1000*i)
	}
	if _, err := x.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, name
}

func TestIndexPagesAreWhatTheIndexWrites(t *testing.T) {
	dir, name := story(t)
	for suffix, page := range map[string]string{
		".index":     "docs/format/index.md",
		".timeindex": "docs/format/timeindex.md",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if e := exampleOf(t, page); !bytes.Equal(got, e.data) {
			t.Errorf("%s: the index writes\n% x\nand the page says\n% x", page, got, e.data)
		}
	}
}

func TestIndexPagesDecode(t *testing.T) {
	dir := t.TempDir()
	const name = "00000000000000004096"
	for suffix, page := range map[string]string{
		".index":     "docs/format/index.md",
		".timeindex": "docs/format/timeindex.md",
	} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), exampleOf(t, page).data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fs := vfs.Dir(dir)
	e := exampleOf(t, "docs/format/index.md")
	i := 0
	for got, err := range index.Entries(fs, name, 4096) {
		if err != nil {
			t.Fatal(err)
		}
		want := index.Entry{Offset: 4096 + record.Offset(numberAt(t, e, 2*i)), Pos: record.Pos(numberAt(t, e, 2*i+1))}
		if got != want {
			t.Errorf("entry %d is %v, the page says %v", i, got, want)
		}
		i++
	}
	if 2*i != len(e.fields) {
		t.Errorf("%d entries, the page has %d fields", i, len(e.fields))
	}
	e = exampleOf(t, "docs/format/timeindex.md")
	i = 0
	for got, err := range index.Times(fs, name, 4096) {
		if err != nil {
			t.Fatal(err)
		}
		want := index.TimeEntry{Timestamp: numberAt(t, e, 2*i), Offset: 4096 + record.Offset(numberAt(t, e, 2*i+1))}
		if got != want {
			t.Errorf("time entry %d is %v, the page says %v", i, got, want)
		}
		i++
	}
	if 2*i != len(e.fields) {
		t.Errorf("%d time entries, the page has %d fields", i, len(e.fields))
	}
}
