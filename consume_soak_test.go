package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// pushLedger is what handlers of a group did: who is at work on a partition, which records
// are done, and how far the keys have come.
type pushLedger struct {
	t  *testing.T
	mu sync.Mutex

	at   map[varve.TopicPartition]map[context.Context]*pushed // handlers at work
	done map[varve.TopicPartition][]int                       // how often each offset was handled to its end
	work int64
	ends map[varve.TopicPartition]varve.Offset
}

// pushed is one life of a subscription.
type pushed struct {
	ledger *pushLedger
	byKey  bool
	odds   int                     // a record fails one time in odds
	last   map[string]varve.Offset // of each key, or partition, that was handled to its end
}

// handle enters a record, works, and enters its end.
func (w *pushed) handle(ctx context.Context, d varve.Delivery) error {
	l, p := w.ledger, varve.TopicPartition{Topic: d.Topic, Partition: d.Partition}
	order := p.String()
	if w.byKey {
		order += string(d.Key)
	}
	l.mu.Lock()
	for at, other := range l.at[p] {
		if at.Err() == nil && ctx.Err() == nil && (other != w || !w.byKey) { // none of them was given up
			l.t.Errorf("%s: offset %d is handled beside another", p, d.Offset)
		}
	}
	if last, some := w.last[order]; some && last >= d.Offset && ctx.Err() == nil {
		l.t.Errorf("%s: offset %d came behind %d", order, d.Offset, last)
	}
	if l.at[p] == nil {
		l.at[p] = map[context.Context]*pushed{}
	}
	l.at[p][ctx] = w
	dice := rand.IntN(1000)
	l.mu.Unlock()
	if dice < 20 {
		time.Sleep(time.Duration(dice) * time.Millisecond / 4)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.at[p], ctx)
	switch {
	case ctx.Err() != nil: // it counts no more
		return ctx.Err()
	case dice%w.odds == 1:
		return errBroken
	case dice%w.odds == 2:
		panic("broken")
	}
	w.last[order] = d.Offset
	for len(l.done[p]) <= int(d.Offset) {
		l.done[p] = append(l.done[p], 0)
	}
	l.done[p][d.Offset]++
	l.work++
	return nil
}

// missing is how many records of partitions to which nothing more is published were not
// handled so far.
func (l *pushLedger) missing() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, end := range l.ends {
		for off := range int(end) {
			if off >= len(l.done[p]) || l.done[p][off] == 0 {
				n++
			}
		}
	}
	if len(l.ends) < soakPartitions {
		n++
	}
	return n
}

// live is a subscription that comes, works, and stops: it waits for its handlers, or
// hardly.
func (l *pushLedger) live(r *rig, rng *rand.Rand, over *atomic.Bool) {
	w := &pushed{
		ledger: l, byKey: rng.IntN(2) == 0, odds: 20 + rng.IntN(200),
		last: map[string]varve.Offset{},
	}
	o := varve.ConsumeOptions{
		ByKey: w.byKey, MaxAhead: 1 + rng.IntN(300), CommitInterval: time.Millisecond * time.Duration(1+rng.IntN(20)),
		Retry: varve.Retry{Attempts: -1, First: time.Millisecond, Most: 5 * time.Millisecond},
	}
	s, err := r.engine.Consume(context.Background(), "g", []string{"t"}, w.handle, o)
	if err != nil {
		l.t.Error(err)
		return
	}
	life := time.Duration(rng.IntN(100)) * time.Millisecond
	for begun := time.Now(); time.Since(begun) < life || over.Load() && l.missing() > 0; {
		time.Sleep(time.Millisecond)
	}
	patience := []time.Duration{time.Minute, time.Millisecond, 0}[rng.IntN(3)]
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Stop(ctx); err != nil && !errors.As(err, new(*varve.UnfinishedError)) {
		l.t.Errorf("stop: %v", err)
	}
}

// Subscriptions come, handle, fail and stop while records are published: at no time do two
// work on a partition, orders hold, and every record is handled.
func TestConsumeSoak(t *testing.T) {
	length, subscribers := 15*time.Second, 5
	if testing.Short() {
		length = 1500 * time.Millisecond
	}
	r := newRig(t, workers(4))
	topic := r.topic("t", soakPartitions)
	l := &pushLedger{
		t: t, at: map[varve.TopicPartition]map[context.Context]*pushed{}, done: map[varve.TopicPartition][]int{},
		ends: map[varve.TopicPartition]varve.Offset{},
	}
	var over atomic.Bool
	var all sync.WaitGroup
	for i := range soakPartitions {
		all.Go(func() {
			p, _ := topic.Partition(i)
			for n := 0; !over.Load(); n++ {
				recs := make([]varve.Record, 1+n%7)
				for k := range recs {
					recs[k] = text("%d-%d", n, k)
					recs[k].Key = fmt.Append(nil, (n+k)%5)
				}
				r.publish(p, recs...)
				time.Sleep(time.Millisecond)
			}
			l.mu.Lock()
			l.ends[varve.TopicPartition{Topic: "t", Partition: int32(i)}] = p.End()
			l.mu.Unlock()
		})
	}
	time.AfterFunc(length, func() { over.Store(true) })
	var lives atomic.Int64
	for i := range subscribers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 43))
			for last := false; !last; lives.Add(1) {
				last = over.Load() && l.missing() == 0
				l.live(r, rng, &over)
			}
		})
	}
	all.Wait()
	if n := l.missing(); n > 0 {
		t.Errorf("%d records were not handled", n)
	}
	again := 0
	for _, times := range l.done {
		for _, n := range times {
			again += n - 1
		}
	}
	t.Logf("%d lives of subscriptions, %d records handled, %d of them again", lives.Load(), l.work, again)
}
