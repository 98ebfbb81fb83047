package varve_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// big is a record of about a thousand bytes, of which five fill a segment.
func big() varve.Record { return text("%s", strings.Repeat("x", 900)) }

// held is a topic of small segments that keeps its records for a group, "slow" where the
// settings name no other.
func (r *rig) held(settings ...string) *varve.Partition {
	r.t.Helper()
	base := []string{"hold.groups=slow", "hold.max.bytes=20000", "segment.bytes=5000", "index.interval.bytes=1"}
	r.topic("t", 1, append(base, settings...)...)
	return r.part("t", 0)
}

func (r *rig) publishBig(p *varve.Partition, n int) {
	r.t.Helper()
	for range n {
		r.publish(p, big())
	}
}

// What a group has not passed is kept, whatever the limits say: those of age, of size and
// of the engine. What it has passed goes.
func TestHoldKeepsSegments(t *testing.T) {
	for name, c := range map[string]struct {
		set      string
		maxBytes int64
	}{
		"age":    {"retention.ms=1000", 0},
		"size":   {"retention.bytes=1", 0},
		"both":   {"retention.ms=0", 1},
		"budget": {"retention.ms=-1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, background, func(r *rig) { r.opt.MaxBytes = c.maxBytes })
			p := r.held(c.set, "hold.groups=slow,quick", "hold.max.bytes=1000000")
			r.publishBig(p, 40)
			want := func(when string, low, high varve.Offset) {
				t.Helper()
				r.advance(time.Hour)
				r.retain()
				if got := r.part("t", 0).Start(); got < low || got > high {
					t.Errorf("%s: the log starts at %d, want %d to %d", when, got, low, high)
				}
			}
			want("groups without a place", 0, 0)
			r.commit("quick", "t", 0, 30)
			want("one without a place", 0, 0)
			r.commit("slow", "t", 0, 12)
			want("the slower one at 12", 7, 12)
			r.reopen()
			want("after a stop", 7, 12)
			r.kill()
			want("after a kill", 7, 12)
			r.commit("slow", "t", 0, 35)
			want("the slower one at 30", 25, 30)
			if _, err := r.part("t", 0).Trim(33); err != nil {
				t.Error(err)
			}
			want("trimmed to 33", 33, 33)
			if err := r.part("t", 0).Topic().Alter(nil, "hold.groups"); err != nil {
				t.Error(err)
			}
			want("held no more", 35, 40)
		})
	}
}

// publishes are the ways to publish, each of one batch of about a thousand bytes.
var publishes = map[string]func(ctx context.Context, p *varve.Partition) error{
	"one": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.Publish(ctx, big())
		return err
	},
	"many": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.Publish(ctx, text("%s", strings.Repeat("x", 400)), text("%s", strings.Repeat("x", 400)))
		return err
	},
	"on condition": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.PublishIf(ctx, p.LogEnd(), big())
		return err
	},
	"batch": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.PublishBatch(ctx, batchOf(record.BatchOptions{}, dated(time.Now().UnixMilli(), "%s", strings.Repeat("x", 900))))
		return err
	},
	"topic": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.Topic().Publish(ctx, big())
		return err
	},
	"all": func(ctx context.Context, p *varve.Partition) error {
		_, err := p.Topic().PublishAll(ctx, []varve.Record{big()})
		return err
	},
	"async": func(ctx context.Context, p *varve.Partition) error {
		pub := p.Topic().Publisher(varve.PublisherOptions{})
		done := make(chan error, 1)
		if err := pub.PublishAsync(ctx, big(), func(_ varve.Place, err error) { done <- err }); err != nil {
			return err
		}
		err := <-done
		if flushed := pub.Flush(ctx); flushed != err {
			return errors.New("flush says " + flushed.Error())
		}
		return err
	},
}

// fillHeld publishes until a publish would wait, and returns how many records there are.
func (r *rig) fillHeld(p *varve.Partition, publish func(context.Context, *varve.Partition) error) {
	r.t.Helper()
	for range 1000 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := publish(ctx, p)
		cancel()
		var held *varve.HeldError
		if errors.As(err, &held) {
			if held.Group != "slow" || held.TopicPartition.String() != "t/0" || held.Committed != r.committed("slow", "t", 0) ||
				held.Lag != int64(p.LogEnd()-max(held.Committed, p.Start())) || held.Bytes < held.Limit || held.Limit != 20000 {
				r.t.Errorf("refused with %+v", held)
			}
			return
		}
		if err != nil {
			r.t.Fatalf("publish: %v", err)
		}
	}
	r.t.Fatal("nothing holds publishers back")
}

// ownRecords are not entered in the book: they are read back instead.
func (r *rig) enterAll(p *varve.Partition) {
	r.t.Helper()
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			r.t.Fatal(err)
		}
		r.note(p, rec.Offset, rec)
	}
}

// behind is about how many bytes there are behind an offset.
func behind(p *varve.Partition, off varve.Offset) int64 {
	st := p.Stats()
	return st.Bytes * int64(st.LogEnd-off) / max(int64(st.LogEnd), 1)
}

// At the limit every kind of publish is refused, or waits until its context ends, and the
// error says who is how far behind; the limit is passed by no more than a batch. Each goes
// on when the group has committed.
func TestHoldIsAHardBound(t *testing.T) {
	for name, publish := range publishes {
		for _, full := range []string{"block", "refuse"} {
			t.Run(name+", "+full, func(t *testing.T) {
				bubble(t, func(r *rig) {
					p := r.held("hold.full="+full, "retention.bytes=1")
					begun := time.Now()
					r.fillHeld(p, publish)
					if waited := time.Since(begun) >= time.Second; waited != (full == "block") {
						t.Errorf("waited: %v", waited)
					}
					if got := behind(p, 0); got < 20000 || got > 21200 {
						t.Errorf("%d bytes are held", got)
					}
					end := p.LogEnd()
					r.commit("slow", "t", 0, end/2)
					r.fillHeld(p, publish)
					if got := behind(p, end/2); got < 19500 || got > 21700 {
						t.Errorf("%d bytes are held after a commit", got)
					}
					r.commit("slow", "t", 0, p.End()-1)
					if err := publish(context.Background(), p); err != nil {
						t.Errorf("with a group that has caught up: %v", err)
					}
					r.retain()
					r.enterAll(p)
				})
			})
		}
	}
}

// Many publishers at a time pass the limit by no more than one of them does, also when a
// commit has let all of them look again.
func TestHoldIsAHardBoundForMany(t *testing.T) {
	for _, name := range []string{"one", "async", "many"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, background)
			p := r.held("max.message.bytes=1200") // a batch is a record
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan struct{}, 50)
			for range 50 {
				go func() {
					for publishes[name](ctx, p) == nil {
					}
					ended <- struct{}{}
				}()
			}
			for range 20 {
				place := max(r.committed("slow", "t", 0), 0)
				for until := time.Now().Add(30 * time.Second); behind(p, place) < 18000; runtime.Gosched() {
					if time.Now().After(until) {
						t.Fatalf("with %d bytes held publishers wait", behind(p, place))
					}
				}
				if got := behind(p, place); got > 22000 {
					t.Fatalf("%d bytes are held", got)
				}
				r.commit("slow", "t", 0, (place+p.End()+1)/2)
			}
			cancel()
			for range 50 {
				<-ended
			}
			r.reopen() // what may have been stored, is or is not
			r.enterAll(r.part("t", 0))
		})
	}
}

// Who waits goes on by itself when the reason is gone, and is told when there is nothing
// to wait for any more.
func TestWhoIsHeldGoesOn(t *testing.T) {
	alter := func(set map[string]string, unset ...string) func(*rig) error {
		return func(r *rig) error { return r.part("t", 0).Topic().Alter(set, unset...) }
	}
	for name, c := range map[string]struct {
		happens func(*rig) error
		want    error // nil: it goes on; ErrNoCommit: it is a *HeldError
	}{
		"commit": {func(r *rig) error {
			return r.engine.CommitOffsets(context.Background(), "slow", varve.Commit{Topic: "t", Offset: r.part("t", 0).End()})
		}, nil},
		"reset": {func(r *rig) error {
			_, err := r.engine.ResetGroup(context.Background(), "slow", varve.Reset{Topics: []string{"t"}, To: varve.Latest()})
			return err
		}, nil},
		"group deleted": {func(r *rig) error { return r.engine.DeleteGroup("slow") }, nil},
		"hold off":      {alter(nil, "hold.groups"), nil},
		"another group": {func(r *rig) error {
			r.commit("other", "t", 0, 15)
			return alter(map[string]string{"hold.groups": "other"})(r)
		}, nil},
		"more":   {alter(map[string]string{"hold.max.bytes": "30000"}), nil},
		"refuse": {alter(map[string]string{"hold.full": "refuse"}), varve.ErrNoCommit},
		"trim": {func(r *rig) error {
			_, err := r.part("t", 0).Trim(15)
			return err
		}, nil},
		"topic deleted": {func(r *rig) error {
			r.forget("t")
			return r.engine.DeleteTopic("t")
		}, varve.ErrClosed},
		"close": {func(r *rig) error {
			r.close()
			return nil
		}, varve.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, background)
				p := r.held()
				r.publishBig(p, 10)
				r.commit("slow", "t", 0, 2)
				r.publishBig(p, 13)
				done := make(chan error)
				for range 3 {
					go func() {
						off, err := p.Publish(context.Background(), big())
						if err == nil {
							r.note(p, off, big())
						}
						done <- err
					}()
				}
				time.Sleep(time.Hour)
				if err := r.logged.first("a group keeps publishers back"); err == "" {
					t.Error("the log says nothing")
				}
				select {
				case err := <-done:
					t.Fatalf("a publish has not waited: %v", err)
				default:
				}
				happened := make(chan error, 1)
				go func() { happened <- c.happens(r) }()
				for range 3 {
					select {
					case err := <-done:
						var held *varve.HeldError
						if c.want == varve.ErrNoCommit && !errors.As(err, &held) || c.want != varve.ErrNoCommit && !errors.Is(err, c.want) {
							t.Errorf("the publish ended with %v", err)
						}
					case <-time.After(time.Second):
						t.Fatal("a publish waits still")
					}
				}
				if err := <-happened; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
