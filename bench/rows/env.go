package rows

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/report"
)

// Row is one benchmark: a table with its verdicts.
type Row struct {
	Name  string
	Quick bool // is among those that a change is most likely to spoil
	Run   func(*Env) (*report.Table, error)
}

// All are the rows, in the order of the page.
var All = []Row{
	{"floor", true, floorRow},
	{"append", true, appendRow},
	{"append-async", true, appendAsyncRow},
	{"append-single", false, appendSingleRow},
	{"durable-shared", true, durableSharedRow},
	{"durable-peers", false, durablePeersRow},
	{"durable-batch", false, durableBatchRow},
	{"read", true, readRow},
	{"read-zstd", false, readSharedRow},
	{"tail", true, tailRow},
	{"durable-latency", true, durableLatencyRow},
	{"push", true, pushRow},
	{"push-groups", false, pushGroupsRow},
	{"commit", true, commitRow},
	{"rebalance", true, rebalanceRow},
	{"random", false, randomRow},
	{"open-clean", false, openCleanRow},
	{"open-killed", false, openKilledRow},
	{"memory", false, memoryRow},
	{"allocations", true, allocationsRow},
	{"goroutines", true, goroutinesRow},
}

// Env is how rows are run.
type Env struct {
	Dir    string  // empty, on the disk that is measured
	Rounds int     // of every comparison
	Scale  float64 // of sizes and times; 1 is the whole
	Quick  bool    // fewer contenders
	Watch  measure.Watch
	Log    io.Writer // told what goes on
}

// size scales a number of things, of which at least least are needed.
func (e *Env) size(n, least int) int { return max(least, int(float64(n)*e.Scale)) }

// span scales the time of one run.
func (e *Env) span() time.Duration {
	if e.Quick {
		return 120 * time.Millisecond
	}
	return max(100*time.Millisecond, time.Duration(e.Scale*float64(time.Second)))
}

func (e *Env) rounds(all ...measure.Contender) (measure.Samples, error) {
	return measure.Rounds(e.Dir, e.Rounds, all, e.Watch)
}

// The records of all rows that do not say otherwise: 100 bytes, in batches of 100.
const (
	recordBytes  = 100
	batchRecords = 100
)

// values are n values of size bytes: text-like, no two alike, the same in every run.
func values(n, size int) [][]byte {
	words := []string{"alpha ", "bravo ", "charlie ", "delta ", "echo ", "foxtrot ", "golf ", "hotel "}
	all := make([][]byte, n)
	x := uint64(1)
	for i := range all {
		v := make([]byte, 0, size+8)
		for len(v) < size {
			x = x*6364136223846793005 + 1442695040888963407
			v = append(v, words[x>>61]...)
			v = append(v, byte('0'+x>>32%10))
		}
		all[i] = v[:size:size]
	}
	return all
}

// batches are the batches of the rows, which contenders go round: 320 KB, more than a
// first-level cache holds, so that none gets what is at hand for having just had it.
func batches() [][][]byte {
	return slices.Collect(slices.Chunk(values(32*batchRecords, recordBytes), batchRecords))
}

// each makes what a contender takes of every batch.
func each[T any](all [][][]byte, of func([][]byte) T) []T {
	out := make([]T, len(all))
	for i, batch := range all {
		out[i] = of(batch)
	}
	return out
}

// turns goes round all.
func turns[T any](all []T) func() T {
	i := -1
	return func() T {
		i = (i + 1) % len(all)
		return all[i]
	}
}

// joined is a batch for the floor, which knows of no records.
func joined(batch [][]byte) []byte { return bytes.Join(batch, nil) }

func recordsOf(batch [][]byte) []varve.Record {
	recs := make([]varve.Record, len(batch))
	for i, v := range batch {
		recs[i].Value = v
	}
	return recs
}

// atLevel is the configuration of a topic of a level.
func atLevel(level varve.Durability) map[string]string {
	return map[string]string{"durability": level.String()}
}

// quiet are the default options, without lines on standard error.
func quiet() varve.Options { return varve.Options{Logger: slog.New(slog.DiscardHandler)} }

// withTopic opens an engine, makes a topic, calls f and closes the engine.
func withTopic(dir string, o varve.Options, c varve.TopicConfig, f func(*varve.Topic) error) error {
	e, err := varve.Open(dir, o)
	if err != nil {
		return err
	}
	t, err := e.CreateTopic("bench", c)
	if err == nil {
		err = f(t)
	}
	return errors.Join(err, e.Close())
}

// withPartition is withTopic for one partition.
func withPartition(dir string, level varve.Durability, f func(*varve.Partition) error) error {
	return withTopic(dir, quiet(), varve.TopicConfig{Config: atLevel(level)}, func(t *varve.Topic) error {
		p, err := t.Partition(0)
		if err != nil {
			return err
		}
		return f(p)
	})
}

// fill publishes n records in batches.
func fill(p *varve.Partition, n int) error {
	next := turns(each(batches(), recordsOf))
	for done := 0; done < n; done += batchRecords {
		if _, err := p.Publish(context.Background(), next()...); err != nil {
			return err
		}
	}
	return nil
}

// warmUp is how often something is done before it is timed.
const warmUp = 20

// rate calls do, which does n things, for a time, and returns things a second.
func rate(span time.Duration, n int, do func() error) (measure.Figures, error) {
	return rateUntil(span, n, do, func() error { return nil })
}

// rateUntil is rate for what is done later than do returns: the clock stops when finish,
// which waits for it, has returned.
func rateUntil(span time.Duration, n int, do, finish func() error) (measure.Figures, error) {
	for range warmUp {
		if err := do(); err != nil {
			return nil, err
		}
	}
	begin, calls := time.Now(), 0
	for ; calls == 0 || time.Since(begin) < span; calls += 8 {
		for range 8 { // the clock is read seldom
			if err := do(); err != nil {
				return nil, err
			}
		}
	}
	err := finish()
	return measure.Figures{"rec/s": float64(calls*n) / time.Since(begin).Seconds()}, err
}
