package varve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// A handler that publishes into a topic which another group holds up gives its worker to
// that group's handler: with one worker too everything gets through.
func TestHandlerIsHeldByAnother(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.held()
		r.topic("in", 1)
		in := r.part("in", 0)
		r.fill(in, 100)
		copies := func(ctx context.Context, d varve.Delivery) error {
			off, err := p.Publish(ctx, big())
			if err == nil {
				r.note(p, off, big())
			}
			return err
		}
		a := r.consume("copies", copies, varve.ConsumeOptions{}, "in")
		synctest.Wait()
		if p.End() >= 30 {
			t.Errorf("%d records were published before the group came", p.End())
		}
		var h handled
		b := r.consume("slow", h.note, varve.ConsumeOptions{}, "t")
		time.Sleep(time.Minute)
		if got := len(h.values()); got != 100 {
			t.Errorf("%d of 100 records have come through", got)
		}
		r.stopped(a)
		r.stopped(b)
	}, workers(1), background)
}

// A group that holds up the topic to which its own handler publishes stands still, until a
// context ends: at the end of the engine at once.
func TestHandlerHeldByItself(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.held()
		r.publishBig(p, 21)
		r.forget("t")
		begun := make(chan struct{})
		failed := make(chan error, 1)
		r.consume("slow", func(ctx context.Context, _ varve.Delivery) error {
			close(begun)
			_, err := p.Publish(ctx, big())
			failed <- err
			return err
		}, varve.ConsumeOptions{}, "t")
		<-begun
		time.Sleep(time.Hour)
		select {
		case err := <-failed:
			t.Fatalf("the handler has published: %v", err)
		default:
		}
		now := time.Now()
		r.close()
		if err := <-failed; !errors.Is(err, varve.ErrClosed) || time.Since(now) > time.Second {
			t.Errorf("after %v the publish ended with %v", time.Since(now), err)
		}
		r.open()
		r.enterAll(r.part("t", 0))
	}, loud, background)
}

// A commit that is not on stable storage lets nothing go: after a power cut that takes it
// the group goes on at its place of before, and finds its records.
func TestHoldHeedsDurableCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall bool
		answer := make(chan struct{})
		r := newRig(t, background, loud, func(r *rig) {
			r.rule = func(op vfs.Op) vfs.Fault {
				if stall && syncsRecords(op) {
					return vfs.Fault{Block: answer}
				}
				return vfs.Fault{}
			}
		})
		p := r.held("retention.bytes=1")
		r.publishBig(p, 10)
		r.commit("slow", "t", 0, 3)
		r.publishBig(p, 8)
		stall = true
		go r.engine.CommitOffsets(context.Background(), "slow", varve.Commit{Topic: "t", Offset: 15})
		synctest.Wait()
		retained := make(chan error)
		go func() { retained <- r.engine.RunRetention() }()
		synctest.Wait()
		if p.Start() > 3 {
			t.Errorf("the log starts at %d for a commit that may be lost", p.Start())
		}
		left := r.disk.Crash(vfs.CrashOptions{})
		stall = false
		close(answer)
		<-retained
		r.close()
		r.disk = left
		r.open()
		r.wantCommitted("slow", "t", 0, 3)
		r.retain()
		if got := r.part("t", 0).Start(); got > 3 {
			t.Errorf("after the power cut the log starts at %d", got)
		}
		r.fillHeld(r.part("t", 0), publishes["one"])
		r.enterAllNew(r.part("t", 0))
	})
}

// enterAllNew enters what is not in the book.
func (r *rig) enterAllNew(p *varve.Partition) {
	r.t.Helper()
	r.mu.Lock()
	delete(r.acked, bookName(p))
	r.mu.Unlock()
	r.enterAll(p)
}

// The place of a group that a topic waits for does not expire, however long it is away.
func TestPlaceThatHoldsDoesNotExpire(t *testing.T) {
	for _, holder := range []string{"slow", "other"} {
		pushBubble(t, func(r *rig) {
			p := r.held("hold.groups=" + holder)
			r.fill(p, 5)
			r.commit("slow", "t", 0, 3)
			r.reopen() // from when the group is empty
			r.advance(time.Hour)
			time.Sleep(15 * time.Minute)
			want := varve.Offset(-1)
			if holder == "slow" {
				want = 3
			}
			r.wantCommitted("slow", "t", 0, want)
		}, func(r *rig) { r.opt.Groups.CommitRetention = 10 * time.Minute })
	}
}

// Deleting a group takes it out of hold.groups, durably, and leaves the others.
func TestDeletedGroupHoldsNothing(t *testing.T) {
	r := newRig(t)
	r.held("hold.groups=a,slow,b")
	r.topic("only", 1, "hold.groups=slow")
	r.commit("slow", "t", 0, 0)
	if err := r.engine.DeleteGroup("slow"); err != nil {
		t.Fatal(err)
	}
	r.kill()
	for topic, want := range map[string]string{"t": "a,b", "only": ""} {
		list := r.part(topic, 0).Topic().Config()
		at := slices.IndexFunc(list, func(c varve.ConfigEntry) bool { return c.Key == "hold.groups" })
		if list[at].Value != want {
			t.Errorf("topic %s is held for %q, want %q", topic, list[at].Value, want)
		}
	}
}

// A group is told of before it loses records, once, and anew after it was out of danger; and
// what it lost is told when it has lost it.
func TestNearLoss(t *testing.T) {
	for name, c := range map[string]struct {
		set  string
		max  int64
		near varve.Offset // with so many records the group at 2 is near
		age  time.Duration
	}{
		"size":   {"retention.bytes=20000", 0, 24, 0},
		"budget": {"retention.ms=-1", 20000, 20, 0},
		"age":    {"retention.ms=3600000", 0, 10, 56 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var told []varve.NearLoss
			r := newRig(t, background, func(r *rig) {
				r.opt.MaxBytes = c.max
				r.opt.Groups.OnNearLoss = func(n varve.NearLoss) { told = append(told, n) }
			})
			p := r.one("segment.bytes=5000", "index.interval.bytes=1", c.set)
			want := func(when string, n int) {
				t.Helper()
				r.retain()
				r.retain()
				if len(told) != n {
					t.Fatalf("%s: it was told %d times, want %d: %+v", when, len(told), n, told)
				}
			}
			r.publishBig(p, 10)
			r.commit("g", "t", 0, 2)
			r.commit("end", "t", 0, 10)
			want("far from it", 0)
			r.publishBig(p, int(c.near)-10)
			r.advance(c.age)
			want("near it", 1)
			n := told[0]
			if n.Group != "g" || fmt.Sprint(n.TopicPartition) != "t/0" || n.Committed != 2 || n.Lag != int64(c.near)-2 ||
				c.age == 0 && (n.Bytes < 0 || n.Bytes > 2000) || c.age > 0 && n.Time != 4*time.Minute {
				t.Errorf("told of %+v", n)
			}
			if p.Start() > 2 {
				t.Errorf("it is told when records are lost: the log starts at %d", p.Start())
			}
			if r.logged.first("a group is about to lose records") == "" {
				t.Error("the log says nothing")
			}
			r.commit("g", "t", 0, p.End())
			want("it has caught up", 1)
			r.commit("g", "t", 0, 2)
			want("near it again", 2)
		})
	}
}
