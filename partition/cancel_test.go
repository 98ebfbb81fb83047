package partition_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// A request that is cancelled before the appender has begun with it is not stored
// and not told; one that is cancelled later is told what became of it.
func TestCancelBeforeAndAfter(t *testing.T) {
	r := newRig(t, small(partition.Fsync), func(r *rig) { r.eager = false })
	first, second, third := r.enqueue(1), r.enqueue(1, finished), r.enqueue(1)
	if !second.Cancel() {
		t.Error("a request in the queue cannot be taken back")
	}
	r.flight = []*sent{first, third}
	r.drain()
	if first.Cancel() || third.Cancel() {
		t.Error("a request that is written was taken back")
	}
	r.sync()
	if second.told || !first.told || !third.told {
		t.Errorf("told are %t, %t, %t", first.told, second.told, third.told)
	}
	if first.Err != nil || third.Err != nil || r.log.End() != 2 {
		t.Errorf("errors are %v and %v, the end is %d", first.Err, third.Err, r.log.End())
	}
	got, err := read(r.log, 0)
	check(t, err)
	if len(got) != 2 || got[0].val != first.vals[0] || got[1].val != third.vals[0] {
		t.Errorf("there is %v", got)
	}
}

// A request that waits behind a write which the disk holds can be taken back at
// once, whatever it is: the appender has not begun with it.
func TestCancelDoesNotWaitForTheDisk(t *testing.T) {
	kinds := map[string]func(*partition.Append){
		"records":     func(*partition.Append) {},
		"other codec": func(a *partition.Append) { a.Codec = record.Gzip },
		"finished":    finished,
		"conditional": func(a *partition.Append) { a.Expect = 4 },
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			gate, held := make(chan struct{}), make(chan struct{})
			var once sync.Once
			armed := false
			fsys := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
				if !armed || op.Kind != vfs.OpWrite {
					return vfs.Fault{}
				}
				once.Do(func() { close(held) })
				return vfs.Fault{Block: gate}
			})
			cfg := small(partition.OS)
			cfg.MaxBatchBytes, cfg.SegmentBytes = 1<<20, 1<<20
			b := newBusy(t, fsys, cfg, 64)
			for range 3 {
				b.publish(nil, "before")
			}
			armed = true
			// All three are in the queue before the appender looks: the first two do not
			// fit one batch, and so the first is complete when the second is taken.
			big := make([]*partition.Append, 2)
			done := make(chan *partition.Append, 3)
			tell := func(a *partition.Append) { done <- a }
			for i := range big {
				big[i] = &partition.Append{Records: recordsOf([]string{fmt.Sprint("big ", i)}), Size: 30 << 10, Expect: -1, Done: tell}
			}
			last := &partition.Append{Records: recordsOf([]string{"last"}), Size: 200, Expect: -1, Done: tell}
			kind(last)
			crew := b.crew
			crew.Go(func() { b.Append(big[0]) })
			<-held
			b.Append(big[1]) // behind it
			b.Append(last)
			takeBack(t, last)
			armed = false
			close(gate)
			for range big {
				if a := <-done; a.Err != nil {
					t.Error(a.Err)
				}
			}
			b.crew.Wait()
			got, err := read(b.Log, 3)
			check(t, err)
			if len(got) != 2 {
				t.Errorf("there is %v", got)
			}
		})
	}
}

// The same where the write that is held was begun for the sake of the request: it
// belongs to what stands in front of it.
func TestCancelBeforeItsOwnTurn(t *testing.T) {
	gate, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := false
	r := newRig(t, small(partition.OS), func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if !armed || op.Kind != vfs.OpWrite {
				return vfs.Fault{}
			}
			once.Do(func() { close(held) })
			return vfs.Fault{Block: gate}
		}
		r.cfg.SegmentBytes = 200
	})
	r.publish(1)
	first := r.enqueue(1)
	second := r.enqueue(1) // does not fit the segment with the first
	third := r.enqueue(1, func(a *partition.Append) { a.Codec = record.Zstd })
	for _, s := range []*sent{first, second} {
		s.Size = 20 << 10 // nor one batch
	}
	armed = true
	done := make(chan struct{})
	go func() { defer close(done); r.log.Drain() }()
	<-held
	takeBack(t, third)
	close(gate)
	<-done
	if third.told || !first.told || !second.told || r.log.End() != 3 {
		t.Errorf("told are %t, %t, %t; the end is %d", first.told, second.told, third.told, r.log.End())
	}
}

// Cancelling at any moment tells the truth: what is said not to be stored is not,
// and everything else is there once.
func TestCancelTellsTheTruth(t *testing.T) {
	cfg := small(partition.Fsync)
	cfg.SegmentBytes = 1000
	b := newBusy(t, vfs.NewMem(), cfg, 64)
	var mu sync.Mutex
	not, may := map[string]bool{}, map[string]bool{}
	var all sync.WaitGroup
	for p := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(p), 1))
			for i := range 200 {
				val := fmt.Sprintf("%d.%d", p, i)
				done := make(chan struct{})
				a := &partition.Append{Records: recordsOf([]string{val}), Size: 200, Expect: -1, Done: func(*partition.Append) { close(done) }}
				if rng.IntN(3) == 0 {
					finished(a)
				}
				b.Enqueue(a)
				gone := make(chan bool, 1)
				go func(spins int) {
					for range spins {
						_ = spins
					}
					gone <- a.Cancel()
				}(rng.IntN(5000))
				cancelled := <-gone
				if !cancelled {
					<-done
					if a.Err != nil && !errors.Is(a.Err, partition.ErrClosed) {
						t.Error(a.Err)
					}
				}
				mu.Lock()
				if cancelled {
					not[val] = true
				} else {
					may[val] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	b.crew.Wait()
	got, err := read(b.Log, 0)
	check(t, err)
	seen := map[string]bool{}
	for _, e := range got {
		if not[e.val] || seen[e.val] {
			t.Errorf("%s is there (twice: %t, said not to be stored: %t)", e.val, seen[e.val], not[e.val])
		}
		seen[e.val] = true
	}
	for val := range may {
		if !seen[val] {
			t.Errorf("%s was told to be stored and is not there", val)
		}
	}
	t.Logf("%d were taken back, %d stored", len(not), len(may))
}

// takeBack cancels a request, which has not begun, while the disk holds another.
func takeBack(t *testing.T, a interface{ Cancel() bool }) {
	t.Helper()
	cancelled := make(chan bool)
	go func() { cancelled <- a.Cancel() }()
	select {
	case ok := <-cancelled:
		if !ok {
			t.Error("it is said to be stored, maybe")
		}
	case <-time.After(10 * time.Second):
		t.Error("taking it back waits for the disk")
	}
}
