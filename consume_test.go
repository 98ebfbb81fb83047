package varve_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
)

// workers sets how many handlers may be at work.
func workers(n int) func(*rig) { return func(r *rig) { r.opt.Groups.Workers = n } }

func loud(r *rig) { r.loud = true }

// pushBubble runs a test of subscriptions in virtual time.
func pushBubble(t *testing.T, test func(*rig), set ...func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newRig(t, set...)) })
}

func (r *rig) consume(groupID string, h varve.Handler, o varve.ConsumeOptions, topics ...string) *varve.Subscription {
	r.t.Helper()
	s, err := r.engine.Consume(context.Background(), groupID, topics, h, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// stopped stops a subscription that has nothing to wait for.
func (r *rig) stopped(s *varve.Subscription) {
	r.t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		r.t.Errorf("stop: %v", err)
	}
}

// handled notes what handlers are given, and what OnError is told.
type handled struct {
	mu   sync.Mutex
	list []string
	fail []varve.Failure
}

func (h *handled) add(format string, args ...any) {
	h.mu.Lock()
	h.list = append(h.list, fmt.Sprintf(format, args...))
	h.mu.Unlock()
}

func (h *handled) failed(f varve.Failure) {
	h.mu.Lock()
	h.fail = append(h.fail, f)
	h.mu.Unlock()
}

func (h *handled) values() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}

func (h *handled) failures() []varve.Failure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.fail)
}

// note is a handler that notes values.
func (h *handled) note(_ context.Context, d varve.Delivery) error {
	h.add("%s", d.Value)
	return nil
}

func numbered(name string, from, to int) (list []string) {
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("%s-%d", name, i))
	}
	return list
}

func (h *handled) want(t testing.TB, want ...string) {
	t.Helper()
	if got := h.values(); !slices.Equal(got, want) {
		t.Errorf("handled %q, want %q", got, want)
	}
}

// A subscription handles what is there and what comes, in order, and commits it; the next
// one goes on there.
func TestConsume(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		r.fill(p, 5)
		var h handled
		s := r.consume("g", h.note, varve.ConsumeOptions{}, "t")
		synctest.Wait()
		h.want(t, numbered("t/0", 0, 5)...)
		time.Sleep(time.Second)
		r.wantCommitted("g", "t", 0, 5)
		time.Sleep(time.Hour) // an idle subscription stays a member
		r.publish(p, text("late"))
		synctest.Wait()
		h.want(t, append(numbered("t/0", 0, 5), "late")...)
		r.stopped(s) // commits at once
		r.wantCommitted("g", "t", 0, 6)
		r.publish(p, text("later"))
		var next handled
		r.stoppedAfterIdle(r.consume("g", next.note, varve.ConsumeOptions{}, "t"))
		next.want(t, "later")
		list, _ := r.engine.Commits("g")
		if list[0].LeaderEpoch != 0 || list[0].Metadata != "" {
			t.Errorf("committed %+v, want the leader epoch of the records and nothing else", list[0])
		}
	})
}

// stoppedAfterIdle lets a subscription do what there is and stops it.
func (r *rig) stoppedAfterIdle(s *varve.Subscription) {
	r.t.Helper()
	synctest.Wait()
	r.stopped(s)
}

// Many records of many partitions, more than a window has: each partition in order.
func TestConsumeInOrderOfEachPartition(t *testing.T) {
	const parts, each = 5, 3000
	r := newRig(t, workers(3))
	r.topic("t", parts)
	var next [parts]atomic.Int64
	var left atomic.Int64
	left.Store(parts * each)
	all := make(chan struct{})
	s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
		if got := next[d.Partition].Add(1) - 1; got != int64(d.Offset) {
			t.Errorf("partition %d: offset %d is the %d. that is handled", d.Partition, d.Offset, got)
		}
		if left.Add(-1) == 0 {
			close(all)
		}
		return nil
	}, varve.ConsumeOptions{}, "t")
	for n := range each / 100 {
		for i := range parts {
			r.publish(r.part("t", i), manyRecords(100, n)...)
		}
	}
	<-all
	r.stopped(s)
	for i := range int32(parts) {
		r.wantCommitted("g", "t", i, each)
	}
}

func manyRecords(n, round int) []varve.Record {
	list := make([]varve.Record, n)
	for i := range list {
		list[i] = text("%d-%d", round, i)
	}
	return list
}

// The workers are as many as the engine is told, however many partitions there are.
func TestWorkersAreBounded(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 10)
		for i := range 10 {
			r.fill(r.part("t", i), 3)
		}
		var now, most, all atomic.Int32
		s := r.consume("g", func(context.Context, varve.Delivery) error {
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Second)
			now.Add(-1)
			all.Add(1)
			return nil
		}, varve.ConsumeOptions{}, "t")
		time.Sleep(time.Minute)
		if most.Load() != 3 || all.Load() != 30 {
			t.Errorf("%d handlers at work at a time, %d records handled, want 3 and 30", most.Load(), all.Load())
		}
		r.stopped(s)
	}, workers(3))
}

// Idle subscriptions have no goroutine, and all of them hear of a record.
func TestIdleSubscriptionsHaveNoGoroutine(t *testing.T) {
	many := 10_000
	if testing.Short() {
		many = 2_000
	}
	r := newRig(t)
	p := r.one()
	var got atomic.Int64
	all := make(chan struct{}, 1)
	count := func(context.Context, varve.Delivery) error {
		if got.Add(1) == int64(many) {
			all <- struct{}{}
		}
		return nil
	}
	before := runtime.NumGoroutine()
	for i := range many {
		r.consume(fmt.Sprintf("g%d", i), count, varve.ConsumeOptions{CommitInterval: time.Hour}, "t")
	}
	for range 2 {
		got.Store(0)
		r.publish(p, text("news"))
		<-all
		for tries := 0; runtime.NumGoroutine() > before+10; tries++ { // workers end when there is nothing to do
			if tries > 1_000_000 {
				t.Fatalf("%d goroutines with %d idle subscriptions, %d without", runtime.NumGoroutine(), many, before)
			}
			runtime.Gosched()
		}
	}
}

// A place that is read ahead of the handler is not committed before it has returned, and a
// handler that is at work is not either.
func TestCommitComesAfterTheHandler(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 10)
		var h handled
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if at := r.committed("g", "t", 0); at > d.Offset {
				t.Errorf("%d is committed while offset %d is handled", at, d.Offset)
			}
			time.Sleep(time.Second)
			return h.note(ctx, d)
		}, varve.ConsumeOptions{}, "t")
		time.Sleep(3500 * time.Millisecond)
		r.wantCommitted("g", "t", 0, 3)
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 4)
		h.want(t, numbered("t/0", 0, 4)...)
	})
}

// Commits are made in batches: many records, few commits.
func TestCommitsOfSubscriptionsAreFew(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		var h handled
		s := r.consume("g", h.note, varve.ConsumeOptions{CommitInterval: time.Second}, "t")
		defer r.stopped(s)
		for i := range 40 {
			r.publish(p, text("%d", i))
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := r.commitRecords(); n < 2 || n > 4 {
			t.Errorf("%d commits in two seconds of records, and an interval of one", n)
		}
		r.wantCommitted("g", "t", 0, 40)
	})
}

// commitRecords is how many records the offsets topic has.
func (r *rig) commitRecords() int {
	for _, name := range r.disk.Files() {
		if strings.HasPrefix(name, "topics/__consumer_offsets/0/") && strings.HasSuffix(name, ".log") {
			f, err := r.disk.ReadFile(name)
			if err != nil {
				r.t.Fatal(err)
			}
			return strings.Count(string(f), "\x00\x01\x00\x01g\x00\x01t") // the key of the group's commits in the topic
		}
	}
	return 0
}

// At most once by name: the place is ahead of the handler, nothing is tried again, and
// who stops leaves what was not begun.
func TestAtMostOnce(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 10)
		var h handled
		o := varve.ConsumeOptions{Guarantee: varve.AtMostOnce, OnFailure: varve.SkipRecord, OnError: h.failed}
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			h.add("%d", d.Offset)
			if at := r.committed("g", "t", 0); at <= d.Offset {
				t.Errorf("offset %d is handled, and %d is committed", d.Offset, at)
			}
			time.Sleep(time.Second)
			if d.Offset == 1 {
				return errors.New("once")
			}
			return nil
		}, o, "t")
		time.Sleep(3500 * time.Millisecond)
		r.stopped(s)
		h.want(t, "0", "1", "2", "3")
		r.wantCommitted("g", "t", 0, 4)
		if f := h.failures(); len(f) != 1 || f[0].Outcome != varve.Skipped || f[0].Attempt != 1 {
			t.Errorf("failures are %v", f)
		}
		r.consume("g", h.note, o, "t")
		synctest.Wait()
		r.kill()
		r.wantCommitted("g", "t", 0, 10)
	})
}

// A stop at most once is behind the record that failed, and a resumed partition goes on
// there.
func TestAtMostOnceStops(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 5)
		var h handled
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			h.add("%d", d.Offset)
			if d.Offset == 1 {
				return errors.New("broken")
			}
			return nil
		}, varve.ConsumeOptions{Guarantee: varve.AtMostOnce}, "t")
		time.Sleep(time.Minute)
		h.want(t, "0", "1")
		r.wantCommitted("g", "t", 0, 2)
		if err := s.Resume(varve.TopicPartition{Topic: "t"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		h.want(t, "0", "1", "2", "3", "4")
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 5)
	}, loud)
}

// What cannot be is refused.
func TestConsumeRefuses(t *testing.T) {
	r := newRig(t)
	r.one()
	h := func(context.Context, varve.Delivery) error { return nil }
	for _, c := range []struct {
		o      varve.ConsumeOptions
		topics []string
		want   string
	}{
		{varve.ConsumeOptions{}, []string{"none"}, "topic none: topic does not exist"},
		{varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "none"}, []string{"t"}, "topic none: topic does not exist"},
		{varve.ConsumeOptions{OnFailure: varve.DeadLetter}, []string{"t"}, "topic does not exist"},
		{varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "t"}, []string{"t"}, "its own dead letters"},
		{varve.ConsumeOptions{Guarantee: varve.AtMostOnce, ByKey: true}, []string{"t"}, "ByKey"},
		{varve.ConsumeOptions{Guarantee: varve.AtMostOnce, AckLater: true}, []string{"t"}, "AckLater"},
		{varve.ConsumeOptions{Guarantee: 9}, []string{"t"}, "no guarantee 9"},
		{varve.ConsumeOptions{OnFailure: 9}, []string{"t"}, "no failure policy 9"},
	} {
		_, err := r.engine.Consume(context.Background(), "g", c.topics, h, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.engine.Consume(ended, "g", []string{"t"}, h, varve.ConsumeOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := r.engine.DescribeGroup("g"); !errors.Is(err, varve.ErrNoGroup) {
		t.Errorf("what was refused has left a group: %v", err)
	}
}
