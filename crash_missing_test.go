package varve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

const manyTopics = 30

// journalOfTwoFiles is what a power cut leaves of many topics with a record each, and of
// one with a second one; they are in the journal alone, in one of its two files.
func journalOfTwoFiles(t *testing.T) *vfs.Mem {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	defer mustClose(t, e)
	for i := range manyTopics {
		fill(t, mustTopic(t, e, fmt.Sprint("t", i)), "value", 1)
	}
	first, err := e.Topic("t0")
	if err != nil {
		t.Fatal(err)
	}
	fill(t, first, "more", 1)
	return lost(disk)
}

// told opens the disk: of records that are not there an error has to say so, now and
// not at the next start.
func told(t *testing.T, m *vfs.Mem, what string) {
	t.Helper()
	e, logged := openOn(t, m)
	there := 0
	for i := range manyTopics {
		there += int(partOf(t, mustTopic(t, e, fmt.Sprint("t", i)), 0).End())
	}
	if said := logged.first("a part of the journal is missing"); there <= manyTopics && said == "" {
		t.Errorf("%s: of %d acknowledged records %d are there, and nothing is said:\n%s", what, manyTopics+1, there, logged.buf.String())
	}
	left := lost(m)
	mustClose(t, e)
	e, logged = openOn(t, left)
	mustClose(t, e)
	if said := logged.first("a part of the journal is missing"); said != "" {
		t.Errorf("%s: said again: %s", what, said)
	}
}

// The first file of the journal is missing, or cut: what it alone had is lost, and the
// log has to say so, as it does of a file in the middle. Where a later round tells how
// much a partition had, that is a gap.
func TestOldestJournalFileIsMissed(t *testing.T) {
	const first = "wal/0000000001.wal"
	for name, harm := range map[string]func(*vfs.Mem) error{
		"removed":         func(m *vfs.Mem) error { return m.Remove(first) },
		"cut to a header": func(m *vfs.Mem) error { return m.Truncate(first, 4096) },
	} {
		m := journalOfTwoFiles(t)
		if err := harm(m); err != nil {
			t.Fatal(err)
		}
		told(t, m.Clone(), name)
		for range 2 {
			e, logged := openOn(t, m)
			checkGap(t, e, "t0")
			if t.Failed() {
				t.Log(name, logged.buf.String())
			}
			m = lost(m)
			mustClose(t, e)
		}
	}
}

// checkGap reads a topic of which the record at offset 0 is lost and that at 1 is not.
func checkGap(t *testing.T, e *varve.Engine, topic string) {
	t.Helper()
	p := partOf(t, mustTopic(t, e, topic), 0)
	var gaps, offsets []varve.Offset
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		var gap *varve.CorruptError
		switch {
		case errors.As(err, &gap):
			gaps = append(gaps, gap.From, gap.To)
		case err != nil:
			t.Fatal(err)
		default:
			offsets = append(offsets, rec.Offset)
		}
		if rec.Offset+1 == p.End() {
			break
		}
	}
	if !slices.Equal(gaps, []varve.Offset{0, 1}) || !slices.Equal(offsets, []varve.Offset{1}) || p.End() != 2 {
		t.Errorf("readers are given %v and told of gaps %v, up to %d", offsets, gaps, p.End())
	}
}

// The newest file is shorter than its header says: it was cut, which is no torn write.
func TestCutJournalFileIsTold(t *testing.T) {
	for _, size := range []int64{5000, 8192, 20_000, 60_000} {
		m := journalOfTwoFiles(t)
		if err := m.Truncate("wal/0000000002.wal", size); err != nil {
			t.Fatal(err)
		}
		told(t, m, fmt.Sprintf("the second file cut to %d bytes", size))
	}
}
