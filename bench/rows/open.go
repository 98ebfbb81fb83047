package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// openCleanRow is an open after a clean stop, against a listing of the same directories.
func openCleanRow(e *Env) (*report.Table, error) {
	const partitions, segments = 10, 10
	topics := e.size(1000, 10)
	dir, err := os.MkdirTemp(e.Dir, "clean")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := manySegments(dir, topics, partitions, segments); err != nil {
		return nil, err
	}
	s, err := e.rounds(
		timed("varve", func() (func() error, error) {
			eng, err := varve.Open(dir, quiet())
			if err != nil {
				return nil, err
			}
			return eng.Close, nil
		}),
		timed("listing", func() (func() error, error) { return nil, list(filepath.Join(dir, "topics")) }),
	)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "open-clean", Title: "Open after a clean stop",
		Text: fmt.Sprintf("%d topics of %d partitions, %d segments (segment.bytes set), against the listing of their directories, one after the other.", topics, partitions, topics*partitions*segments)}
	t.Add(s, "s", "ms", 1000, "varve", "listing")
	t.AtMost("", "times a listing", s.Ratio("varve", "listing", "s"), 3)
	return t, nil
}

// manySegments makes topics whose every partition has so many segments, and stops cleanly.
func manySegments(dir string, topics, partitions, segments int) error {
	eng, err := varve.Open(dir, quiet())
	if err != nil {
		return err
	}
	config := atLevel(varve.OS)
	config["segment.bytes"] = "1024" // a batch of ten each
	batch := recordsOf(values(9, recordBytes))
	for i := range topics {
		t, err := eng.CreateTopic(fmt.Sprintf("topic-%04d", i), varve.TopicConfig{Partitions: partitions, Config: config})
		if err != nil {
			return errors.Join(err, eng.Close())
		}
		for n := range partitions * segments {
			p, err := t.Partition(n % partitions)
			if err == nil {
				_, err = p.Publish(context.Background(), batch...)
			}
			if err != nil {
				return errors.Join(err, eng.Close())
			}
		}
	}
	return eng.Close()
}

// timed is a contender whose time is that of do; what do returns is called after it.
func timed(name string, do func() (end func() error, err error)) measure.Contender {
	return measure.Contender{Name: name, Run: func(string) (measure.Figures, error) {
		begin := time.Now()
		end, err := do()
		took := time.Since(begin)
		if err == nil && end != nil {
			err = end()
		}
		return measure.Figures{"s": took.Seconds()}, err
	}}
}

// list reads all directories below dir.
func list(dir string) error {
	return filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err })
}

// openKilledRow is an open after kill -9: of a small log and of a large one, with as much
// in each that no checkpoint covers.
func openKilledRow(e *Env) (*report.Table, error) {
	large, small, rest := e.size(10<<30, 256<<20), e.size(1<<30, 32<<20), e.size(64<<20, 16<<20)
	killed := func(name string, covered, rest int) measure.Contender {
		return measure.Contender{Name: name, Run: func(dir string) (measure.Figures, error) {
			return afterKill(dir, covered, rest)
		}}
	}
	all := []measure.Contender{
		killed("small log", small, rest),
		killed("large log", large, rest),
		killed("small log, four times the rest", small, 4*rest),
	}
	rounds := *e
	rounds.Rounds = min(e.Rounds, 3) // each writes the whole log
	s, err := rounds.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "open-killed", Title: "Open after kill -9",
		Text: fmt.Sprintf("A topic of level os of %d MiB and one of %d MiB, stopped cleanly, opened again, and killed after %d MiB more, which no checkpoint covers.", small>>20, large>>20, rest>>20)}
	t.Add(s, "s", "ms", 1000, namesOf(all)...)
	t.AtMost("/size", "times the time for a tenth of the log", s.Ratio("large log", "small log", "s"), 1.5)
	t.AtMost("/rest", "times the time for a quarter of the rest", s.Ratio("small log, four times the rest", "small log", "s"), 5)
	return t, nil
}

func afterKill(dir string, covered, rest int) (measure.Figures, error) {
	err := withPartition(dir, varve.OS, func(p *varve.Partition) error { return fill(p, covered/(recordBytes+10)) })
	if err != nil {
		return nil, err
	}
	if _, err := inChild("fill-and-die", dir, strconv.Itoa(rest/(recordBytes+10))); err != nil {
		return nil, err
	}
	begin := time.Now()
	eng, err := varve.Open(dir, quiet())
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	return measure.Figures{"s": took.Seconds()}, eng.Close()
}

// fillAndDie publishes and is killed. Arguments: directory, number of records.
func fillAndDie(args []string, out io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	eng, err := varve.Open(args[0], quiet())
	if err != nil {
		return err
	}
	t, err := eng.Topic("bench")
	if err != nil {
		return err
	}
	p, err := t.Partition(0)
	if err != nil {
		return err
	}
	if err := fill(p, n); err != nil {
		return err
	}
	fmt.Fprintln(out, "dying")
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Kill()
}
