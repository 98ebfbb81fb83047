package docs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// topicOfPages and partitionOfPages are the directories that the pages on the
// files of a directory tell of: topic orders, one partition, trimmed to offset
// 4096, which holds the batch of docs/format/log.md.
const (
	topicOfPages     = "topics/orders"
	partitionOfPages = topicOfPages + "/0"
)

// document is the JSON block of docs/format/documents.md that shows a file.
func document(t *testing.T, name string) []byte {
	t.Helper()
	p := pageNamed(t, "docs/format/documents.md")
	body := strings.Join(p.lines, "\n")
	_, after, found := strings.Cut(body, "## `"+name+"`")
	if !found {
		t.Fatalf("%s has no heading for %s", p.name, name)
	}
	for _, b := range p.blocks {
		if b.lang == "json" && strings.Contains(after, b.text) {
			return padded(b.text)
		}
	}
	t.Fatalf("%s shows no %s", p.name, name)
	return nil
}

// padded is the file of a document, as the page says it is filled up.
func padded(text string) []byte {
	return []byte(text + strings.Repeat(" ", 511-len(text)%512) + "\n")
}

// makePages lays out on a disk what the pages show, without what is derived.
func makePages(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	for _, dir := range []string{"topics", topicOfPages, partitionOfPages} {
		if err := disk.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{
		topicOfPages + "/topic.json":                   document(t, "topic.json"),
		partitionOfPages + "/partition.json":           document(t, "partition.json"),
		partitionOfPages + "/00000000000000004096.log": exampleOf(t, "docs/format/log.md").data,
	} {
		put(t, disk, name, data)
		if strings.HasSuffix(name, ".json") {
			put(t, disk, name+twin.CopySuffix, data)
		}
	}
	return disk
}

func put(t *testing.T, disk *vfs.Mem, name string, data []byte) {
	t.Helper()
	if err := disk.WriteFile(name, data); err != nil {
		t.Fatal(err)
	}
}

// openPages opens an engine on a disk and reads the two records of the pages. It
// returns what the engine said.
func openPages(t *testing.T, disk *vfs.Mem) (*varve.Engine, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	e, err := varve.OpenFS(disk, varve.Options{Logger: slog.New(slog.NewTextHandler(&said, nil)), CacheBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := e.Topic("orders")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for rec, err := range topic.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			t.Error(err)
		}
		values = append(values, string(rec.Value))
	}
	if strings.Join(values, "|") != "login|" {
		t.Errorf("the directory of the pages holds %q", values)
	}
	return e, &said
}

// inBubble runs f at a time that is always the same, that of the pages.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMilli(1_700_000_000_255)))
		f(t)
	})
}

// The engine, opened and closed on the directory of the pages, writes the files
// that the pages show, byte for byte.
func TestDirectoryPagesAreWhatTheEngineWrites(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		disk := makePages(t)
		e, _ := openPages(t, disk)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]byte{
			"checkpoint":                         exampleOf(t, "docs/format/checkpoint.md").data,
			"clean":                              exampleOf(t, "docs/format/clean.md").data,
			"FORMAT":                             document(t, "FORMAT"),
			"FORMAT" + twin.CopySuffix:           document(t, "FORMAT"),
			topicOfPages + "/topic.json":         document(t, "topic.json"),
			partitionOfPages + "/partition.json": exampleOf(t, "docs/format/documents.md").data,
		} {
			got, err := disk.ReadFile(name)
			if err != nil {
				t.Error(err)
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s: the engine writes\n%q\n% x\nand its page says\n% x", name, got, got, want)
			}
		}
	})
}

// An engine finds a clean stop in the files that the pages show: it takes the end
// from the checkpoint, raises no epoch and has nothing to say.
func TestDirectoryPagesAreACleanStop(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		disk := makePages(t)
		put(t, disk, "checkpoint", exampleOf(t, "docs/format/checkpoint.md").data)
		put(t, disk, "clean", exampleOf(t, "docs/format/clean.md").data)
		for _, suffix := range []string{"", twin.CopySuffix} {
			put(t, disk, "FORMAT"+suffix, document(t, "FORMAT"))
			put(t, disk, partitionOfPages+"/partition.json"+suffix, exampleOf(t, "docs/format/documents.md").data)
		}
		e, said := openPages(t, disk)
		defer e.Close()
		topic, err := e.Topic("orders")
		if err != nil {
			t.Fatal(err)
		}
		epoch := exampleOf(t, "docs/format/checkpoint.md").fieldNamed(t, "leader epoch")
		st := topic.Stats().Partitions[0]
		if st.Start != 4096 || st.End != 4098 || int64(st.Epoch) != epoch || said.Len() > 0 {
			t.Errorf("offsets %d to %d of epoch %d, and the engine says %q", st.Start, st.End, st.Epoch, said.String())
		}
	})
}

// The entry of the checkpoint is what package partition reads in it.
func TestCheckpointPageDecodes(t *testing.T) {
	e := exampleOf(t, "docs/format/checkpoint.md")
	const head, key = 24, 28
	cp, err := partition.DecodeCheckpoint(e.data[head+key:])
	if err != nil {
		t.Fatal(err)
	}
	end := head + key + partition.CheckpointSize
	if got := cp.Append(nil); !bytes.Equal(got, e.data[head+key:end]) || len(e.data) != end+4 {
		t.Errorf("the entry is encoded as\n% x\nand the page has\n% x", got, e.data[head+key:])
	}
	a := cp.Active
	for name, got := range map[string]int64{
		"round of the journal: none yet":       int64(binary.BigEndian.Uint64(e.data[head+20:])),
		"log start offset":                     int64(cp.Start),
		"leader epoch":                         int64(cp.Epoch),
		"base offset":                          int64(a.Base),
		"next offset":                          int64(a.Next),
		"bytes of the log file":                int64(a.Size),
		"largest timestamp":                    a.MaxTimestamp,
		"largest timestamp of the first batch": a.FirstTimestamp,
		"time of the first append":             a.FirstAppend,
		"leader epoch of the last batch":       int64(a.LastEpoch),
		"checksum of the headers":              int64(a.HeaderSum),
		"bytes since the last index entry":     a.Index.Tail.Since,
		"last offset of the batch that has it": int64(a.Index.Tail.MaxOffset),
		"checksum of everything before":        int64(crc32.Checksum(e.data[:end], crc32.MakeTable(crc32.Castagnoli))),
		"entries of the time index":            int64(a.Index.TimeEntries),
		"entries due and not made":             int64(a.Index.Tail.Missing),
	} {
		if want := e.fieldNamed(t, name); got != want {
			t.Errorf("%s: package partition reads %d, the page says %d", name, got, want)
		}
	}
}

// The mark of a clean stop speaks of the checkpoint and of the starts that the
// other pages show.
func TestCleanPageFitsItsNeighbours(t *testing.T) {
	e := exampleOf(t, "docs/format/clean.md")
	if got, want := e.fieldNamed(t, "generation of the checkpoint"), exampleOf(t, "docs/format/checkpoint.md").fieldNamed(t, "generation"); got != want {
		t.Errorf("clean is of generation %d, the checkpoint of %d", got, want)
	}
	var format struct{ Generation int64 }
	if err := json.NewDecoder(bytes.NewReader(document(t, "FORMAT"))).Decode(&format); err != nil {
		t.Fatal(err)
	}
	if got := e.fieldNamed(t, "starts"); got != format.Generation {
		t.Errorf("clean counts %d starts, FORMAT %d", got, format.Generation)
	}
	sum := int64(crc32.Checksum(e.data[:24], crc32.MakeTable(crc32.Castagnoli)))
	if got := e.fieldNamed(t, "checksum of what is before"); got != sum {
		t.Errorf("the checksum is %#x, the page says %#x", sum, got)
	}
}

// The text of a lock file is of the form that the page shows.
func TestLockPageShowsAHolder(t *testing.T) {
	dir := t.TempDir()
	e, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	f, err := vfs.Dir(dir).OpenFile("LOCK", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := make([]byte, 256)
	n, _ := f.ReadAt(got, 0)
	form := regexp.MustCompile(`^process \d+ \([^)]+\), since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
	for _, text := range []string{string(got[:n]), string(exampleOf(t, "docs/format/lock.md").data)} {
		if !form.MatchString(text) {
			t.Errorf("%q is not of the form %s", text, form)
		}
	}
}
