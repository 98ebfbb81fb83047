package varve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// slow is a handler that takes a time, and notes when it begins and ends.
func (h *handled) slow(name string, takes time.Duration) varve.Handler {
	return func(ctx context.Context, d varve.Delivery) error {
		h.add("%s begins %s/%d@%d", name, d.Topic, d.Partition, d.Offset)
		time.Sleep(takes)
		if ctx.Err() != nil {
			h.add("%s is told to give up %s/%d@%d", name, d.Topic, d.Partition, d.Offset)
		} else {
			h.add("%s ends %s/%d@%d", name, d.Topic, d.Partition, d.Offset)
		}
		return nil
	}
}

// A stop lets the handler finish, and begins nothing more.
func TestStopLetsHandlersFinish(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 5)
		var h handled
		s := r.consume("g", h.slow("h", time.Minute), varve.ConsumeOptions{}, "t")
		time.Sleep(90 * time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil || s.Err() != nil {
			t.Errorf("stop: %v, %v", err, s.Err())
		}
		h.want(t, "h begins t/0@0", "h ends t/0@0", "h begins t/0@1", "h ends t/0@1")
		r.wantCommitted("g", "t", 0, 2)
		if d, err := r.engine.DescribeGroup("g"); err != nil || d.Members != 0 {
			t.Errorf("the group has members: %+v, %v", d, err)
		}
		r.stopped(s) // again
	})
}

// A handler that outlives the deadline is named and told, what it does counts no more, and
// the others' work is committed.
func TestStopNamesWhoOutlivesIt(t *testing.T) {
	for name, stop := range map[string]func(r *rig, s *varve.Subscription, cancel func()) error{
		"stop": func(_ *rig, s *varve.Subscription, _ func()) error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return s.Stop(ctx)
		},
		"context": func(_ *rig, s *varve.Subscription, cancel func()) error {
			cancel()
			<-s.Done()
			return s.Stop(context.Background())
		},
		"close": func(r *rig, _ *varve.Subscription, _ func()) error {
			err := r.engine.Close()
			r.open()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				r.topic("t", 3)
				r.fill(r.part("t", 0), 5)
				r.fill(r.part("t", 1), 5)
				var h handled
				quick, slow := h.slow("quick", time.Second), h.slow("slow", time.Minute)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				s, err := r.engine.Consume(ctx, "g", []string{"t"}, func(ctx context.Context, d varve.Delivery) error {
					if d.Partition == 0 {
						return quick(ctx, d)
					}
					return slow(ctx, d)
				}, varve.ConsumeOptions{CommitInterval: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2500 * time.Millisecond)
				begun := time.Now()
				err = stop(r, s, cancel)
				var left *varve.UnfinishedError
				if !errors.As(err, &left) || len(left.Handlers) != 1 || left.Handlers[0].Offset != 0 || left.Handlers[0].Partition != 1 {
					t.Fatalf("%s: %v", name, err)
				}
				if !strings.Contains(err.Error(), "group g at offset 0 of t/1") {
					t.Errorf("%v", err)
				}
				if took := time.Since(begun); took != 10*time.Second {
					t.Errorf("it took %v", took)
				}
				r.wantCommitted("g", "t", 0, 3)
				r.wantCommitted("g", "t", 1, -1)
				time.Sleep(time.Hour)
				r.wantCommitted("g", "t", 1, -1)
				if got := fmt.Sprint(h.values()); !strings.Contains(got, "slow is told to give up t/1@0") || strings.Contains(got, "t/1@1") || strings.Contains(got, "t/0@3") {
					t.Errorf("handlers: %s", got)
				}
			})
		})
	}
}

// Close with idle subscriptions, and with one at work, leaves nothing; there are no new
// ones after it.
func TestCloseStopsSubscriptions(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		var h handled
		s := r.consume("g", h.slow("h", 3*time.Second), varve.ConsumeOptions{}, "t")
		r.consume("idle", h.note, varve.ConsumeOptions{From: varve.Latest()}, "t")
		synctest.Wait()
		e := r.engine
		r.reopen()
		r.wantCommitted("g", "t", 0, 1)
		<-s.Done()
		if _, err := e.Consume(context.Background(), "g", []string{"t"}, h.note, varve.ConsumeOptions{}); !errors.Is(err, varve.ErrClosed) {
			t.Errorf("consume of a closed engine: %v", err)
		}
	})
}

// A partition goes to another subscription only after its handler has finished and that is
// committed; the other partitions go on meanwhile.
func TestRevokedAfterTheHandlerFinished(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 3)
		r.fill(r.part("t", 1), 3)
		var h handled
		a := r.consume("g", h.slow("a", 20*time.Second), varve.ConsumeOptions{CommitInterval: time.Hour}, "t")
		time.Sleep(5 * time.Second)
		b := r.consume("g", h.slow("b", time.Second), varve.ConsumeOptions{}, "t")
		time.Sleep(10 * time.Second) // a is at the first record of each
		if n := len(b.Owned()); n != 0 {
			t.Errorf("b owns %d while a is at work", n)
		}
		time.Sleep(10 * time.Second)
		if len(b.Owned()) != 1 || len(a.Owned()) != 1 {
			t.Fatalf("a owns %v, b owns %v", a.Owned(), b.Owned())
		}
		moved := b.Owned()[0]
		time.Sleep(time.Minute)
		r.stopped(a)
		r.stopped(b)
		got := strings.Join(h.values(), "\n")
		for _, p := range []int32{0, 1} {
			r.wantCommitted("g", "t", p, 3)
			for off := range 3 {
				who := "a"
				if p == moved.Partition && off > 0 {
					who = "b"
				}
				if line := fmt.Sprintf("%s ends t/%d@%d", who, p, off); strings.Count(got, fmt.Sprintf("ends t/%d@%d", p, off)) != 1 || !strings.Contains(got, line) {
					t.Errorf("%q is not what happened:\n%s", line, got)
				}
			}
		}
	})
}

// Who does not let go in time is put out: its handler is told, the next owner begins at the
// commit, and it joins anew when the handler has returned.
func TestPutOutAndBack(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 1)
		r.fill(r.part("t", 1), 1)
		var h handled
		a := r.consume("g", h.slow("a", 10*time.Minute), varve.ConsumeOptions{RevokeTimeout: time.Minute}, "t")
		time.Sleep(time.Second)
		b := r.consume("g", h.slow("b", time.Second), varve.ConsumeOptions{RevokeTimeout: time.Minute}, "t")
		time.Sleep(59 * time.Second)
		if n := len(b.Owned()); n != 0 {
			t.Errorf("b owns %d before the time", n)
		}
		time.Sleep(5 * time.Second)
		if len(b.Owned()) != 2 || len(a.Owned()) != 0 {
			t.Errorf("a owns %v, b owns %v", a.Owned(), b.Owned())
		}
		time.Sleep(5 * time.Minute)
		if len(a.Owned()) != 0 {
			t.Errorf("a has joined anew while its handlers are at work: %v", a.Owned())
		}
		time.Sleep(5 * time.Minute)
		if len(b.Owned()) != 1 || len(a.Owned()) != 1 {
			t.Errorf("a owns %v, b owns %v", a.Owned(), b.Owned())
		}
		r.stopped(a)
		r.stopped(b)
		got := fmt.Sprint(h.values())
		if strings.Count(got, "a is told to give up") != 2 || strings.Count(got, "b ends") != 2 {
			t.Errorf("handlers: %s", got)
		}
		r.wantCommitted("g", "t", 0, 1)
		r.wantCommitted("g", "t", 1, 1)
	})
}

// A topic that is deleted under a subscription, and made anew, and one that grows.
func TestTopicsChangeUnderSubscription(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		r.topic("other", 1)
		var h handled
		s := r.consume("g", h.slow("h", time.Second), varve.ConsumeOptions{}, "t", "other")
		time.Sleep(1500 * time.Millisecond)
		r.forget("t")
		if err := r.engine.DeleteTopic("t"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		r.fill(r.one(), 1)
		time.Sleep(time.Minute)
		topic, _ := r.engine.Topic("other")
		if err := topic.AddPartitions(2); err != nil {
			t.Fatal(err)
		}
		r.fill(r.part("other", 1), 1)
		time.Sleep(time.Minute)
		r.stopped(s)
		h.want(t, "h begins t/0@0", "h ends t/0@0", "h begins t/0@1", "h ends t/0@1",
			"h begins t/0@0", "h ends t/0@0", "h begins other/1@0", "h ends other/1@0")
		r.wantCommitted("g", "t", 0, 1)
		r.wantCommitted("g", "other", 1, 1)
	})
}

// A gap is told once, and the partition goes on behind it; where there must be a place and
// is none, the partition stands still until it is resumed.
func TestSubscriptionIsToldOfLosses(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		r.fill(p, 10)
		r.commit("g", "t", 0, 2)
		if _, err := p.Trim(6); err != nil {
			t.Fatal(err)
		}
		var h handled
		s := r.consume("g", h.note, varve.ConsumeOptions{OnError: h.failed}, "t")
		time.Sleep(time.Second)
		h.want(t, numbered("t/0", 6, 10)...)
		f := h.failures()
		if len(f) != 1 || f[0].Outcome != varve.LostRecords || f[0].Offset != 6 || !errors.As(f[0].Err, new(*varve.OutOfRangeError)) {
			t.Errorf("failures are %v", f)
		}
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 10)

		var must handled
		s = r.consume("must", must.note, varve.ConsumeOptions{MustResume: true, OnError: must.failed}, "t")
		time.Sleep(time.Second)
		if f := must.failures(); len(f) != 1 || f[0].Outcome != varve.Stopped || !errors.Is(f[0].Err, varve.ErrNoCommit) || len(s.Stopped()) != 1 {
			t.Errorf("failures are %v, stopped %v", f, s.Stopped())
		}
		if err := s.Resume(varve.TopicPartition{Topic: "t", Partition: 7}); !errors.Is(err, varve.ErrNotOwner) {
			t.Errorf("resume of another's: %v", err)
		}
		r.stopped(s)
	}, loud)
}

// Commits that the disk refuses are made again, and nothing is handled twice for it.
func TestSubscriptionWhoseCommitsFail(t *testing.T) {
	var refuse atomic.Bool
	rule := func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if refuse.Load() && op.Kind == vfs.OpWrite && strings.Contains(op.Name, "__consumer_offsets") {
				return vfs.Fault{Err: errBroken}
			}
			return vfs.Fault{}
		}
	}
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		r.commit("other", "t", 0, 0)
		refuse.Store(true)
		var h handled
		s := r.consume("g", h.note, varve.ConsumeOptions{}, "t")
		time.Sleep(time.Minute)
		r.wantCommitted("g", "t", 0, -1)
		refuse.Store(false)
		time.Sleep(time.Minute)
		r.wantCommitted("g", "t", 0, 3)
		h.want(t, numbered("t/0", 0, 3)...)
		r.stopped(s)
	}, rule, loud)
}

// What was handed out of a partition that went to another has a context that has ended, and
// is not the subscription's to acknowledge.
func TestDeliveriesOfARevokedPartition(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 1)
		r.fill(r.part("t", 1), 1)
		got, ctxs := make([]varve.Delivery, 2), make([]context.Context, 2)
		var mu sync.Mutex
		a := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			got[d.Partition], ctxs[d.Partition] = d, ctx
			return d.Done(nil)
		}, varve.ConsumeOptions{AckLater: true}, "t")
		synctest.Wait()
		var h handled
		b := r.consume("g", h.note, varve.ConsumeOptions{}, "t")
		time.Sleep(time.Second)
		if len(a.Owned()) != 1 {
			t.Fatalf("a owns %v", a.Owned())
		}
		kept := a.Owned()[0].Partition
		if err := got[kept].Done(nil); err != nil || ctxs[kept].Err() != nil {
			t.Errorf("of the partition that a has: %v, %v", err, ctxs[kept].Err())
		}
		if err := got[1-kept].Done(nil); !errors.Is(err, varve.ErrNotOwner) || ctxs[1-kept].Err() == nil {
			t.Errorf("of the one that b has: %v, %v", err, ctxs[1-kept].Err())
		}
		r.stopped(a)
		r.stopped(b)
	})
}

// A stop waits for what tells of failures: once it has returned nobody is told.
func TestStopWaitsForOnError(t *testing.T) {
	for name, o := range map[string]varve.ConsumeOptions{
		"retried": {}, "skipped": {OnFailure: varve.SkipRecord, Retry: varve.Retry{Attempts: 1}},
		"stopped": {Retry: varve.Retry{Attempts: 1}},
		"buried":  {OnFailure: varve.DeadLetter, DeadLetters: "dead", Retry: varve.Retry{Attempts: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				dead := r.topic("dead", 1)
				r.fill(r.one(), 1)
				var told atomic.Bool
				o.OnError = func(f varve.Failure) {
					time.Sleep(time.Second) // slower than it should be
					told.Store(true)
					if f.Outcome.String() != name {
						t.Errorf("outcome is %v", f.Outcome)
					}
				}
				s := r.consume("g", func(context.Context, varve.Delivery) error { return errBroken }, o, "t")
				synctest.Wait()
				r.stopped(s)
				if !told.Load() {
					t.Error("the stop has returned before OnError")
				}
				r.forget(dead.Name())
				r.engine.DeleteTopic("dead")
			}, loud)
		})
	}
}

// A stop waits for the read that is under way, and the log is not asked after it.
func TestStopWaitsForReads(t *testing.T) {
	var holding atomic.Bool
	var hold chan struct{}
	rule := func(r *rig) {
		hold = make(chan struct{})
		r.rule = func(op vfs.Op) vfs.Fault {
			if holding.Load() && op.Kind == vfs.OpRead && strings.Contains(op.Name, "topics/t/") {
				return vfs.Fault{Block: hold}
			}
			return vfs.Fault{}
		}
	}
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 5)
		holding.Store(true)
		var h handled
		s := r.consume("g", h.note, varve.ConsumeOptions{}, "t")
		synctest.Wait()
		time.AfterFunc(time.Minute, func() { close(hold) })
		begun := time.Now()
		r.stopped(s)
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("the stop took %v, the read a minute", took)
		}
		h.want(t)
	}, rule)
}
