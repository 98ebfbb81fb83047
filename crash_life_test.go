package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// within fails the test, with all goroutines, when f takes for ever.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s does not end:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// Close ends everybody: readers that are parked, iterations that follow, publishers
// that wait for the disk, retention and checkpoints that are under way. Each is told
// the truth or ErrClosed, and nobody is left. (klevdb and nats-server#7771 are such
// reports.)
func TestCloseEndsEverybody(t *testing.T) {
	for round := range 20 {
		r := newRig(t, background)
		topic := r.topic("t", 3, "segment.bytes=500", "retention.bytes=2000")
		r.topic("o", 1, "durability=os", "segment.bytes=500")
		var busy sync.WaitGroup
		var closed atomic.Bool
		for i := range 3 {
			p := r.part("t", i)
			busy.Go(func() { // parked
				rd, err := p.Reader(varve.Latest())
				if err != nil {
					return
				}
				for err == nil {
					_, err = rd.Next(context.Background())
				}
				var lost *varve.OutOfRangeError
				if !errors.Is(err, varve.ErrClosed) && !errors.As(err, &lost) {
					t.Errorf("a reader is told %v", err)
				}
			})
			busy.Go(func() {
				for _, err := range p.Follow(context.Background(), varve.Earliest()) {
					var lost *varve.OutOfRangeError
					if err != nil && !errors.Is(err, varve.ErrClosed) && !errors.As(err, &lost) {
						t.Errorf("a follower is told %v", err)
					}
				}
			})
			busy.Go(func() {
				for k := 0; ; k++ {
					off, err := p.Publish(context.Background(), text("%d", k))
					if err != nil {
						if !errors.Is(err, varve.ErrClosed) {
							t.Errorf("a publisher is told %v", err)
						}
						return
					}
					r.note(p, off, text("%d", k))
				}
			})
		}
		pub := topic.Publisher(varve.PublisherOptions{MaxInFlight: 500})
		var told, asked atomic.Int64
		busy.Go(func() {
			for k := 0; ; k++ {
				rec := text("async %d", k)
				asked.Add(1)
				if err := pub.PublishAsync(context.Background(), rec, func(at varve.Place, err error) {
					told.Add(1)
					if err == nil {
						r.note(partOf(t, topic, int(at.Partition)), at.Offset, rec)
					}
				}); err != nil || told.Load() > 0 && closed.Load() {
					pub.Flush(context.Background())
					return
				}
			}
		})
		for _, f := range []func() error{
			r.engine.RunRetention,
			func() error { _, err := partOf(t, topic, 1).Trim(partOf(t, topic, 1).End()); return err },
		} {
			busy.Go(func() {
				for !closed.Load() {
					var out *varve.OutOfRangeError
					if err := f(); err != nil && !errors.Is(err, varve.ErrClosed) && !errors.As(err, &out) {
						t.Errorf("%v", err)
					}
				}
			})
		}
		time.Sleep(time.Duration(round) * time.Millisecond)
		within(t, "close", func() {
			if err := r.engine.Close(); err != nil {
				t.Error(err)
			}
		})
		closed.Store(true)
		within(t, "somebody", busy.Wait)
		if told.Load() != asked.Load() {
			t.Errorf("%d were published without waiting, %d told", asked.Load(), told.Load())
		}
		r.open()
		if err := r.topic("t", 3).Alter(config("retention.bytes=-1")); err != nil { // so that the book is read in peace
			t.Error(err)
		}
		if t.Failed() {
			return
		}
	}
}

// Any calls in any order from many goroutines, and Close at any moment: no deadlock,
// no panic, and what was acknowledged is there.
func TestAnyCallsAndClose(t *testing.T) {
	rounds := 30
	if testing.Short() || raceDetector {
		rounds = 6
	}
	for seed := range uint64(rounds) {
		r := newRig(t, background)
		r.topic("a", 2, "segment.bytes=400")
		r.topic("b", 1, "segment.bytes=400", "durability=os")
		e := r.engine
		var all sync.WaitGroup
		for g := range uint64(6) {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, g))
				for range 60 {
					anyCall(t, r, e, rng)
				}
			})
		}
		all.Go(func() {
			time.Sleep(time.Duration(seed) * time.Millisecond)
			within(t, "close", func() { e.Close() })
		})
		within(t, "a call", all.Wait)
		r.engine = nil
		// What was trimmed or deleted is not in the book's mind: only the reading is looked at.
		r.acked = nil
		r.open()
		for _, topic := range r.engine.Topics() {
			collect(t, topic.Records(context.Background(), varve.Earliest()))
		}
		r.close()
		if line := r.logged.first("level=ERROR"); line != "" {
			t.Errorf("seed %d: %s", seed, line)
		}
		r.loud = true
		if t.Failed() {
			return
		}
		r.disk = vfs.NewMem()
	}
}

func anyCall(t *testing.T, r *rig, e *varve.Engine, rng *rand.Rand) {
	name := string(rune('a' + rng.IntN(3)))
	topic, err := e.Topic(name)
	if err != nil {
		if errors.Is(err, varve.ErrNoTopic) {
			_, err = e.CreateTopic(name, varve.TopicConfig{Partitions: 1 + rng.IntN(2), Config: config("segment.bytes=400")})
			fine(t, err)
			return
		}
		fine(t, err)
		return
	}
	p, err := topic.Partition(rng.IntN(topic.Partitions()))
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(2000))*time.Microsecond)
	defer cancel()
	switch rng.IntN(12) {
	case 0:
		fine(t, e.RunRetention())
	case 1:
		_, err = p.Trim(p.End())
		fine(t, err)
	case 2:
		fine(t, topic.Alter(config([]string{"durability=os", "durability=fsync", "durability=interval"}[rng.IntN(3)])))
	case 3:
		fine(t, topic.AddPartitions(topic.Partitions()+1))
	case 4:
		if rng.IntN(4) == 0 {
			fine(t, e.DeleteTopic(name))
		}
	case 5:
		rd, err := topic.Reader(varve.Latest())
		if fine(t, err); err == nil {
			_, err = rd.Next(ctx)
			fine(t, err)
		}
	case 6:
		for range p.Backward(ctx, varve.Latest()) {
		}
		_, err = p.OffsetFor(ctx, time.Now().Add(-time.Second))
		fine(t, err)
	case 7:
		topic.Stats()
		e.Topics()
	default:
		_, err = p.Publish(ctx, text("%d", rng.Int()), text("more"))
		fine(t, err)
	}
}

// fine takes the errors that a call may have while others delete, trim and close.
func fine(t *testing.T, err error) {
	t.Helper()
	var out *varve.OutOfRangeError
	var cfg *varve.ConfigError
	switch {
	case err == nil, errors.Is(err, varve.ErrClosed), errors.Is(err, varve.ErrNoTopic), errors.Is(err, varve.ErrTopicExists),
		errors.Is(err, context.DeadlineExceeded), errors.As(err, &out), errors.As(err, &cfg):
	default:
		t.Errorf("%v", err)
	}
}

// The number of goroutines does not depend on how many topics, partitions and parked
// readers there are.
func TestGoroutinesAreConstant(t *testing.T) {
	count := func(topics, partitions, readers int) (engine, parked int) {
		r := newRig(t, background)
		before := fewestGoroutines()
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i := range topics {
			topic := r.topic(fmt.Sprint("t", i), partitions)
			for k := range partitions {
				r.publish(partOf(t, topic, k), text("x"))
			}
			for range readers / topics {
				rd, err := topic.Reader(varve.Latest())
				if err != nil {
					t.Fatal(err)
				}
				all.Go(func() { rd.Next(ctx) })
			}
		}
		after := fewestGoroutines()
		cancel()
		all.Wait()
		return after - before - readers/topics*topics, readers / topics * topics
	}
	count(1, 1, 1) // what is started once
	few, _ := count(1, 1, 1)
	many, parked := count(10, 20, 200)
	if many != few {
		t.Errorf("with 200 partitions and %d readers there are %d goroutines more than with one of each", parked, many-few)
	}
}

// fewestGoroutines is how many goroutines there are, but for those that are ending.
func fewestGoroutines() int {
	fewest := runtime.NumGoroutine()
	for range 50 {
		time.Sleep(time.Millisecond)
		fewest = min(fewest, runtime.NumGoroutine())
	}
	return fewest
}

// A thousand starts and stops, clean and with a failed start between them, leave no
// descriptor and no goroutine behind.
func TestStartsAndStopsLeakNothing(t *testing.T) {
	times := 1000
	if testing.Short() || raceDetector {
		times = 100
	}
	dir := t.TempDir()
	opt := varve.Options{Logger: silent(), RetentionInterval: time.Hour, JournalBytes: smallJournal}
	once := func(i int) {
		e, err := varve.Open(dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("durability=os", "segment.bytes=300", "retention.bytes=1000")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topic.Publish(context.Background(), text("%d", i)); err != nil {
			t.Fatal(err)
		}
		if rd, err := topic.Reader(varve.Earliest()); err != nil {
			t.Fatal(err)
		} else if _, err := rd.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
		if err := e.RunRetention(); err != nil {
			t.Fatal(err)
		}
		if _, err := varve.Open(dir, opt); err == nil {
			t.Fatal("it opened twice")
		}
		mustClose(t, e)
	}
	once(0)
	goroutines, files := runtime.NumGoroutine(), openFiles()
	for i := range times {
		once(i + 1)
	}
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // of those that are ending
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("there are %d goroutines, there were %d", n, goroutines)
	}
	if n := openFiles(); n != files {
		t.Errorf("%d files are open, there were %d", n, files)
	}
	names, err := filepath.Glob(filepath.Join(dir, "topics", "t", "0", "*"))
	if err != nil || len(names) > 60 {
		t.Errorf("%d files are in the partition (%v)", len(names), err)
	}
}

// openFiles is how many descriptors the process has, where that can be known.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// The mark of a clean stop is there only when everything was opened, written and
// synced. (KAFKA-15375)
func TestMarkOnlyAfterAWholeStop(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, sick *atomic.Int64){
		"a partition that cannot be opened": func(r *rig, _ *atomic.Int64) {
			r.close()
			first, err := r.disk.ReadFile("topics/t/0/00000000000000000000.log")
			if err != nil {
				t.Fatal(err)
			}
			if err := r.disk.WriteFile("topics/t/0/00000000000000000001.log", first); err != nil {
				t.Fatal(err)
			}
			r.open()
		},
		"a topic that cannot be opened": func(r *rig, _ *atomic.Int64) {
			r.close()
			for _, f := range []string{"topics/t/topic.json", "topics/t/topic.json.copy"} {
				if err := r.disk.Truncate(f, 0); err != nil {
					t.Fatal(err)
				}
			}
			r.open()
		},
		"a failed sync": func(r *rig, sick *atomic.Int64) {
			sick.Store(int64(vfs.OpSync))
			r.part("t", 0).Publish(context.Background(), text("x"))
		},
		"a sync that fails at last": func(r *rig, sick *atomic.Int64) {
			r.part("o", 0).Publish(context.Background(), text("x"))
			sick.Store(int64(vfs.OpSync))
		},
		"a rename that fails": func(_ *rig, sick *atomic.Int64) { sick.Store(int64(vfs.OpRename)) },
		"a full disk":         func(r *rig, _ *atomic.Int64) { r.disk.Limit(0) },
	} {
		t.Run(name, func(t *testing.T) {
			var sick atomic.Int64
			r := newRig(t, background, func(r *rig) {
				r.loud = true
				r.rule = func(op vfs.Op) vfs.Fault {
					if k := sick.Load(); k != 0 && int64(op.Kind) == k {
						return vfs.Fault{Err: syscall.EIO}
					}
					return vfs.Fault{}
				}
			})
			r.t = unheard{t}
			p := r.one()
			r.publish(p, text("0"), text("1"))
			r.topic("o", 1, "durability=os")
			r.publish(r.part("o", 0), text("0"))
			spoil(r, &sick)
			err := r.engine.Close()
			r.engine = nil
			if _, serr := r.disk.Stat("clean"); serr == nil {
				t.Errorf("there is a mark, and close said %v", err)
			}
			sick.Store(0)
			r.disk.Limit(-1)
			r.acked = nil
			r.disk = vfs.NewMem()
		})
	}
}

type unheard struct{ testing.TB }

func (unheard) Errorf(string, ...any) {}

// A publish whose context ends tells the truth: with the error of the context alone
// nothing was stored, nor will be; with a MaybeStoredError it may be.
func TestEndedContextTellsTheTruth(t *testing.T) {
	r := newRig(t, background)
	topic := r.topic("t", 1, "segment.bytes=2000")
	p := r.part("t", 0)
	var mu sync.Mutex
	not, may, surely := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(g, 2))
			for i := range 150 {
				val := fmt.Sprintf("%d.%d", g, i)
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(300))*time.Microsecond)
				off, err := p.Publish(ctx, text("%s", val))
				cancel()
				var maybe *varve.MaybeStoredError
				mu.Lock()
				switch {
				case err == nil:
					surely[val] = true
				case errors.As(err, &maybe):
					may[val] = true
				case errors.Is(err, context.DeadlineExceeded):
					not[val] = true
				default:
					t.Error(err)
				}
				if (err == nil) != (off >= 0) {
					t.Errorf("offset %d with error %v", off, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := topic.Publisher(varve.PublisherOptions{}).Flush(context.Background()); err != nil {
		t.Error(err)
	}
	r.close()
	r.open()
	seen := map[string]int{}
	for _, rec := range collect(t, r.part("t", 0).Records(context.Background(), varve.Earliest())) {
		seen[string(rec.Value)]++
		r.note(r.part("t", 0), rec.Offset, rec)
	}
	for val, n := range seen {
		if n > 1 || not[val] || !surely[val] && !may[val] {
			t.Errorf("%s is there %d times; said not to be stored: %t", val, n, not[val])
		}
	}
	for val := range surely {
		if seen[val] != 1 {
			t.Errorf("%s was acknowledged and is there %d times", val, seen[val])
		}
	}
	t.Logf("%d stored, %d maybe, %d not", len(surely), len(may), len(not))
}

func partOf(t testing.TB, topic *varve.Topic, i int) *varve.Partition {
	t.Helper()
	p, err := topic.Partition(i)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
