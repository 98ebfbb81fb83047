package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// memoryRow looks at a process with many segments, partitions and readers, after every
// hour of a day that a clock of its own plays through.
func memoryRow(e *Env) (*report.Table, error) {
	topics := e.size(1000, 10)
	readers := e.size(1000, 100)
	const hours = 24
	var flat, most, first []float64
	held := measure.Contender{Name: "varve", Run: func(dir string) (measure.Figures, error) {
		if err := manySegments(dir, topics, 10, 10); err != nil {
			return nil, err
		}
		all, err := inChild("hold-memory", dir, strconv.Itoa(readers), strconv.Itoa(hours))
		if err != nil {
			return nil, err
		}
		first = append(first, all[0])
		early, late := measure.Of(all[hours/4:hours/2]), measure.Of(all[len(all)-hours/4:])
		flat = append(flat, late.Median/early.Median)
		most = append(most, measure.Of(all).Max)
		return measure.Figures{"last": all[len(all)-1]}, nil
	}}
	rounds := *e
	rounds.Rounds = 1 // a day is long
	s, err := rounds.rounds(held)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "memory", Title: "Memory",
		Text: fmt.Sprintf("A process of its own opens %d partitions with %d segments, places %d readers, and plays 24 hours on a clock of its own (Clock set): each hour every partition takes records, every reader reads on, and retention (retention.ms of six hours) removes what is old. Anonymous resident memory beyond that of the process before Open, after a collection, at the end of every hour.", topics*10, topics*100, readers)}
	t.Figures = append(t.Figures,
		report.Figure{Who: "after the first hour", Unit: "MiB", Spread: scaled(measure.Of(first), 1.0/(1<<20))},
		report.Figure{Who: "at most", Unit: "MiB", Spread: scaled(measure.Of(most), 1.0/(1<<20))})
	t.Add(s, "last", "MiB, after a day", 1.0/(1<<20), "varve")
	t.AtMost("/flat", "times the second quarter of the day in the last", measure.Of(flat), 1.1)
	t.AtMost("/resident", "MiB", scaled(measure.Of(most), 1.0/(1<<20)), 128)
	return t, nil
}

func scaled(s measure.Spread, by float64) measure.Spread {
	s.Median, s.Min, s.Max = s.Median*by, s.Min*by, s.Max*by
	return s
}

// holdMemory plays a number of hours. Arguments: directory, readers, hours.
func holdMemory(args []string, out io.Writer) error {
	readers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	hours, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	before, err := resident()
	if err != nil {
		return err
	}
	var ahead atomic.Int64
	o := quiet()
	o.CacheBytes = -1 // its bound is an option: what is asked for is what comes on top
	o.Clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	eng, err := varve.Open(args[0], o)
	if err != nil {
		return err
	}
	d := &day{eng: eng}
	if err := d.begin(readers); err != nil {
		return errors.Join(err, eng.Close())
	}
	for range hours {
		ahead.Add(int64(time.Hour))
		if err := d.hour(); err != nil {
			return errors.Join(err, eng.Close())
		}
		now, err := resident()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, now-before)
	}
	return eng.Close()
}

// day is an engine under load.
type day struct {
	eng        *varve.Engine
	partitions []*varve.Partition
	readers    []*varve.Reader
}

func (d *day) begin(readers int) error {
	for _, t := range d.eng.Topics() {
		if err := t.Alter(map[string]string{"retention.ms": strconv.Itoa(6 * 3600 * 1000)}); err != nil {
			return err
		}
		for i := range t.Partitions() {
			p, err := t.Partition(i)
			if err != nil {
				return err
			}
			d.partitions = append(d.partitions, p)
		}
	}
	for i := range readers {
		r, err := d.partitions[i%len(d.partitions)].Reader(varve.Earliest())
		if err != nil {
			return err
		}
		d.readers = append(d.readers, r)
	}
	return nil
}

func (d *day) hour() error {
	batch := recordsOf(values(9, recordBytes)) // a segment each
	for range 2 {
		for _, p := range d.partitions {
			if _, err := p.Publish(context.Background(), batch...); err != nil {
				return err
			}
		}
	}
	for _, r := range d.readers {
		for ok := true; ok; {
			var gone *varve.OutOfRangeError
			var err error
			if _, ok, err = r.Poll(); errors.As(err, &gone) {
				ok = true // retention was faster, and the reader goes on behind
			} else if err != nil {
				return err
			}
		}
	}
	return d.eng.RunRetention()
}
