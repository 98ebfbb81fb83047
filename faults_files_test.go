package varve_test

import (
	"bytes"
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

// twoStops is a directory of three topics, stopped cleanly and killed, and as it was at a
// stop before half of the records were published.
func twoStops(t *testing.T) (clean, killed, earlier *vfs.Mem) {
	disk := vfs.NewMem()
	half := func() *varve.Engine {
		e, _ := openOn(t, disk)
		for name, set := range map[string][]string{
			"os": {"durability=os", "segment.bytes=1000"}, "fsync": {"segment.bytes=1000"}, "one-segment": {"segment.bytes=100000"},
		} {
			topic, err := e.EnsureTopic(name, varve.TopicConfig{Config: config(append(set, "retention.ms=-1")...)})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, topic, fmt.Sprint(name, partOf(t, topic, 0).End()), 7)
		}
		return e
	}
	mustClose(t, half())
	earlier = disk.Clone()
	e := half()
	killed = disk.Clone()
	mustClose(t, e)
	return disk, killed, earlier
}

// A file of records, or of the journal, that was put back from an older copy of the
// directory is noticed: nothing wrong is read, what is missing is told of, and no offset
// is given out again. On level os a crash may have taken as much, and a line says what was
// cut.
func TestOlderFilesAreNoticed(t *testing.T) {
	clean, killed, earlier := twoStops(t)
	tried := 0
	for name, disk := range map[string]*vfs.Mem{"clean": clean, "killed": killed} {
		e, _ := openOn(t, disk.Clone())
		facts := map[string]*partFacts{}
		for _, topic := range e.Topics() {
			f := &partFacts{wrote: map[varve.Offset]string{}}
			for off, val := range valuesOf(t, partOf(t, topic, 0)) {
				f.wrote[varve.Offset(off)] = val
			}
			facts[topic.Name()] = f
		}
		mustClose(t, e)
		for _, file := range disk.Files() {
			old, err := earlier.ReadFile(file)
			if now, _ := disk.ReadFile(file); err != nil || bytes.Equal(old, now) || !strings.HasSuffix(file, ".log") && path.Dir(file) != "wal" {
				continue
			}
			tried++
			m := disk.Clone()
			if err := m.WriteFile(file, old); err != nil {
				t.Fatal(err)
			}
			e, logged := openOn(t, m)
			for topic, f := range facts {
				p := partOf(t, mustTopic(t, e, topic), 0)
				when := fmt.Sprintf("%s, an older %s, topic %s", name, file, topic)
				cut := name == "killed" && topic == "os" && p.End() < 14 && logged.first("level=WARN") != ""
				if !cut && p.End() != 14 {
					t.Errorf("%s: the end is %d\n%s", when, p.End(), logged.buf.String())
				}
				checkCopy(t, p, f, when)
			}
			mustClose(t, e)
		}
	}
	if tried < 6 {
		t.Errorf("%d files were there before and are others now", tried)
	}
}
