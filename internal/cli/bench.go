package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
)

const (
	benchBatch   = 100 // records that a caller at level os publishes at once
	benchCallers = 64  // that wait for durable publishes at the same time

	benchMostBytes = 10_000 // of a record: a batch stays below max.message.bytes
)

// benchReport is the output of bench --json.
type benchReport struct {
	Dir         string       `json:"dir"`
	RecordBytes int          `json:"record_bytes"`
	Rates       []benchRate  `json:"rates"`
	Latency     benchLatency `json:"latency"`
}

// benchRate is how fast something went, at a level of durability.
type benchRate struct {
	What       string  `json:"what"`
	Durability string  `json:"durability"`
	Records    int64   `json:"records"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"records_per_second"`
}

// benchLatency is how long a caller waited who was alone.
type benchLatency struct {
	What       string        `json:"what"`
	Durability string        `json:"durability"`
	Publishes  int           `json:"publishes"`
	P50        float64       `json:"p50_us"`
	P90        float64       `json:"p90_us"`
	P99        float64       `json:"p99_us"`
	Max        float64       `json:"max_us"`
	Histogram  []benchBucket `json:"histogram"`
}

// benchBucket counts publishes that took less, and at least half of it, but for the first.
type benchBucket struct {
	Below     float64 `json:"below_us"`
	Publishes int     `json:"publishes"`
}

func (a *app) benchCommand() *cobra.Command {
	var span time.Duration
	var size int
	var asJSON bool
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this disk and this machine are",
		Long: `Measure, on the disk of the data directory: appends that the operating system has
(os), durable appends of 64 callers (fsync), a read of everything that was appended
first, checked and decoded, and how long one caller waits for a durable publish. Each
figure says its level of durability.

It works in a directory of its own below the data directory, which it removes again.
The data in there is not touched, and may be in use meanwhile; but whoever uses it
shares the disk. What is read was just written, and comes from memory where it fits.`,
		Example: `  varve bench --dir /mnt/disk/data
  varve bench --for 10s --record-bytes 1000 --json`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if span <= 0 {
				return usagef("--for %s: want a time above zero, such as 3s", span)
			}
			if size < 1 || size > benchMostBytes {
				return usagef("--record-bytes %d: want 1 to %d", size, benchMostBytes)
			}
			b := &bench{app: a, span: span, record: varve.Record{Value: benchValue(size)}}
			r, err := b.run(c.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(a.out, r)
			}
			return r.print(a.out)
		},
	}
	c.Flags().DurationVar(&span, "for", 3*time.Second, "`time` that each of the three appends takes")
	numberVar(c.Flags(), &size, "record-bytes", 100, "publish values of `N` bytes")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

// benchValue is text, so that no disk or file system finds it all zeros.
func benchValue(size int) []byte {
	const text = "a varve is one layer of lake sediment, laid down each year, never disturbed; "
	return []byte(strings.Repeat(text, size/len(text)+1)[:size])
}

// bench is one run of bench.
type bench struct {
	app    *app
	span   time.Duration
	record varve.Record
}

// run measures in a directory below the data directory, and removes what it has made.
func (b *bench) run(ctx context.Context) (r benchReport, err error) {
	home := b.app.dataDir()
	if _, err := os.Stat(home); errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(home, 0o755); err != nil {
			return r, err
		}
		defer os.Remove(home)
	}
	dir, err := os.MkdirTemp(home, "bench-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := varve.Open(dir, varve.Options{Logger: b.app.logger()})
	if err != nil {
		return r, err
	}
	r = benchReport{Dir: home, RecordBytes: len(b.record.Value)}
	err = b.measure(ctx, e, &r)
	return r, errors.Join(err, e.Close())
}

func (b *bench) measure(ctx context.Context, e *varve.Engine, r *benchReport) error {
	weak, err := onePartitionTopic(e, "weak", varve.OS)
	if err != nil {
		return err
	}
	durable, err := onePartitionTopic(e, "durable", varve.Fsync)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) (benchRate, error){
		func(ctx context.Context) (benchRate, error) { return b.appendBatches(ctx, weak) },
		func(ctx context.Context) (benchRate, error) { return b.read(ctx, weak) },
		func(ctx context.Context) (benchRate, error) { return b.appendDurable(ctx, durable) },
	} {
		rate, err := step(ctx)
		if sig := interrupted(ctx); sig != nil {
			return sig
		}
		if err != nil {
			return err
		}
		rate.PerSecond = float64(rate.Records) / rate.Seconds
		r.Rates = append(r.Rates, rate)
	}
	r.Latency, err = b.latency(ctx, durable)
	if sig := interrupted(ctx); sig != nil {
		return sig
	}
	return err
}

func onePartitionTopic(e *varve.Engine, name string, level varve.Durability) (*varve.Partition, error) {
	t, err := e.CreateTopic(name, varve.TopicConfig{Config: map[string]string{"durability": level.String()}})
	if err != nil {
		return nil, err
	}
	return t.Partition(0)
}

// appendBatches publishes batches, one after the other.
func (b *bench) appendBatches(ctx context.Context, p *varve.Partition) (benchRate, error) {
	rate := benchRate{What: fmt.Sprintf("append, batches of %d, one caller", benchBatch), Durability: varve.OS.String()}
	recs := slices.Repeat([]varve.Record{b.record}, benchBatch)
	bar := b.app.progress("append, "+rate.Durability, -1)
	defer bar.done()
	begin := time.Now()
	for n := 0; time.Since(begin) < b.span; n++ {
		if _, err := p.Publish(ctx, recs...); err != nil {
			return rate, err
		}
		rate.Records += benchBatch
		if n%64 == 0 {
			bar.add(64 * benchBatch * int64(len(b.record.Value)))
		}
	}
	rate.Seconds = time.Since(begin).Seconds()
	return rate, nil
}

// read reads back what a partition holds.
func (b *bench) read(ctx context.Context, p *varve.Partition) (benchRate, error) {
	rate := benchRate{What: "read, checked and decoded, one reader", Durability: varve.OS.String()}
	bar := b.app.progress("read", int64(p.End())*int64(len(b.record.Value)))
	defer bar.done()
	const step = 1 << 14
	begin := time.Now()
	for _, err := range p.Records(ctx, varve.Earliest()) {
		if err != nil {
			return rate, err
		}
		if rate.Records++; rate.Records%step == 0 {
			bar.add(step * int64(len(b.record.Value)))
			if err := interrupted(ctx); err != nil {
				return rate, err
			}
		}
	}
	rate.Seconds = time.Since(begin).Seconds()
	return rate, nil
}

// appendDurable publishes single records from many goroutines, each waiting for its own.
func (b *bench) appendDurable(ctx context.Context, p *varve.Partition) (benchRate, error) {
	rate := benchRate{What: fmt.Sprintf("append, single records, %d callers", benchCallers), Durability: varve.Fsync.String()}
	bar := b.app.progress("append, "+rate.Durability, -1)
	defer bar.done()
	var wg sync.WaitGroup
	counts, errs := make([]int64, benchCallers), make([]error, benchCallers)
	begin := time.Now()
	for i := range benchCallers {
		wg.Go(func() {
			for time.Since(begin) < b.span && errs[i] == nil {
				if _, errs[i] = p.Publish(ctx, b.record); errs[i] == nil {
					counts[i]++
					bar.add(int64(len(b.record.Value)))
				}
			}
		})
	}
	wg.Wait()
	rate.Seconds = time.Since(begin).Seconds()
	for _, n := range counts {
		rate.Records += n
	}
	return rate, errors.Join(errs...)
}

// latency publishes single records, one after the other.
func (b *bench) latency(ctx context.Context, p *varve.Partition) (benchLatency, error) {
	l := benchLatency{What: "publish of one record, one caller", Durability: varve.Fsync.String()}
	bar := b.app.progress("latency, "+l.Durability, -1)
	defer bar.done()
	var took []time.Duration
	for begin := time.Now(); time.Since(begin) < b.span || len(took) == 0; {
		sent := time.Now()
		if _, err := p.Publish(ctx, b.record); err != nil {
			return l, err
		}
		took = append(took, time.Since(sent))
		bar.add(int64(len(b.record.Value)))
	}
	l.sum(took)
	return l, nil
}

// sum fills in quantiles and histogram.
func (l *benchLatency) sum(took []time.Duration) {
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))]) / float64(time.Microsecond)
	}
	l.Publishes, l.P50, l.P90, l.P99, l.Max = len(took), at(0.5), at(0.9), at(0.99), at(1)
	for below := time.Microsecond; len(took) > 0; below *= 2 {
		n, _ := slices.BinarySearch(took, below)
		if n > 0 || len(l.Histogram) > 0 {
			l.Histogram = append(l.Histogram, benchBucket{float64(below / time.Microsecond), n})
		}
		took = took[n:]
	}
}

func (r *benchReport) print(out *output) error {
	t := newTable("WHAT", "DURABILITY", "RECORDS/S", "MB/S")
	for _, rate := range r.Rates {
		t.row(rate.What, rate.Durability, comma(rate.PerSecond), comma(rate.PerSecond*float64(r.RecordBytes)/1e6))
	}
	fmt.Fprintf(out, "in %s, records of %s\n\n", r.Dir, count(int64(r.RecordBytes), "byte"))
	if err := t.writeTo(out); err != nil {
		return err
	}
	l := r.Latency
	fmt.Fprintf(out, "\n%s, %s: %s\n", l.What, l.Durability, count(int64(l.Publishes), "time"))
	fmt.Fprintf(out, "p50 %s, p90 %s, p99 %s, max %s\n\n", micros(l.P50), micros(l.P90), micros(l.P99), micros(l.Max))
	h := newTable("BELOW", "PUBLISHES", "")
	for _, b := range l.Histogram {
		h.row(micros(b.Below), number(b.Publishes), strings.Repeat("#", (40*b.Publishes+l.Publishes-1)/l.Publishes))
	}
	return h.writeTo(out)
}

// number is a count that a table puts to the right.
type number int

func (n number) String() string { return humanize.Comma(int64(n)) }

func comma(v float64) number { return number(v + 0.5) }

// micros writes microseconds for people, with three digits that count.
func micros(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	for unit := time.Nanosecond; unit < time.Minute; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit).String()
		}
	}
	return d.Round(time.Second).String()
}
