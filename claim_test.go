package varve_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// putTheirs writes a log file as Kafka's cleaner leaves one, a batch of one record at each
// of some offsets; many that follow on are one batch.
func putTheirs(t *testing.T, m *vfs.Mem, dir string, base varve.Offset, offsets ...varve.Offset) {
	t.Helper()
	var data []byte
	var b record.Builder
	for i, off := range offsets {
		if i == 0 || len(offsets) < many {
			b.Reset(nil, off, record.BatchOptions{})
		}
		b.Add(1000, nil, []byte(fmt.Sprint("theirs ", off)), nil)
		if i == len(offsets)-1 || len(offsets) < many {
			data = append(data, b.Finish()...)
		}
	}
	if err := m.WriteFile(fmt.Sprintf("%s/%020d.log", dir, base), data); err != nil {
		t.Fatal(err)
	}
}

const many = 20

// upTo is the offsets below n.
func upTo(n varve.Offset) (offsets []varve.Offset) {
	for off := range n {
		offsets = append(offsets, off)
	}
	return offsets
}

// Files of another log that were put into a partition of a directory at rest are taken
// over as they are, if it never had a record or has lost its metadata; any other partition is refused
// until its own files are back. That is decided once: a start that is cut short at any
// call, by a kill or by the power, leaves the next one, which has no mark of a clean stop
// to go by, with the same answer. No byte of them is changed, and none is left out but
// what a flip has hit.
func TestTakingOverMayBeCutAnywhere(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	files := map[string]map[varve.Offset][]varve.Offset{
		"one file":      {0: {3, 9, 20, 21}},
		"its beginning": {0: {0, 1, 2}},
		"three files":   {0: {3, 9}, 30: {41, 50}, 60: {61, 70, 80}},
		"a later start": {1000: {1000, 1005}},
		"a large batch": {0: upTo(40)},
		"two of them":   {0: upTo(25), 100: {100, 130}},
	}
	for name, theirs := range files {
		for _, place := range []place{{}, {records: 2}, {records: 10, trim: 10}, {records: 10, trim: 6}, {records: 40, bytes: 1 << 20}} {
			for _, kept := range []bool{true, false} { // its metadata
				for _, flip := range []bool{false, true} { // a bit of their last batch but one
					if flip && name == "a large batch" {
						continue // there is one
					}
					t.Run(fmt.Sprintf("%s, %+v, metadata %t, flip %t", name, place, kept, flip), func(t *testing.T) {
						cutTakingOver(t, theirs, place, kept, flip)
					})
				}
			}
		}
	}
}

// place is what was in the partition whose place they take.
type place struct {
	records int
	trim    varve.Offset
	bytes   int // of a segment; 0: three records
}

func cutTakingOver(t *testing.T, theirs map[varve.Offset][]varve.Offset, was place, kept, flip bool) {
	const dir = "topics/t/0"
	m := vfs.NewMem()
	e, _ := openOn(t, m)
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("durability=os", "retention.ms=-1",
		fmt.Sprint("segment.bytes=", max(was.bytes, 300)))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range was.records {
		if _, err := topic.Publish(context.Background(), text("ours %d, which ends elsewhere", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := partOf(t, topic, 0).Trim(was.trim); err != nil {
		t.Fatal(err)
	}
	mustClose(t, e)
	refused, had := kept && was.records > 0, m.Clone()
	for _, f := range m.Files() {
		ours := strings.HasPrefix(f, dir) && (strings.HasSuffix(f, "log") || strings.HasSuffix(f, "index"))
		if ours || !kept && strings.HasPrefix(f, dir) {
			if err := m.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := m.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	var want []varve.Offset
	for base, offsets := range theirs {
		putTheirs(t, m, dir, base, offsets...)
		want = append(want, offsets...)
	}
	slices.Sort(want)
	if flip {
		last := slices.Max(slices.Collect(maps.Keys(theirs)))
		file := fmt.Sprintf("%s/%020d.log", dir, last)
		data, err := m.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.FlipBit(file, int64(8*(len(data)-len(data)/len(theirs[last])-2))); err != nil {
			t.Fatal(err)
		}
		want = slices.Delete(want, len(want)-2, len(want)-1)
	}
	before := logsOf(t, m)
	step := 1
	if testing.Short() {
		step = 7
	}
	for n := 1; ; n += step {
		w := newWorld(t, fmt.Sprintf("cut at call %d", n))
		w.disk = m.Clone()
		w.limit.Store(int64(n))
		if w.open() {
			w.dead.Store(true) // what comes now is no start any more
			w.engine.Close()
		}
		whole := w.calls.Load() < int64(n)
		for _, mode := range []vfs.CrashOptions{
			{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept}, {Unsynced: vfs.UnsyncedLost, Names: vfs.NamesLost},
		} {
			left := w.disk.Crash(mode)
			for again := range 2 {
				e, said := openOn(t, left)
				if refused {
					if err := readsOf(t, e)(nil); err == nil || !strings.Contains(err.Error(), "is not as it was left") {
						t.Fatalf("%s, start %d after it: %v\n%s", w.name, again, err, said.buf.String())
					}
					e.Close()
					continue
				}
				if got := theirsIn(t, e); !slices.Equal(got, want) {
					t.Fatalf("%s, start %d after it: there are %v, expected %v\n%s", w.name, again, got, want, said.buf.String())
				}
				mustClose(t, e)
			}
			after := logsOf(t, left)
			for f, data := range before {
				if !bytes.Equal(after[f], data) {
					t.Fatalf("%s: %s had %d bytes and has %d", w.name, f, len(data), len(after[f]))
				}
			}
			if refused {
				bringBack(t, left, had, was)
			}
		}
		if whole {
			return
		}
	}
}

// logsOf is the content of all log files with something in them.
func logsOf(t *testing.T, m *vfs.Mem) map[string][]byte {
	t.Helper()
	logs := map[string][]byte{}
	for _, f := range m.Files() {
		if !strings.HasSuffix(f, ".log") {
			continue
		}
		data, err := m.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 0 {
			logs[f] = data
		}
	}
	return logs
}

// bringBack puts the log files that a partition had into the place of those that are
// there, and expects its records.
func bringBack(t *testing.T, m, had *vfs.Mem, was place) {
	t.Helper()
	for f := range logsOf(t, m) {
		if err := m.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	for f, data := range logsOf(t, had) {
		if err := m.WriteFile(f, data); err != nil {
			t.Fatal(err)
		}
	}
	e, said := openOn(t, m)
	n := 0
	if err := readsOf(t, e)(func(varve.Record) { n++ }); err != nil || n != was.records-int(was.trim) {
		t.Fatalf("%d of %d records are there when the files are back: %v\n%s", n, was.records-int(was.trim), err, said.buf.String())
	}
	mustClose(t, e)
}

// readsOf reads the partition up to the first error.
func readsOf(t *testing.T, e *varve.Engine) func(func(varve.Record)) error {
	t.Helper()
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	return func(each func(varve.Record)) error {
		for rec, err := range partOf(t, topic, 0).Records(context.Background(), varve.Earliest()) {
			if err != nil {
				return err
			}
			each(rec)
		}
		return nil
	}
}

// theirsIn reads the partition, over damage, and returns the offsets of the records.
func theirsIn(t *testing.T, e *varve.Engine) []varve.Offset {
	t.Helper()
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	var offsets []varve.Offset
	for rec, err := range partOf(t, topic, 0).Records(context.Background(), varve.Earliest()) {
		if err != nil && !goesOn(err) {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		if string(rec.Value) != fmt.Sprint("theirs ", rec.Offset) {
			t.Errorf("offset %d holds %q", rec.Offset, rec.Value)
		}
		offsets = append(offsets, rec.Offset)
	}
	return offsets
}
