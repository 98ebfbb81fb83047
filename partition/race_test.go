package partition_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// crew is a journal and a runner with goroutines of its own.
type crew struct{ sync.WaitGroup }

func (c *crew) Commit(l *partition.Log)       { c.Go(func() { l.SyncRound() }) }
func (c *crew) Settle(l *partition.Log) error { return l.SyncRound() }
func (c *crew) Drain(l *partition.Log)        { c.Go(l.Drain) }
func (c *crew) Tidy(l *partition.Log)         { c.Go(func() { l.Tidy() }) }

// busy is a log that many goroutines use.
type busy struct {
	*partition.Log
	t    testing.TB
	crew *crew
	said lines
	cfg  partition.Config
}

func newBusy(t testing.TB, fsys vfs.FS, cfg partition.Config, files int) *busy {
	t.Helper()
	check(t, partition.Create(fsys, dir))
	b := &busy{t: t, crew: new(crew), cfg: cfg}
	log, err := partition.Open(partition.Env{
		FS: fsys, Files: segment.NewFiles(files), Journal: b.crew, Runner: b.crew,
		Logger: slog.New(slog.NewTextHandler(&b.said, nil)), Now: func() int64 { return time.Now().UnixMilli() },
	}, "t/0", dir, cfg, &partition.Checkpoint{}, nil, new(partition.Claimed))
	check(t, err)
	b.Log = log
	return b
}

// publish appends values and waits for them.
func (b *busy) publish(set func(*partition.Append), vals ...string) (offset, error) {
	done := make(chan struct{})
	a := &partition.Append{
		Records: recordsOf(vals), Size: record.BatchOverhead + 100*len(vals), Expect: -1,
		Done: func(*partition.Append) { close(done) },
	}
	if set != nil {
		set(a)
	}
	if len(vals)%2 == 0 {
		b.Enqueue(a)
	} else {
		b.Append(a)
	}
	<-done
	return a.Base, a.Err
}

// TestConcurrentPublishers has publishers, readers, rolls, trims, retention, tidying,
// checkpoints and lookups at work at the same time. Offsets are given out once and
// without a gap, each record is read where its publisher was told, the ends never go
// back, and a reader is told of no loss but that of a trim. (KAFKA-2236,
// redpanda#21324, redpanda#1826 are such reports.)
func TestConcurrentPublishers(t *testing.T) {
	for _, level := range []partition.Level{partition.Fsync, partition.OS} {
		t.Run(level.String(), func(t *testing.T) {
			cfg := small(level)
			cfg.SegmentBytes, cfg.SegmentAge, cfg.Index.Interval = 2000, time.Millisecond, 100
			disk := vfs.NewMem()
			b := newBusy(t, disk, cfg, 8) // fewer files than segments
			acked := publishers(b, 6, 150)
			b.crew.Wait()
			end := b.End()
			if int(end) != len(acked) {
				t.Errorf("%d records were acknowledged, the end is %d", len(acked), end)
			}
			entries, err := read(b.Log, b.Start())
			check(t, err)
			for _, e := range entries {
				if acked[e.off] != e.val {
					t.Errorf("offset %d holds %s, its publisher was told of %s", e.off, e.val, acked[e.off])
				}
			}
			if len(entries) != int(end-b.Start()) {
				t.Errorf("%d records are read of [%d, %d)", len(entries), b.Start(), end)
			}
			if _, err := b.Close(); err != nil {
				t.Error(err)
			}
			b.crew.Wait()
			if found := b.said.with("level=ERROR"); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}

// publishers has n goroutines publish while others disturb, and returns what they
// were told.
func publishers(b *busy, n, times int) map[offset]string {
	var mu sync.Mutex
	acked := map[offset]string{}
	stop := make(chan struct{})
	var others sync.WaitGroup
	disturb(b, stop, &others)
	var all sync.WaitGroup
	for p := range n {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), 5))
			last := offset(-1)
			for i := range times {
				var vals []string
				for k := range 1 + rng.IntN(4) {
					vals = append(vals, fmt.Sprintf("publisher %d, %d.%d", p, i, k))
				}
				set := func(a *partition.Append) {
					switch rng.IntN(4) {
					case 0:
						a.Batch, a.Records = batchOf(record.Snappy, vals...), nil
					case 1:
						a.Codec = record.LZ4
					case 2:
						a.Expect = b.LogEnd() // often true
					}
				}
				base, err := b.publish(set, vals...)
				var conflict *partition.ConflictError
				if errors.As(err, &conflict) {
					continue
				}
				if err != nil {
					b.t.Errorf("publisher %d: %v", p, err)
					return
				}
				if base <= last {
					b.t.Errorf("publisher %d got offset %d behind %d", p, base, last)
				}
				last = base
				mu.Lock()
				for k, v := range vals {
					if old, ok := acked[base+offset(k)]; ok {
						b.t.Errorf("offset %d was given to %s and to %s", base+offset(k), old, v)
					}
					acked[base+offset(k)] = v
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	close(stop)
	others.Wait()
	return acked
}

// disturb does everything else there is to do with a log, until stop.
func disturb(b *busy, stop chan struct{}, wg *sync.WaitGroup) {
	again := func(f func(rng *rand.Rand)) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(9, rand.Uint64()))
			for {
				select {
				case <-stop:
					return
				default:
					f(rng)
				}
			}
		})
	}
	for range 3 { // readers that follow the tail
		wg.Go(func() { follow(b, stop) })
	}
	again(func(rng *rand.Rand) { // a reader of any offset
		start, end := b.Start(), b.End()
		if end == start {
			return
		}
		from := start + offset(rng.Int64N(int64(end-start)))
		var out *partition.OutOfRangeError
		var c partition.Cursor
		if _, err := b.Read(nil, 1, from, &c); err != nil && !errors.As(err, &out) {
			b.t.Errorf("read at %d: %v", from, err)
		}
	})
	var high offset
	again(func(*rand.Rand) { // ends
		end, durable := b.End(), b.DurableEnd()
		if end < high || b.Start() > b.End() || durable > b.LogEnd() {
			b.t.Errorf("the ends are %d, durable %d, log %d, start %d; the end was %d", end, durable, b.LogEnd(), b.Start(), high)
		}
		high = end
		b.Stats()
		if _, _, err := b.FindTime(1002, 0); err != nil {
			b.t.Errorf("time: %v", err)
		}
	})
	again(func(rng *rand.Rand) { // trims, rolls, retention
		var err error
		switch rng.IntN(4) {
		case 0:
			_, err = b.Trim(max(b.End()-offset(rng.IntN(40)), 0))
		case 1:
			_, err = b.Retain()
		case 2:
			err = b.RollIfDue()
		case 3:
			cfg := b.cfg
			cfg.RetentionBytes = int64(rng.IntN(8000))
			err = b.Configure(cfg)
		}
		if err != nil {
			b.t.Errorf("%v", err)
		}
		time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
	})
	again(func(*rand.Rand) {
		if _, err := b.Snapshot(); err != nil {
			b.t.Errorf("checkpoint: %v", err)
		}
		b.Tidy()
		time.Sleep(time.Millisecond)
	})
}

// follow reads on from the end, waiting for more, and minds that nothing is left out.
func follow(b *busy, stop chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	next := b.End()
	var c partition.Cursor
	for {
		chunk, err := b.Read(nil, 3000, next, &c)
		var out *partition.OutOfRangeError
		switch {
		case errors.As(err, &out) && out.Start > next:
			next = out.Start
			continue
		case err != nil:
			b.t.Errorf("a reader at %d: %v", next, err)
			return
		case len(chunk.Data) == 0:
			if b.Wait(ctx, next) != nil {
				return
			}
			continue
		}
		entries, err := decode(chunk.Data)
		if err != nil {
			b.t.Errorf("a reader at %d: %v", next, err)
			return
		}
		for _, e := range entries {
			if e.off < next {
				continue // the chunk began inside a batch
			}
			if e.off != next {
				b.t.Errorf("a reader got offset %d, expected %d", e.off, next)
			}
			next = e.off + 1
		}
		next = max(next, chunk.Next)
	}
}

// Readers take no lock that an appender, a sync or a trim holds: while one of them
// is held inside the disk, readers of sealed segments, of the active one, at the
// tail, by time and of the ends do a fixed amount of reading.
func TestReadersGoOnWhileTheDiskHolds(t *testing.T) {
	append := func(b *busy) { b.publish(nil, "held") }
	for name, c := range map[string]struct {
		kind vfs.OpKind
		do   func(b *busy) // again and again until it is held
	}{
		"an append":    {vfs.OpWrite, append},
		"a sync":       {vfs.OpSync, append},
		"a roll":       {vfs.OpCreate, append},
		"a new name":   {vfs.OpSyncDir, append},
		"a trim":       {vfs.OpWrite, func(b *busy) { b.Trim(b.Start() + 1) }},
		"a deletion":   {vfs.OpRemove, func(b *busy) { b.Trim(b.Start() + 1) }},
		"a checkpoint": {vfs.OpSync, func(b *busy) { append(b); b.Snapshot() }},
		"a change of level": {vfs.OpSync, func(b *busy) {
			weak := b.cfg
			weak.Level = partition.OS
			b.Configure(weak)
			append(b)
			b.Configure(b.cfg)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			gate, held := make(chan struct{}), make(chan struct{})
			fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
				if op.Kind == c.kind && armed.CompareAndSwap(true, false) {
					close(held)
					return vfs.Fault{Block: gate}
				}
				return vfs.Fault{}
			})
			cfg := small(partition.Fsync)
			cfg.SegmentBytes = 400
			b := newBusy(t, fsys, cfg, 64)
			for range 12 {
				if _, err := b.publish(nil, "before"); err != nil {
					t.Fatal(err)
				}
			}
			b.crew.Wait()
			warm, err := read(b.Log, 0) // opens the files
			check(t, err)
			armed.Store(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				for armed.Load() {
					c.do(b)
				}
			}()
			<-held
			end, w := b.End(), partition.NewWaiter()
			b.Park(w, end)
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for range 200 {
						got, err := read(b.Log, b.Start())
						if err != nil || len(got) < int(end-b.Start()) {
							t.Errorf("a reader got %d of %d records: %v", len(got), len(warm), err)
							return
						}
						var c partition.Cursor
						if chunk, err := b.Read(nil, 100, b.End(), &c); err != nil || len(chunk.Data) > 0 && b.End() == end {
							t.Errorf("at the end there are %d bytes (%v)", len(chunk.Data), err)
						}
						if _, _, err := b.FindTime(1000, 0); err != nil {
							t.Error(err)
						}
						b.DurableEnd()
						b.LogEnd()
						b.Counters()
					}
				})
			}
			readers.Wait() // would not return if a reader needed what is held
			select {
			case <-w.C:
				if b.End() == end {
					t.Error("a reader at the tail was woken and there is nothing new")
				}
			default:
			}
			close(gate)
			<-done
			b.crew.Wait()
			if _, err := b.Close(); err != nil {
				t.Error(err)
			}
			b.crew.Wait()
		})
	}
}

// Publishers of weaker levels go on while a sync is held. (oxia#1160, KAFKA-9693)
func TestWeakPublishersGoOnWhileASyncHolds(t *testing.T) {
	var armed atomic.Bool
	gate := make(chan struct{})
	fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
		if armed.Load() && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) {
			return vfs.Fault{Block: gate}
		}
		return vfs.Fault{}
	})
	b := newBusy(t, fsys, small(partition.OS), 64)
	b.publish(nil, "before")
	b.crew.Wait()
	armed.Store(true)
	durable := make(chan error)
	go func() {
		_, err := b.publish(durably, "durable")
		durable <- err
	}()
	for i := range 50 { // over many rolls
		if _, err := b.publish(nil, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := read(b.Log, 0); err != nil || len(got) < 51 {
		t.Errorf("%d records are read (%v)", len(got), err)
	}
	select {
	case err := <-durable:
		t.Errorf("a sync is held and a durable publish was told %v", err)
	default:
	}
	armed.Store(false)
	close(gate)
	if err := <-durable; err != nil {
		t.Error(err)
	}
	b.crew.Wait()
}

// Whatever is below the published end can be read at once, while segments are
// rolled, at each level.
func TestPublishedIsReadable(t *testing.T) {
	for _, level := range []partition.Level{partition.Fsync, partition.Interval, partition.OS} {
		t.Run(level.String(), func(t *testing.T) {
			cfg := small(level)
			cfg.SegmentBytes = 200
			b := newBusy(t, vfs.NewMem(), cfg, 64)
			var stop atomic.Bool
			var readers sync.WaitGroup
			for range 2 {
				readers.Go(func() {
					buf := make([]byte, 0, 4096)
					for from := offset(0); !stop.Load(); {
						end := b.End()
						if from == end {
							continue
						}
						chunk, err := b.Read(buf, 1, from, new(partition.Cursor))
						if err != nil || chunk.Next <= from {
							t.Errorf("below the end %d, %d cannot be read: next %d, %v", end, from, chunk.Next, err)
							return
						}
						from = chunk.Next
					}
				})
			}
			n := 5000
			if raceEnabled {
				n /= thin()
			}
			if level == partition.Fsync {
				n /= 10
			}
			for range n {
				if _, err := b.publish(nil, "x"); err != nil {
					t.Fatal(err)
				}
			}
			stop.Store(true)
			readers.Wait()
			b.crew.Wait()
			b.Close()
			b.crew.Wait()
		})
	}
}
