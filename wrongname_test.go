package varve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// strange is what somebody does to the files of a partition at rest: a segment gets
// another name, or a copy beside it. to is the new base offset.
type strange struct {
	to   varve.Offset
	copy bool
	stop string // how the engine was left: "clean", "no mark", "killed"
}

// A file under a wrong name is in the way, and may be the only copy of what is missing:
// the partition is refused, at every start, and nothing is changed. With its name back
// everything is there; without the file readers are told of what it had, and no offset
// moves.
func TestFileUnderAWrongName(t *testing.T) {
	for _, to := range []varve.Offset{1, 5, 7, 9, 13, 21, 24, 500, 1032, 1 << 40} { // segments of 4 records, 20 in all, one of [8, 12) renamed
		for _, copied := range []bool{false, true} {
			for _, stop := range []string{"clean", "no mark", "killed"} {
				s := strange{to, copied, stop}
				t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) { wrongName(t, s) })
			}
		}
	}
}

func wrongName(t *testing.T, s strange) {
	const dir = "topics/t/0"
	const records, from, until = 20, 8, 12
	m := vfs.NewMem()
	e, _ := openOn(t, m)
	level := "durability=os"
	if s.stop == "killed" {
		level = "durability=fsync" // of the others a crash takes what it likes
	}
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config(level, "retention.ms=-1", "segment.bytes=350")})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if _, err := topic.Publish(context.Background(), text("record %06d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if segments := partOf(t, topic, 0).Stats().Segments; len(segments) != 5 || segments[2].Base != from {
		t.Fatalf("the segments are %+v", segments)
	}
	killed := m.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	mustClose(t, e)
	switch s.stop {
	case "no mark":
		if err := m.Remove("clean"); err != nil {
			t.Fatal(err)
		}
	case "killed":
		m = killed
	}
	right, wrong := fmt.Sprintf("%s/%020d.log", dir, from), fmt.Sprintf("%s/%020d.log", dir, s.to)
	data, err := m.ReadFile(right)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WriteFile(wrong, data); err != nil {
		t.Fatal(err)
	}
	if !s.copy {
		if err := m.Remove(right); err != nil {
			t.Fatal(err)
		}
	}
	for start := range 3 {
		e, said := openOn(t, m)
		if err := readsOf(t, e)(func(varve.Record) {}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%020d.log", s.to)) {
			t.Fatalf("start %d: %v\n%s", start, err, said.buf.String())
		}
		e.Close()
		if now, err := m.ReadFile(wrong); err != nil || string(now) != string(data) {
			t.Fatalf("start %d: the file has %d bytes of %d (%v)", start, len(now), len(data), err)
		}
	}

	back := m.Clone()
	if err := errors.Join(back.Remove(wrong), back.WriteFile(right, data)); err != nil {
		t.Fatal(err)
	}
	e, said := openOn(t, back)
	n := 0
	if err := readsOf(t, e)(func(varve.Record) { n++ }); err != nil || n != records {
		t.Errorf("%d of %d records are there with the name back: %v\n%s", n, records, err, said.buf.String())
	}
	mustClose(t, e)

	if err := m.Remove(wrong); err != nil {
		t.Fatal(err)
	}
	e, said = openOn(t, m)
	defer mustClose(t, e)
	if topic, err = e.Topic("t"); err != nil {
		t.Fatal(err)
	}
	n = 0
	var gap *varve.CorruptError
	for _, err := range partOf(t, topic, 0).Records(context.Background(), varve.Earliest()) {
		if err == nil {
			n++
		} else if !errors.As(err, &gap) || gap.From != from || gap.To != until {
			t.Errorf("readers are told %v", err)
		}
	}
	told := gap != nil
	lost := 0
	if told {
		lost = until - from
	}
	// After a kill the journal may make the segment anew.
	if told == s.copy && s.stop != "killed" || n != records-lost {
		t.Errorf("%d of %d records are there, and it is said that %v\n%s", n, records, gap, said.buf.String())
	}
	if off, err := partOf(t, topic, 0).Publish(context.Background(), text("next")); err != nil || off != records {
		t.Errorf("the next record got offset %d (%v)", off, err)
	}
}

// A segment that was away at a start comes back to its place, also the last one, whose
// offsets are a gap by then.
func TestSegmentThatComesBack(t *testing.T) {
	for _, base := range []int{0, 8, 16} {
		for _, stops := range []int{0, 1, 2} { // while it is away
			m := vfs.NewMem()
			e, _ := openOn(t, m)
			publishTo(t, e, 20, "segment.bytes=350")
			mustClose(t, e)
			file := fmt.Sprintf("topics/t/0/%020d.log", base)
			data, err := m.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Remove(file); err != nil {
				t.Fatal(err)
			}
			for range stops {
				e, _ := openOn(t, m)
				mustClose(t, e)
			}
			if err := m.WriteFile(file, data); err != nil {
				t.Fatal(err)
			}
			hasRecords(t, m, 20)
		}
	}
}

// logWithGaps is a disk with a log of three segments, 3 to 20, 31 to 50 and 61 to 80, trimmed up
// to start, as a kill leaves it before there are seals.
func logWithGaps(t *testing.T, start varve.Offset) *vfs.Mem {
	m := vfs.NewMem()
	e, _ := openOn(t, m)
	if _, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("retention.ms=-1")}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, e)
	putTheirs(t, m, "topics/t/0", 0, 3, 9, 20)
	putTheirs(t, m, "topics/t/0", 30, 31, 40, 50)
	putTheirs(t, m, "topics/t/0", 60, 61, 70, 80)
	e, _ = openOn(t, m)
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := partOf(t, topic, 0).Trim(start); err != nil {
		t.Fatal(err)
	}
	mustClose(t, e)
	for _, name := range []string{"clean", "topics/t/0/seals"} {
		if err := m.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// In a log with gaps, too, a file under a name behind its offsets is refused after a kill.
func TestFileUnderAWrongNameInALogWithGaps(t *testing.T) {
	m := logWithGaps(t, 0)
	if err := m.Rename("topics/t/0/00000000000000000000.log", "topics/t/0/00000000000000005000.log"); err != nil {
		t.Fatal(err)
	}
	e, said := openOn(t, m)
	defer e.Close()
	if err := readsOf(t, e)(func(varve.Record) {}); err == nil || !strings.Contains(err.Error(), "00000000000000005000.log begins with offset 3") {
		t.Errorf("%v\n%s", err, said.buf.String())
	}
}

// After a kill two segments that have each other's names are refused before the journal is
// put back into them: with their names back everything is there.
func TestSwappedNamesAfterAKill(t *testing.T) {
	for _, name := range []int{4, 16} {
		m := vfs.NewMem()
		e, _ := openOn(t, m)
		publishTo(t, e, 20, "segment.bytes=350")
		killed := m.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
		mustClose(t, e)
		killed.Remove("topics/t/0/seals") // they may be late
		one, other := fmt.Sprintf("topics/t/0/%020d.log", 8), fmt.Sprintf("topics/t/0/%020d.log", name)
		swap := func() {
			if err := errors.Join(killed.Rename(one, "aside"), killed.Rename(other, one), killed.Rename("aside", other)); err != nil {
				t.Fatal(err)
			}
		}
		swap()
		for range 2 {
			e, said := openOn(t, killed)
			if err := readsOf(t, e)(func(varve.Record) {}); err == nil || !strings.Contains(err.Error(), "give it its name back") {
				t.Fatalf("%v\n%s", err, said.buf.String())
			}
			e.Close()
		}
		swap()
		hasRecords(t, killed, 20)
	}
}

// A segment that has the name of a trimmed one after a kill is not deleted like that one.
func TestNameOfATrimmedSegmentAfterAKill(t *testing.T) {
	m := vfs.NewMem()
	e, _ := openOn(t, m)
	publishTo(t, e, 20, "segment.bytes=350")
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := partOf(t, topic, 0).Trim(6); err != nil {
		t.Fatal(err)
	}
	killed := m.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
	mustClose(t, e)
	if err := killed.Rename("topics/t/0/00000000000000000012.log", "topics/t/0/00000000000000000000.log"); err != nil {
		t.Fatal(err)
	}
	e, said := openOn(t, killed)
	defer e.Close()
	if err := readsOf(t, e)(func(varve.Record) {}); err == nil || !strings.Contains(err.Error(), "00000000000000000000.log begins with offset 12") {
		t.Errorf("%v\n%s", err, said.buf.String())
	}
	if data, err := killed.ReadFile("topics/t/0/00000000000000000000.log"); err != nil || len(data) == 0 {
		t.Errorf("the file has %d bytes (%v)", len(data), err)
	}
}

// Nor in a log with gaps, where a file may begin behind its name, but not behind the next.
func TestNameOfATrimmedSegmentInALogWithGaps(t *testing.T) {
	m := logWithGaps(t, 25)
	if err := m.Rename("topics/t/0/00000000000000000060.log", "topics/t/0/00000000000000000000.log"); err != nil {
		t.Fatal(err)
	}
	e, said := openOn(t, m)
	defer e.Close()
	if err := readsOf(t, e)(func(varve.Record) {}); err == nil || !strings.Contains(err.Error(), "00000000000000000000.log begins with offset 61") {
		t.Errorf("%v\n%s", err, said.buf.String())
	}
	if data, err := m.ReadFile("topics/t/0/00000000000000000000.log"); err != nil || len(data) == 0 {
		t.Errorf("the file has %d bytes (%v)", len(data), err)
	}
}
