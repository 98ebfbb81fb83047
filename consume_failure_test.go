package varve_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

var errBroken = errors.New("broken")

// Each policy, with errors and panics, in a partition of three records the second of which
// fails.
func TestFailurePolicies(t *testing.T) {
	ways := map[string]func() error{
		"error":        func() error { return errBroken },
		"panic":        func() error { panic(errBroken) },
		"nil panic":    func() error { panic(nil) },
		"ended":        func() error { runtime.Goexit(); return nil },
		"wrapped":      func() error { return fmt.Errorf("wrapped: %w", errBroken) },
		"out of range": func() error { return []error{errBroken}[len(errBroken.Error())] },
	}
	for _, c := range []struct {
		name      string
		o         varve.ConsumeOptions
		handled   string
		outcomes  string
		committed varve.Offset
		dead      int
	}{
		{"stop", varve.ConsumeOptions{}, "0 1 1 1", "retried retried stopped", 1, 0},
		{"stop by key", varve.ConsumeOptions{ByKey: true}, "0 1 1 1", "retried retried stopped", 1, 0},
		{"skip", varve.ConsumeOptions{OnFailure: varve.SkipRecord}, "0 1 1 1 2", "retried retried skipped", 3, 0},
		{"skip by key", varve.ConsumeOptions{OnFailure: varve.SkipRecord, ByKey: true}, "0 1 1 1 2", "retried retried skipped", 3, 0},
		{"bury", varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead"}, "0 1 1 1 2", "retried retried buried", 3, 1},
		{"bury by key", varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead", ByKey: true}, "0 1 1 1 2", "retried retried buried", 3, 1},
		{"once", varve.ConsumeOptions{Guarantee: varve.AtMostOnce}, "0 1", "stopped", 2, 0},
		{"once, and skip", varve.ConsumeOptions{Guarantee: varve.AtMostOnce, OnFailure: varve.SkipRecord}, "0 1 2", "skipped", 3, 0},
		{"once, and bury", varve.ConsumeOptions{Guarantee: varve.AtMostOnce, OnFailure: varve.DeadLetter, DeadLetters: "dead"}, "0 1 2", "buried", 3, 1},
	} {
		for way, fails := range ways {
			t.Run(c.name+"/"+way, func(t *testing.T) {
				pushBubble(t, func(r *rig) {
					dead := r.topic("dead", 1)
					r.fill(r.one(), 3)
					var h handled
					o := c.o
					o.OnError = h.failed
					o.Retry = varve.Retry{Attempts: 3, First: time.Second}
					s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
						h.add("%d", d.Offset)
						if d.Offset == 1 {
							return fails()
						}
						return nil
					}, o, "t")
					time.Sleep(time.Minute)
					r.stopped(s)
					if got := strings.Join(h.values(), " "); got != c.handled {
						t.Errorf("handled %s, want %s", got, c.handled)
					}
					var outcomes []string
					for i, f := range h.failures() {
						outcomes = append(outcomes, f.Outcome.String())
						if f.Offset != 1 || f.Attempt != i+1 || f.Group != "g" || f.Topic != "t" || f.Err == nil {
							t.Errorf("failure %d is %+v", i, f)
						}
						if way != "nil panic" && way != "ended" && way != "out of range" && !errors.Is(f.Err, errBroken) {
							t.Errorf("failure is %v", f.Err)
						}
						if p := new(varve.PanicError); errors.As(f.Err, &p) != !strings.Contains("error wrapped", way) {
							t.Errorf("failure is a %T", f.Err)
						}
					}
					if got := strings.Join(outcomes, " "); got != c.outcomes {
						t.Errorf("outcomes are %s, want %s", got, c.outcomes)
					}
					r.wantCommitted("g", "t", 0, c.committed)
					if n := len(collect(t, dead.Records(context.Background(), varve.Earliest()))); n != c.dead {
						t.Errorf("%d dead letters, want %d", n, c.dead)
					}
					r.forget("dead")
					if err := r.engine.DeleteTopic("dead"); err != nil {
						t.Error(err)
					}
				}, loud)
			})
		}
	}
}

// A dead letter is the record, with its headers and where it comes from and why.
func TestDeadLetter(t *testing.T) {
	pushBubble(t, func(r *rig) {
		dead := r.topic("dead", 3)
		rec := dated(1_700_000_000_000, "value")
		rec.Key = []byte("key")
		rec.Headers = []varve.Header{{Key: "a", Value: []byte("1")}, {Key: "varve.error", Value: nil}}
		r.fill(r.one(), 4)
		r.publish(r.part("t", 0), rec)
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			if d.Offset == 4 {
				return fmt.Errorf("%s%w", strings.Repeat("x", 5000), errBroken)
			}
			return nil
		}, varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead", Retry: varve.Retry{Attempts: 2}}, "t")
		time.Sleep(time.Minute)
		r.stopped(s)
		list := collect(t, dead.Records(context.Background(), varve.Earliest()))
		if len(list) != 1 || string(list[0].Key) != "key" || string(list[0].Value) != "value" {
			t.Fatalf("dead letters are %+v", list)
		}
		if list[0].Timestamp != r.now.Load() {
			t.Errorf("it is dated %d, want the time of the append", list[0].Timestamp)
		}
		var got []string
		for _, h := range list[0].Headers {
			got = append(got, fmt.Sprintf("%s=%.10s", h.Key, h.Value))
		}
		want := "a=1 varve.error= varve.topic=t varve.partition=0 varve.offset=4 varve.timestamp=1700000000 varve.group=g varve.attempts=2 varve.error=xxxxxxxxxx"
		if strings.Join(got, " ") != want {
			t.Errorf("headers are %s", strings.Join(got, " "))
		}
		r.forget("dead")
		r.engine.DeleteTopic("dead")
	})
}

// A dead letter that cannot be published is tried again, and then stops the partition: it
// is never skipped.
func TestDeadLetterThatFails(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("dead", 1, "max.message.bytes=100")
		r.fill(r.one(), 2)
		var h handled
		s := r.consume("g", func(context.Context, varve.Delivery) error { return errBroken }, varve.ConsumeOptions{
			OnFailure: varve.DeadLetter, DeadLetters: "dead", OnError: h.failed, Retry: varve.Retry{Attempts: 2},
		}, "t")
		time.Sleep(time.Minute)
		f := h.failures()
		if len(f) != 3 || f[2].Outcome != varve.Stopped || !errors.As(f[2].Err, new(*varve.TooLargeError)) || !errors.Is(f[2].Err, errBroken) {
			t.Fatalf("failures are %v", f)
		}
		if list := s.Stopped(); len(list) != 1 || !errors.Is(&list[0], errBroken) {
			t.Errorf("stopped are %v", list)
		}
		topic, _ := r.engine.Topic("dead")
		if err := topic.Alter(nil, "max.message.bytes"); err != nil {
			t.Error(err)
		}
		if err := s.Resume(varve.TopicPartition{Topic: "t"}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if n := topic.Stats().Records; n != 2 {
			t.Errorf("%d dead letters, want 2", n)
		}
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 2)
		r.forget("dead")
		r.engine.DeleteTopic("dead")
	}, loud)
}

// A backoff doubles up to its bound, and has no worker: with one, another partition goes
// on all the while.
func TestBackoffHoldsNoWorker(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 1)
		var at []time.Duration
		var other int
		begin := time.Now()
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			if d.Partition == 1 {
				other++
				return nil
			}
			at = append(at, time.Since(begin))
			return errBroken
		}, varve.ConsumeOptions{Retry: varve.Retry{Attempts: -1, First: time.Second, Most: 5 * time.Second}}, "t")
		for range 20 {
			time.Sleep(time.Second)
			r.fill(r.part("t", 1), 1)
			synctest.Wait()
		}
		r.stopped(s)
		want := []time.Duration{0, 1e9, 3e9, 7e9, 12e9, 17e9}
		if fmt.Sprint(at[:min(len(at), 6)]) != fmt.Sprint(want) {
			t.Errorf("attempts were after %v, want %v", at, want)
		}
		if other != 20 {
			t.Errorf("%d records of the other partition were handled, want 20", other)
		}
		r.wantCommitted("g", "t", 0, -1)
	}, workers(1))
}

// With one worker, a handler that waits inside the engine gives its slot back, and has one
// again before it goes on.
func TestWaitingHandlersGiveTheirSlotBack(t *testing.T) {
	type waiting func(ctx context.Context, r *rig, out *varve.Topic) error
	var slow *varve.Subscription // whose record is never acknowledged
	for name, wait := range map[string]waiting{
		"publish": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			_, err := out.Publish(ctx, text("out"))
			return err
		},
		"publish, whatever becomes of the context": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			_, err := out.Publish(context.WithoutCancel(ctx), text("out"))
			return err
		},
		"publish several, with a deadline": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			ctx, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, err := out.PublishAll(ctx, []varve.Record{text("out"), text("out")})
			return err
		},
		"room": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			p := out.Publisher(varve.PublisherOptions{MaxInFlight: 1})
			p.PublishAsync(ctx, text("out"), nil)
			return p.PublishAsync(ctx, text("out"), nil)
		},
		"flush": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			p := out.Publisher(varve.PublisherOptions{})
			p.PublishAsync(ctx, text("out"), nil)
			return p.Flush(ctx)
		},
		"durable": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			out.Publisher(varve.PublisherOptions{}).PublishAsync(ctx, text("out"), nil)
			time.Sleep(time.Second) // until it is appended
			p, _ := out.Partition(0)
			return p.WaitDurable(ctx, p.LogEnd())
		},
		"commit": func(ctx context.Context, r *rig, _ *varve.Topic) error {
			return r.engine.CommitOffsets(ctx, "other", varve.Commit{Topic: "t", Offset: 1})
		},
		"read": func(ctx context.Context, _ *rig, out *varve.Topic) error {
			reader, err := out.Reader(varve.Latest())
			if err == nil {
				_, err = reader.Next(ctx)
			}
			return err
		},
		"poll": func(ctx context.Context, r *rig, _ *varve.Topic) error {
			m := r.join("poll", varve.JoinOptions{}, "out")
			_, err := m.Poll(ctx)
			return err
		},
		"stop": func(ctx context.Context, _ *rig, _ *varve.Topic) error {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Hour)
			defer cancel()
			if err := slow.Stop(ctx); !errors.As(err, new(*varve.UnfinishedError)) {
				return fmt.Errorf("stop: %w", err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var holding atomic.Bool
			var hold chan struct{}
			rule := func(r *rig) {
				hold = make(chan struct{})
				r.rule = func(op vfs.Op) vfs.Fault {
					if holding.Load() && syncsRecords(op) {
						return vfs.Fault{Block: hold}
					}
					return vfs.Fault{}
				}
			}
			pushBubble(t, func(r *rig) {
				out := r.topic("out", 1)
				r.topic("one", 1)
				r.fill(r.part("one", 0), 1)
				r.topic("t", 2)
				r.commit("other", "t", 0, 0)
				r.fill(r.part("t", 0), 1)
				r.fill(r.part("t", 1), 1)
				slow = r.consume("slow", func(context.Context, varve.Delivery) error { return nil }, varve.ConsumeOptions{AckLater: true}, "one")
				synctest.Wait()
				holding.Store(true)
				var h handled
				var calls, now atomic.Int32
				s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
					if calls.Add(1) == 1 {
						h.add("waits")
						if err := wait(ctx, r, out); err != nil {
							t.Error(err)
						}
						h.add("goes on")
					} else {
						h.add("works")
					}
					if now.Add(1) > 1 {
						t.Error("two handlers at work")
					}
					time.Sleep(time.Minute)
					now.Add(-1)
					h.add("returns")
					return nil
				}, varve.ConsumeOptions{}, "t")
				time.Sleep(30 * time.Second)
				h.want(t, "waits", "works")
				holding.Store(false)
				close(hold)
				out.Publish(context.Background(), text("for who waits"))
				time.Sleep(3 * time.Hour)
				h.want(t, "waits", "works", "returns", "goes on", "returns")
				r.stopped(s)
				r.wantCommitted("g", "t", 0, 1)
				r.wantCommitted("g", "t", 1, 1)
				given, cancel := context.WithCancel(context.Background())
				cancel()
				slow.Stop(given)
				r.forget("out")
				r.engine.DeleteTopic("out")
			}, workers(1), rule, loud)
		})
	}
}

// A goroutine that a handler leaves behind has no slot to give.
func TestContextOfAHandlerThatReturned(t *testing.T) {
	pushBubble(t, func(r *rig) {
		out := r.topic("out", 1)
		r.topic("t", 3)
		for i := range 3 {
			r.fill(r.part("t", i), 5)
		}
		var now, left atomic.Int32
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if now.Add(1) > 1 {
				t.Error("two handlers at work")
			}
			left.Add(2)
			for range 2 {
				go func() {
					defer left.Add(-1)
					reader, _ := out.Reader(varve.Latest())
					time.Sleep(1500 * time.Millisecond) // the handler has returned
					reader.Next(ctx)
				}()
			}
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		}, varve.ConsumeOptions{}, "t")
		time.Sleep(time.Minute)
		r.wantCommitted("g", "t", 0, 5)
		r.stopped(s)
		synctest.Wait()
		if n := left.Load(); n != 0 {
			t.Errorf("%d goroutines still wait with the context of a subscription that has stopped", n)
		}
	}, workers(1))
}

// A dead letter that is to be tried again later holds up no stop, and its record is the
// next one's.
func TestStopBesideADeadLetterThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		guarantee varve.Guarantee
		outcomes  string
		next      []string
	}{
		"at least once": {varve.AtLeastOnce, "retried", []string{"t/0-0", "t/0-1"}},
		"at most once":  {varve.AtMostOnce, "stopped", []string{"t/0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				r.topic("dead", 1, "max.message.bytes=100")
				r.fill(r.one(), 2)
				var h handled
				o := varve.ConsumeOptions{
					Guarantee: c.guarantee, OnFailure: varve.DeadLetter, DeadLetters: "dead", OnError: h.failed,
					Retry: varve.Retry{Attempts: 2, First: time.Hour, Most: time.Hour}, // of the handler, and of the letter
				}
				s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
					h.note(ctx, d)
					return errBroken
				}, o, "t")
				time.Sleep(90 * time.Minute)
				begun := time.Now()
				r.stopped(s)
				if took := time.Since(begun); took > 0 {
					t.Errorf("the stop took %v", took)
				}
				f := h.failures()
				if last := f[len(f)-1]; last.Outcome.String() != c.outcomes || !errors.As(last.Err, new(*varve.TooLargeError)) {
					t.Errorf("in the end: %+v, want %s", last, c.outcomes)
				}
				var next handled
				r.stoppedAfterIdle(r.consume("g", next.note, varve.ConsumeOptions{}, "t"))
				next.want(t, c.next...)
				r.forget("dead")
				r.engine.DeleteTopic("dead")
			}, loud)
		})
	}
}
