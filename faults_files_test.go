package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// A copy of a directory that is made file by file while the engine writes, as cp does,
// opens, or refuses by an error: no record in it is another than was published there,
// whatever is missing is told of, and it takes records.
func TestCopyOfALiveDirectory(t *testing.T) {
	for seed := range uint64(60 / stride(4)) {
		synctest.Test(t, func(t *testing.T) { copyLive(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func copyLive(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 21))
	w := newWorld(t, fmt.Sprintf("seed %d", seed))
	w.open()
	create("a", 2, small, "retention.ms=-1")(w)
	create("o", 1, small, "retention.ms=-1", "durability=os")(w)
	step := func() {
		acts := []act{
			publishOne("a", 2), publishMany("a", 9), publishMany("o", 7), publishOne("o", 1), idle,
			trimTo("a", rng.IntN(2), 5), trimTo("o", 0, 4), runRetention,
		}
		acts[rng.IntN(len(acts))](w)
		w.look()
	}
	for range 8 {
		step()
	}
	copied := vfs.NewMem()
	files := w.disk.Files()
	switch seed % 3 { // in the order of their names, the other way around, and in none
	case 1:
		for i, n := 0, len(files); i < n/2; i++ {
			files[i], files[n-1-i] = files[n-1-i], files[i]
		}
	case 2:
		rng.Shuffle(len(files), func(i, k int) { files[i], files[k] = files[k], files[i] })
	}
	for _, f := range files {
		if data, err := w.disk.ReadFile(f); err == nil { // it may be gone by now
			if err := copied.WriteFile(f, data); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(3) == 0 {
			step()
		}
	}
	w.close()
	e, logged, err := tryOpenOn(copied)
	if err != nil {
		t.Logf("seed %d: refused: %v", seed, err)
		return
	}
	for name, f := range w.topics {
		topic, err := e.Topic(name)
		if err != nil {
			if logged.first("level=ERROR") == "" {
				t.Errorf("seed %d: topic %s: %v, and the log says nothing", seed, name, err)
			}
			continue
		}
		for i := range topic.Partitions() {
			checkCopy(t, partOf(t, topic, i), f.part(i), fmt.Sprintf("seed %d, %s/%d", seed, name, i))
		}
	}
	if t.Failed() {
		t.Logf("the log says\n%s", logged.buf.String())
	}
	e.Close()
}

// checkCopy reads a partition of a copy: each offset from start to end holds what was
// published there, or is in a gap that the reader is told of.
func checkCopy(t *testing.T, p *varve.Partition, f *partFacts, when string) {
	t.Helper()
	if p.Err() != nil {
		return // refused, by an error
	}
	next := p.Start()
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		var gap *varve.CorruptError
		switch {
		case errors.As(err, &gap):
			next = gap.To
			continue
		case err != nil:
			t.Errorf("%s: %v", when, err)
			return
		case rec.Offset != next:
			t.Errorf("%s: offset %d behind %d, and nothing is said", when, rec.Offset, next-1)
		}
		if want := f.wrote[rec.Offset]; string(rec.Value) != want {
			t.Errorf("%s: offset %d holds %s, %s was published", when, rec.Offset, rec.Value, want)
		}
		next = rec.Offset + 1
	}
	if next != p.End() {
		t.Errorf("%s: reading ended at %d, the end is %d", when, next, p.End())
	}
	if off, err := p.Publish(context.Background(), text("more")); err != nil || off != next {
		t.Errorf("%s: the next record is at %d, %v", when, off, err)
	}
}

// A file of records, or of the journal, that was put back from an older copy of the
// directory is noticed: nothing wrong is read, what is missing is told of, and no offset
// is given out again. On level os a crash may have taken as much, and a line says what was
// cut.
func TestOlderFilesAreNoticed(t *testing.T) {
	clean, unclean, earlier := filled(t)
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "after a crash": unclean} {
		e, _ := openOn(t, disk.Clone())
		want := ask(t, e)
		mustClose(t, e)
		for _, file := range disk.Files() {
			old, err := earlier.ReadFile(file)
			if now, _ := disk.ReadFile(file); err != nil || string(old) == string(now) || !strings.HasSuffix(file, ".log") && path.Dir(file) != "wal" {
				continue
			}
			m := disk.Clone()
			if err := m.WriteFile(file, old); err != nil {
				t.Fatal(err)
			}
			e, logged := openOn(t, m)
			for part, a := range want {
				tp, number, _ := strings.Cut(part, "/")
				topic, err := e.Topic(tp)
				if err != nil {
					t.Fatal(err)
				}
				p := partOf(t, topic, int(number[0]-'0'))
				facts := &partFacts{wrote: map[varve.Offset]string{}}
				for _, rec := range a.records {
					var off varve.Offset
					var ts int64
					fmt.Sscan(rec, &off, &ts)
					facts.wrote[off] = strings.TrimSuffix(strings.SplitN(rec, " ", 3)[2], " <nil>")
				}
				cut := name != "clean" && tp == "o" && p.End() < a.end && logged.first("level=WARN") != "" // as a crash may
				if !cut && p.End() != a.end || p.Start() != a.start {
					t.Errorf("%s, an older %s: %s is [%d, %d), it was [%d, %d)\n%s", name, file, part, p.Start(), p.End(), a.start, a.end, logged.buf.String())
				}
				checkCopy(t, p, facts, fmt.Sprintf("%s, an older %s, %s", name, file, part))
			}
			mustClose(t, e)
		}
	}
}
