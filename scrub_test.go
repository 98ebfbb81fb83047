package varve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// The scrub finds what was damaged since it was written, in every partition, sealed
// and active, tells of it once a pass, forgets it when it is mended, and counts as
// no reader. While it is off, nothing is read.
func TestScrubFindsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		e, logged := openOn(t, disk)
		defer mustClose(t, e)
		topic, err := e.CreateTopic("t", varve.TopicConfig{Partitions: 3, Config: config("segment.bytes=1000", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			p, _ := topic.Partition(i)
			for n := range 20 {
				if _, err := p.Publish(context.Background(), text("value %d of partition %d %s", n, i, strings.Repeat("x", 100))); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(2 * time.Minute)
		whole := e.Scrub()
		if whole.Passes != 1 || len(whole.Faults) > 0 || whole.LastPass.IsZero() || whole.Bytes < 3*20*100 {
			t.Fatalf("after a pass: %+v", whole)
		}
		type hit struct {
			file string
			pos  int64
		}
		hits := []hit{{"topics/t/1/00000000000000000000.log", 100}}
		p, _ := topic.Partition(2)
		segments := p.Stats().Segments
		active := segments[len(segments)-1]
		hits = append(hits, hit{fmt.Sprintf("topics/t/2/%020d.log", active.Base), 100})
		for _, h := range hits {
			if err := disk.FlipBit(h.file, 8*h.pos); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		found := e.Scrub()
		var files []string
		for _, f := range found.Faults {
			files = append(files, strings.TrimPrefix(f.Path, "mem:/"))
			if f.At != 0 || f.To != f.From+1 {
				t.Errorf("found %+v", f)
			}
		}
		if found.Passes < 2 || !slices.Equal(files, []string{hits[0].file, hits[1].file}) {
			t.Errorf("found %v in %d passes", files, found.Passes)
		}
		if logged.first("scrub found damage") == "" {
			t.Error("the log says nothing")
		}
		if reads := p.Stats().Counters.Reads; reads != 0 {
			t.Errorf("%d reads are counted", reads)
		}
		for _, h := range hits {
			if err := disk.FlipBit(h.file, 8*h.pos); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		if left := e.Scrub().Faults; len(left) > 0 {
			t.Errorf("after it was mended: %v", left)
		}
	})
}

// Its pace is what it was told; retention that is faster, topics that go and come, and
// the end of the engine do not disturb it.
func TestScrubKeepsItsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := vfs.NewMem()
		e, err := varve.OpenFS(r, varve.Options{Logger: silent(), ScrubRate: 1000, RetentionInterval: time.Hour, JournalBytes: smallJournal})
		if err != nil {
			t.Fatal(err)
		}
		a, b := mustTopic(t, e, "a"), mustTopic(t, e, "b")
		fill(t, a, "a", 1000)
		fill(t, b, "b", 10)
		time.Sleep(time.Minute)
		start := time.Now()
		synctest.Wait()
		before := e.Scrub().Bytes
		time.Sleep(100 * time.Second)
		if read := e.Scrub().Bytes - before; read > 100_000+2*256<<10 {
			t.Errorf("%d bytes in %v at 1000 a second", read, time.Since(start))
		}
		p, _ := a.Partition(0)
		if _, err := p.Trim(900); err != nil {
			t.Fatal(err)
		}
		if err := e.DeleteTopic("b"); err != nil {
			t.Fatal(err)
		}
		fill(t, mustTopic(t, e, "c"), "c", 10)
		time.Sleep(10 * time.Hour)
		if s := e.Scrub(); s.Passes == 0 || len(s.Faults) > 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, e)

		e, err = varve.OpenFS(r, varve.Options{Logger: silent(), ScrubRate: -1, JournalBytes: smallJournal})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := e.Scrub(); s.Bytes != 0 || s.Passes != 0 {
			t.Errorf("it is off: %+v", s)
		}
		mustClose(t, e)
	})
}
