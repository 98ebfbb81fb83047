package varve_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// ledger is what the members of a group did: who works on a partition, and how far all of
// them together have come.
type ledger struct {
	t  testing.TB
	mu sync.Mutex

	owner map[varve.TopicPartition]*worker
	done  map[varve.TopicPartition]varve.Offset // everything below was processed
	ends  map[varve.TopicPartition]varve.Offset // of partitions to which nothing more is published
	work  int64
}

// worker is a member with a will to die.
type worker struct {
	ledger *ledger
	engine *varve.Engine
	rng    *rand.Rand
	m      *varve.Member
	next   map[varve.TopicPartition]varve.Offset // of what it owns, once it has polled it
}

// assigned enters that a worker owns partitions from now on. Whoever has one of them and did
// not let go of it is out by now, and can commit nothing. So may the worker itself be, when
// it took long to come here; then the partition is another's already, and its entry stays.
//
// That the worker is looked at last makes two owners of what was seen: it has had the
// partition since before it was told, for only a poll takes one.
func (w *worker) assigned(_ context.Context, got []varve.TopicPartition) {
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range got {
		delete(w.next, p)
		before := l.owner[p]
		two := before != nil && !before.isOver(p)
		if w.isOut(p) {
			continue
		}
		if two {
			l.t.Errorf("%s is assigned while another member is at work on it", p)
		}
		l.owner[p] = w
	}
}

// isOver says that the worker's commits are refused because it is no member any more.
func (w *worker) isOver(p varve.TopicPartition) bool {
	err := w.m.CommitOffsets(context.Background(), varve.Commit{Topic: p.Topic, Partition: p.Partition})
	return errors.As(err, new(*varve.FencedError)) || errors.Is(err, varve.ErrLeft)
}

// isOut says that the worker was put out with a partition that it was given.
func (w *worker) isOut(p varve.TopicPartition) bool {
	_, err := w.m.Position(p.Topic, p.Partition)
	return errors.As(err, new(*varve.FencedError))
}

// released enters that the worker is done with partitions.
func (w *worker) released(gone []varve.TopicPartition) {
	l := w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range gone {
		if l.owner[p] == w {
			delete(l.owner, p)
		}
	}
}

// process enters records. Each follows the one before, and the first is no later than
// what the group has come to.
func (w *worker) process(polled varve.Polled) {
	l, p := w.ledger, varve.TopicPartition{Topic: polled.Topic, Partition: polled.Partition}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owner[p] != w && w.m.Commit(context.Background()) == nil {
		l.t.Errorf("%s was polled by another than its owner", p)
	}
	for _, rec := range polled.Records {
		next, goesOn := w.next[p]
		switch {
		case goesOn && rec.Offset != next:
			l.t.Errorf("%s: offset %d came behind %d", p, rec.Offset, next-1)
		case !goesOn && rec.Offset > l.done[p]:
			l.t.Errorf("%s: a new owner begins at %d, and nobody has processed %d", p, rec.Offset, l.done[p])
		}
		w.next[p] = rec.Offset + 1
		l.done[p] = max(l.done[p], rec.Offset+1)
		l.work++
	}
}

const soakPoll = 100 * time.Millisecond

// live is one life of a member: it joins, works, and ends one way or another.
func (w *worker) live(stop *atomic.Bool) {
	ctx := context.Background()
	w.next = map[varve.TopicPartition]varve.Offset{}
	ready := make(chan struct{})
	o := varve.JoinOptions{
		MaxPollInterval: soakPoll, MaxRecords: 1 + w.rng.IntN(50),
		OnAssigned: func(ctx context.Context, got []varve.TopicPartition) { <-ready; w.assigned(ctx, got) },
		OnRevoked: func(ctx context.Context, going []varve.TopicPartition) {
			time.Sleep(time.Duration(w.rng.IntN(4)) * time.Millisecond) // it finishes something
			w.m.Commit(ctx)
			w.released(going)
		},
		OnLost: w.released,
	}
	m, err := w.engine.Join(ctx, "g", []string{"t"}, o)
	if errors.As(err, new(*varve.FencedError)) {
		return // it took longer to join than it may between two polls
	}
	if err != nil {
		w.ledger.t.Error(err)
		return
	}
	w.m = m
	close(ready)
	for polls := w.rng.IntN(60); polls > 0 || stop.Load(); polls-- {
		wait, cancel := context.WithTimeout(ctx, soakPoll/4)
		polled, err := m.Poll(wait)
		cancel()
		switch {
		case errors.As(err, new(*varve.FencedError)):
			return
		case errors.Is(err, context.DeadlineExceeded):
			if stop.Load() && w.ledger.finished() {
				m.Leave(ctx)
				return
			}
			continue
		case err != nil:
			w.ledger.t.Errorf("poll: %v", err)
			return
		}
		w.process(polled)
		if w.rng.IntN(3) > 0 {
			if err := m.Commit(ctx); err != nil && !errors.As(err, new(*varve.FencedError)) {
				w.ledger.t.Errorf("commit: %v", err)
			}
		}
	}
	switch w.rng.IntN(3) {
	case 0:
		m.Leave(ctx)
	case 1: // killed: nobody hears of it again
	case 2: // stalled: it comes back as a zombie
		time.Sleep(2 * soakPoll)
		if _, err := m.Poll(ctx); err != nil && !errors.As(err, new(*varve.FencedError)) {
			w.ledger.t.Errorf("a stalled member's poll: %v", err)
		}
		m.Leave(ctx)
	}
}

// finished says that all records there will be were processed.
func (l *ledger) finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, end := range l.ends {
		if l.done[p] < end {
			return false
		}
	}
	return len(l.ends) == soakPartitions
}

const soakPartitions = 8

func newLedger(t testing.TB) *ledger {
	return &ledger{
		t: t, owner: map[varve.TopicPartition]*worker{}, done: map[varve.TopicPartition]varve.Offset{},
		ends: map[varve.TopicPartition]varve.Offset{},
	}
}

// A member that is put out while it is told what it was given, and then comes to the ledger
// behind its heir, is not two at work: only the heir may commit.
func TestLedgerKnowsALateOwner(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		l := newLedger(r.t)
		ctx, p, hold := context.Background(), varve.TopicPartition{Topic: "t"}, make(chan struct{})
		late := &worker{ledger: l, next: map[varve.TopicPartition]varve.Offset{}}
		late.m = r.join("g", varve.JoinOptions{
			MaxPollInterval: time.Minute, OnLost: late.released,
			OnAssigned: func(ctx context.Context, got []varve.TopicPartition) { <-hold; late.assigned(ctx, got) },
		}, "t")
		end := make(chan error)
		go func() {
			_, err := late.m.Poll(ctx)
			end <- err
		}()
		time.Sleep(2 * time.Minute)
		heir := &worker{ledger: l, next: map[varve.TopicPartition]varve.Offset{}}
		heir.m = r.join("g", varve.JoinOptions{OnAssigned: heir.assigned}, "t")
		polled, err := heir.m.Poll(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		close(hold)
		if err := <-end; !errors.As(err, new(*varve.FencedError)) {
			r.t.Errorf("poll of the late one: %v", err)
		}
		if !late.isOver(p) || l.owner[p] != heir {
			r.t.Error("the late one has come between the heir and its partition")
		}
		heir.process(polled)
	})
}

// Members come, work, leave, die and stall while records are published: at no time do
// two work on a partition, and every record is processed.
func TestGroupSoak(t *testing.T) {
	length, workers := 6*time.Second, 6
	if testing.Short() {
		length = 1500 * time.Millisecond
	}
	r := newRig(t)
	topic := r.topic("t", soakPartitions)
	l := newLedger(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	for i := range soakPartitions {
		all.Go(func() { // publishes until it is time
			p, _ := topic.Partition(i)
			for n := 0; !stop.Load(); n++ {
				r.fill(p, 1+n%7)
				time.Sleep(time.Millisecond)
			}
			l.mu.Lock()
			l.ends[varve.TopicPartition{Topic: "t", Partition: int32(i)}] = p.End()
			l.mu.Unlock()
		})
	}
	time.AfterFunc(length, func() { stop.Store(true) })
	var lives atomic.Int64
	for i := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 42))
			for {
				last := stop.Load()
				(&worker{ledger: l, engine: r.engine, rng: rng}).live(&stop)
				lives.Add(1)
				if last && l.finished() {
					return
				}
			}
		})
	}
	all.Wait()
	for i := range int32(soakPartitions) {
		p := varve.TopicPartition{Topic: "t", Partition: i}
		if l.done[p] != l.ends[p] {
			t.Errorf("%s: processed up to %d of %d", p, l.done[p], l.ends[p])
		}
	}
	t.Logf("%d lives of members, %d records processed", lives.Load(), l.work)
}
