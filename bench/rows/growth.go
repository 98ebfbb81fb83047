package rows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/floor"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/plot"
	"github.com/varvelog/varve/bench/report"
)

// Growth draws how cost grows with the number of partitions, the size of the log, the
// number of readers and the size of a record.
func Growth(e *Env) ([]*report.Chart, error) {
	var charts []*report.Chart
	for _, draw := range []func(*Env) (*report.Chart, error){
		growthOfPartitions, growthOfLog, growthOfReaders, growthOfRecords,
	} {
		c, err := draw(e)
		if err != nil {
			return nil, err
		}
		charts = append(charts, c)
	}
	return charts, nil
}

// nanoseconds a thing, of so many a second.
func nanoseconds(rate float64) float64 { return 1e9 / rate }

// growthOfPartitions appends to partitions in turn, at level os and durable. Of more
// partitions than there may be open files (Options.OpenFiles) it opens one again and again.
func growthOfPartitions(e *Env) (*report.Chart, error) {
	batch := recordsOf(values(batchRecords, recordBytes))
	weak := plot.Line{Name: "os, batches of 100"}
	durable := plot.Line{Name: "fsync, 64 callers"}
	for _, n := range []int{1, 10, 100, 1000, 10_000} {
		dir, err := os.MkdirTemp(e.Dir, "growth")
		if err != nil {
			return nil, err
		}
		c := varve.TopicConfig{Partitions: n, Config: atLevel(varve.OS)}
		err = withTopic(filepath.Join(dir, "os"), quiet(), c, func(t *varve.Topic) error {
			all := make([]*varve.Partition, n)
			for i := range all {
				var err error
				if all[i], err = t.Partition(i); err != nil {
					return err
				}
			}
			if err := touch(all, batch[0]); err != nil {
				return err
			}
			next := turns(all)
			f, err := rate(e.span(), batchRecords, func() error {
				_, err := next().Publish(context.Background(), batch...)
				return err
			})
			weak.Points = append(weak.Points, plot.Point{X: float64(n), Y: nanoseconds(f["rec/s"])})
			return err
		})
		if err == nil {
			var own measure.Contender
			var f measure.Figures
			if own, err = e.durableContender(filepath.Join(dir, "durable"), n); err == nil {
				f, err = own.Run("")
			}
			durable.Points = append(durable.Points, plot.Point{X: float64(n), Y: nanoseconds(f["rec/s"])})
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, err
		}
	}
	return &report.Chart{Name: "partitions", Chart: plot.Chart{Title: "Cost of an append by number of partitions",
		X: "partitions", Y: "ns a record", Lines: []plot.Line{weak, durable}}}, nil
}

// growthOfLog appends to one log until it is large, in segments of a hundredth of the
// default size: so 10 GiB have as many segments as a tebibyte has by default.
func growthOfLog(e *Env) (*report.Chart, error) {
	dir, err := os.MkdirTemp(e.Dir, "growth")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	config := atLevel(varve.OS)
	config["segment.bytes"] = strconv.Itoa(10 << 20)
	line := plot.Line{Name: "varve"}
	err = withTopic(dir, quiet(), varve.TopicConfig{Config: config}, func(t *varve.Topic) error {
		p, err := t.Partition(0)
		if err != nil {
			return err
		}
		held := 0
		for next := 1 << 20; next <= e.size(10<<30, 64<<20); next *= 4 {
			n := (next - held) / (recordBytes + 10)
			r, err := measure.Rate(n, func() error { return fill(p, n) })
			if err != nil {
				return err
			}
			held = next
			line.Points = append(line.Points, plot.Point{X: float64(next >> 20), Y: nanoseconds(r)})
		}
		return nil
	})
	return &report.Chart{Name: "log", Chart: plot.Chart{Title: "Cost of an append by size of the log, segments of 10 MiB",
		X: "MiB in the log", Y: "ns a record", Lines: []plot.Line{line}}}, err
}

// growthOfReaders follows a log with more and more readers, while one caller publishes.
func growthOfReaders(e *Env) (*report.Chart, error) {
	appends := plot.Line{Name: "append"}
	delivered := plot.Line{Name: "record delivered"}
	for _, n := range []int{1, 10, 100, 1000} {
		dir, err := os.MkdirTemp(e.Dir, "growth")
		if err != nil {
			return nil, err
		}
		err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
			records, took, all, err := followed(p, n, max(10, e.size(20_000_000, 0)/n/batchRecords))
			appends.Points = append(appends.Points, plot.Point{X: float64(n), Y: float64(took) / float64(records)})
			delivered.Points = append(delivered.Points, plot.Point{X: float64(n), Y: float64(all) / float64(records*n)})
			return err
		})
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, err
		}
	}
	return &report.Chart{Name: "readers", Chart: plot.Chart{Title: "Cost by number of readers that follow",
		X: "readers", Y: "ns a record", Lines: []plot.Line{appends, delivered}}}, nil
}

// followed publishes batches to a log that n readers follow. It returns how many records
// they were, how long the appends took, and how long it was until all readers had all of
// them.
func followed(p *varve.Partition, n, batches int) (records int, appends, all time.Duration, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	end := make(chan varve.Offset, n)
	for range n {
		r, err := p.Reader(varve.Latest())
		if err != nil {
			return 0, 0, 0, err
		}
		wg.Go(func() {
			last := varve.Offset(-1)
			for {
				rec, err := r.Next(ctx)
				if err != nil {
					return
				}
				if last < 0 {
					select {
					case last = <-end:
					default:
					}
				}
				if last >= 0 && rec.Offset >= last {
					return
				}
			}
		})
	}
	batch := recordsOf(values(batchRecords, recordBytes))
	begin := time.Now()
	for range batches {
		if _, err := p.Publish(ctx, batch...); err != nil {
			return 0, 0, 0, err
		}
		records += len(batch)
	}
	appends = time.Since(begin)
	for range n {
		end <- p.End()
	}
	// One more batch, so that whoever has read everything looks once more.
	if _, err := p.Publish(ctx, batch...); err != nil {
		return 0, 0, 0, err
	}
	wg.Wait()
	return records + len(batch), appends, time.Since(begin), nil
}

// growthOfRecords appends records of other sizes, about 16 KiB a batch, or one record.
func growthOfRecords(e *Env) (*report.Chart, error) {
	lines := []plot.Line{{Name: "varve"}, {Name: "floor"}}
	for _, size := range []int{10, 100, 1000, 10_000, 100_000, 1_000_000} {
		batch := values(max(1, 16<<10/size), size)
		recs := recordsOf(batch)
		dir, err := os.MkdirTemp(e.Dir, "growth")
		if err != nil {
			return nil, err
		}
		var own, least measure.Figures
		err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
			own, err = rate(e.span(), len(batch)*size, func() error {
				_, err := p.Publish(context.Background(), recs...)
				return err
			})
			return err
		})
		if err == nil {
			var l *floor.Log
			if l, err = openFloor(dir, 0); err == nil {
				b := joined(batch)
				least, err = rate(e.span(), len(batch)*size, func() error { return l.Append(b) })
				err = errors.Join(err, l.File.Close())
			}
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, err
		}
		for i, f := range []measure.Figures{own, least} {
			lines[i].Points = append(lines[i].Points, plot.Point{X: float64(size), Y: f["rec/s"] / 1e6})
		}
	}
	return &report.Chart{Name: "records", Chart: plot.Chart{Title: "Throughput by size of a record, level os, batches of 16 KiB",
		X: "bytes a record", Y: "MB/s", Lines: lines}}, nil
}
