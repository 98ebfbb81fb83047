package varve_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
)

// handledBy are the figures of what handlers have done for a group.
func (r *rig) handledBy(groupID string) varve.HandledStats {
	r.t.Helper()
	groups, err := r.engine.GroupStats()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, g := range groups {
		if g.ID == groupID {
			return g.Handled
		}
	}
	r.t.Fatalf("there are no figures of group %s", groupID)
	return varve.HandledStats{}
}

func (r *rig) wantHandled(when string, want varve.HandledStats) {
	r.t.Helper()
	if got := r.handledBy("g"); got != want {
		r.t.Errorf("%s: %+v, want %+v", when, got, want)
	}
}

// What comes of records is counted, of three the second of which fails, with each policy; a
// partition counts as stopped while it is.
func TestHandledIsCounted(t *testing.T) {
	later := func(ctx context.Context, d varve.Delivery) error {
		if d.Offset == 1 {
			return d.Done(errBroken)
		}
		return d.Done(nil)
	}
	now := func(_ context.Context, d varve.Delivery) error {
		if d.Offset == 1 {
			panic(errBroken)
		}
		return nil
	}
	stopped := varve.HandledStats{Records: 1, Errors: 3, Retries: 2, Stopped: 1}
	skipped := varve.HandledStats{Records: 2, Errors: 3, Retries: 2, Skipped: 1}
	buried := varve.HandledStats{Records: 2, Errors: 3, Retries: 2, DeadLetters: 1}
	for _, c := range []struct {
		name    string
		handler varve.Handler
		o       varve.ConsumeOptions
		want    varve.HandledStats
	}{
		{"stop", now, varve.ConsumeOptions{}, stopped},
		{"stop by key", now, varve.ConsumeOptions{ByKey: true}, stopped},
		{"stop at most once", now, varve.ConsumeOptions{Guarantee: varve.AtMostOnce}, varve.HandledStats{Records: 1, Errors: 1, Stopped: 1}},
		{"skip", now, varve.ConsumeOptions{OnFailure: varve.SkipRecord}, skipped},
		{"skip, later", later, varve.ConsumeOptions{OnFailure: varve.SkipRecord, AckLater: true}, skipped},
		{"bury", now, varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead"}, buried},
		{"bury, later, by key", later, varve.ConsumeOptions{OnFailure: varve.DeadLetter, DeadLetters: "dead", AckLater: true, ByKey: true}, buried},
	} {
		t.Run(c.name, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				r.topic("dead", 1)
				r.fill(r.one(), 3)
				c.o.Retry = varve.Retry{Attempts: 3, First: time.Second}
				s := r.consume("g", c.handler, c.o, "t")
				time.Sleep(time.Minute)
				r.wantHandled("handled", c.want)
				r.stopped(s)
				c.want.Stopped = 0
				r.wantHandled("left", c.want)
				r.forget("dead")
				if err := r.engine.DeleteTopic("dead"); err != nil {
					t.Error(err)
				}
			}, loud)
		})
	}
}

// A partition that is resumed is counted once more when it stops again, and not at all when
// it goes on, or when it has failed behind a stop.
func TestStoppedPartitionsAreCounted(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 1)
		r.fill(r.part("t", 1), 1)
		broken := true
		s := r.consume("g", func(context.Context, varve.Delivery) error {
			if broken {
				return errBroken
			}
			return nil
		}, varve.ConsumeOptions{Retry: varve.Retry{Attempts: 1}}, "t")
		time.Sleep(time.Second)
		r.wantHandled("both have failed", varve.HandledStats{Errors: 2, Stopped: 2})
		resume := func(n int32) {
			if err := s.Resume(varve.TopicPartition{Topic: "t", Partition: n}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		resume(0)
		r.wantHandled("one has failed again", varve.HandledStats{Errors: 3, Retries: 1, Stopped: 2})
		broken = false
		resume(1)
		r.wantHandled("the other has not", varve.HandledStats{Records: 1, Errors: 3, Retries: 2, Stopped: 1})
		r.stopped(s)
		r.wantHandled("left", varve.HandledStats{Records: 1, Errors: 3, Retries: 2})

		under, fail := make(chan struct{}), make(chan struct{})
		s = r.consume("g", func(context.Context, varve.Delivery) error {
			close(under)
			<-fail
			return errBroken
		}, varve.ConsumeOptions{Retry: varve.Retry{Attempts: 1}}, "t")
		<-under
		go func() {
			time.Sleep(time.Second)
			close(fail)
		}()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		r.wantHandled("failed behind a stop", varve.HandledStats{Records: 1, Errors: 4, Retries: 2})
	}, loud)
}

// Handlers that are under way are counted, with the workers they hold.
func TestHandlersAreCounted(t *testing.T) {
	want := func(r *rig, when string, want varve.HandlerStats) {
		r.t.Helper()
		synctest.Wait()
		if got := r.engine.Stats().Handlers; got != want {
			r.t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	pushBubble(t, func(r *rig) {
		r.topic("t", 3)
		r.topic("empty", 1)
		for i := range 3 {
			r.fill(r.part("t", i), 1)
		}
		want(r, "idle", varve.HandlerStats{Workers: 2})
		end := make(chan struct{})
		s := r.consume("g", func(context.Context, varve.Delivery) error { <-end; return nil }, varve.ConsumeOptions{}, "t")
		want(r, "at work", varve.HandlerStats{Workers: 2, Busy: 2, Running: 2})
		close(end)
		want(r, "done", varve.HandlerStats{Workers: 2})
		r.stopped(s)
		m := r.join("other", varve.JoinOptions{}, "empty")
		s = r.consume("h", func(ctx context.Context, _ varve.Delivery) error { m.Poll(ctx); return nil }, varve.ConsumeOptions{}, "t")
		want(r, "waiting for the engine", varve.HandlerStats{Workers: 2, Running: 3})
		r.leave(m)
		want(r, "have waited", varve.HandlerStats{Workers: 2})
		r.stopped(s)
	}, workers(2))
}
