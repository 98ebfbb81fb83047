package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// store is a database with transactions: places, and the values of the records whose effects
// it holds. It outlives engines.
type store struct {
	mu      sync.Mutex
	places  map[varve.PlaceKey]varve.StoredPlace
	effects []string
	asked   int
}

func newStore() *store { return &store{places: map[varve.PlaceKey]varve.StoredPlace{}} }

func (s *store) placeOf(_ context.Context, key varve.PlaceKey) (varve.StoredPlace, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	p, some := s.places[key]
	return p, some, nil
}

// apply is a transaction: the effect of a record and the place behind it, or nothing.
func (s *store) apply(key varve.PlaceKey, epoch record.Epoch, rec *varve.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, some := s.places[key]; some && p.Covers(epoch, rec.Offset) {
		return false
	}
	s.places[key] = varve.StoredPlace{Offset: rec.Offset + 1, LeaderEpoch: epoch}
	s.effects = append(s.effects, string(rec.Value))
	return true
}

func (s *store) handle(_ context.Context, d varve.Delivery) error {
	s.apply(d.PlaceKey(), d.LeaderEpoch, &d.Record)
	return nil
}

func (s *store) applyAll(p varve.Polled) (applied int) {
	for i := range p.Records {
		if s.apply(p.PlaceKey(), p.LeaderEpoch, &p.Records[i]) {
			applied++
		}
	}
	return applied
}

func (s *store) want(t testing.TB, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.effects, want) {
		t.Errorf("effects %q, want %q", s.effects, want)
	}
}

func (s *store) options() varve.ConsumeOptions { return varve.ConsumeOptions{PlaceOf: s.placeOf} }

// drainInto polls what there is into a store.
func (r *rig) drainInto(m *varve.Member, s *store) (errs []error) {
	r.t.Helper()
	for {
		p, ok, err := m.TryPoll(context.Background())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !ok {
			return errs
		}
		s.applyAll(p)
	}
}

// A crash between the transaction of an effect and the commit repeats nothing and skips
// nothing, wherever the commit stands: behind the store, or, where that is an older copy,
// ahead of it.
func TestStoredPlaceIsWhereReadingGoesOn(t *testing.T) {
	for name, committed := range map[string]varve.Offset{"behind": 2, "ahead": 8} {
		for _, push := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, push %t", name, push), func(t *testing.T) {
				pushBubble(t, func(r *rig) {
					r.fill(r.one(), 10)
					s := newStore()
					var handed []varve.Offset
					// It dies at offset 5, before the transaction.
					first := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
						if d.Offset >= 5 {
							return errBroken
						}
						return s.handle(ctx, d)
					}, varve.ConsumeOptions{PlaceOf: s.placeOf, CommitInterval: time.Hour}, "t")
					synctest.Wait()
					s.want(t, numbered("t/0", 0, 5)...)
					r.wantCommitted("g", "t", 0, -1)
					_ = first.Stop(context.Background())
					r.commit("g", "t", 0, committed)
					r.kill()
					if push {
						r.stoppedAfterIdle(r.consume("g", func(ctx context.Context, d varve.Delivery) error {
							handed = append(handed, d.Offset)
							return s.handle(ctx, d)
						}, s.options(), "t"))
					} else {
						m := r.join("g", varve.JoinOptions{PlaceOf: s.placeOf}, "t")
						at, err := m.Position("t", 0)
						if err != nil {
							t.Error(err)
						}
						handed = []varve.Offset{at}
						r.drainInto(m, s)
						r.commitPolled(m)
						r.leave(m)
					}
					if handed[0] != 5 {
						t.Errorf("it goes on at %d, want 5", handed[0])
					}
					s.want(t, numbered("t/0", 0, 10)...)
					r.wantCommitted("g", "t", 0, 10) // what lag is counted from follows
				})
			})
		}
	}
}

// Where there is nothing left to handle, what the group has committed follows the store.
func TestCommitFollowsTheStore(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 4)
		s := newStore()
		r.stoppedAfterIdle(r.consume("g", s.handle, s.options(), "t"))
		r.commit("g", "t", 0, 1)
		sub := r.consume("g", s.handle, s.options(), "t")
		time.Sleep(time.Second)
		r.wantCommitted("g", "t", 0, 4)
		r.stopped(sub)
		s.want(t, numbered("t/0", 0, 4)...)
	})
}

// A topic that was deleted and made anew begins at its beginning.
func TestStoredPlaceIsOfOneTopic(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 5)
		s := newStore()
		sub := r.consume("g", s.handle, s.options(), "t")
		synctest.Wait()
		if err := r.engine.DeleteTopic("t"); err != nil {
			t.Fatal(err)
		}
		r.forget("t")
		r.fill(r.one(), 7)
		synctest.Wait()
		r.stopped(sub)
		s.want(t, append(numbered("t/0", 0, 5), numbered("t/0", 0, 7)...)...)
		if len(s.places) != 2 {
			t.Errorf("places %v", s.places)
		}
	})
}

// What a power cut took was processed. What comes to its offsets is handled all the same,
// also where it reaches past the place by then; and it is told.
func TestStoredPlaceDoesNotPassForOtherRecords(t *testing.T) {
	for _, push := range []bool{true, false} {
		t.Run(fmt.Sprintf("push %t", push), func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				p := r.one("durability=os")
				r.fill(p, 3)
				r.reopen() // these are durable
				p = r.part("t", 0)
				lost := []varve.Record{text("lost-0"), text("lost-1"), text("lost-2")}
				if _, err := p.Publish(context.Background(), lost...); err != nil {
					t.Fatal(err)
				}
				s := newStore()
				r.stoppedAfterIdle(r.consume("g", s.handle, s.options(), "t"))
				r.loud = true
				r.cut(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
				p = r.part("t", 0)
				if p.End() != 3 {
					t.Fatalf("the cut left %d records", p.End())
				}
				r.publish(p, text("new-0"), text("new-1"), text("new-2"), text("new-3"))
				var told error
				if push {
					var h handled
					o := s.options()
					o.OnError = h.failed
					r.stoppedAfterIdle(r.consume("g", s.handle, o, "t"))
					if f := h.failures(); len(f) != 1 || f[0].Outcome != varve.LostRecords || f[0].Offset != 3 {
						t.Fatalf("told %+v", f)
					}
					told = h.failures()[0].Err
				} else {
					m := r.join("g", varve.JoinOptions{PlaceOf: s.placeOf}, "t")
					errs := r.drainInto(m, s)
					if len(errs) != 1 {
						t.Fatalf("told %v", errs)
					}
					told = errs[0]
					r.leave(m)
				}
				var lostPlace *varve.StoredPlaceError
				if !errors.As(told, &lostPlace) || lostPlace.Left != 3 || lostPlace.Stored.Offset != 6 {
					t.Errorf("told %v", told)
				}
				want := append(numbered("t/0", 0, 3), "lost-0", "lost-1", "lost-2", "new-0", "new-1", "new-2", "new-3")
				s.want(t, want...)
				again := r.consume("g", s.handle, varve.ConsumeOptions{PlaceOf: s.placeOf, OnError: func(f varve.Failure) {
					t.Errorf("told once more: %+v", f)
				}}, "t")
				r.stoppedAfterIdle(again)
				s.want(t, want...)
			})
		})
	}
}

// A poll has records of one leader epoch, so that one condition is enough for all of them.
func TestPollIsOfOneLeaderEpoch(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		r.kill()
		r.publish(r.part("t", 0), text("b-0"), text("b-1"))
		m := r.join("g", varve.JoinOptions{}, "t")
		defer r.leave(m)
		var got []string
		for {
			p, ok, err := m.TryPoll(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			got = append(got, fmt.Sprintf("epoch %d: %d from %d", p.LeaderEpoch, len(p.Records), p.Records[0].Offset))
			r.commitPolled(m)
			r.wantCommitted("g", "t", 0, p.Records[len(p.Records)-1].Offset+1)
		}
		if want := []string{"epoch 0: 3 from 0", "epoch 1: 2 from 3"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A member that was put out writes late. The store's condition lets each record count once,
// whoever is first.
func TestLateWriterIsStoppedByTheStore(t *testing.T) {
	for _, lateFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("late writer first %t", lateFirst), func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.fill(r.one(), 6)
				s := newStore()
				o := varve.JoinOptions{PlaceOf: s.placeOf, MaxPollInterval: time.Minute, MaxRecords: 4}
				a := r.join("g", o, "t")
				late, err := a.Poll(context.Background())
				if err != nil || len(late.Records) != 4 {
					t.Fatalf("%d records, %v", len(late.Records), err)
				}
				time.Sleep(time.Hour) // a pause of the goroutine
				b := r.join("g", o, "t")
				polled, err := b.Poll(context.Background())
				if err != nil || polled.Records[0].Offset != 0 {
					t.Fatalf("%+v, %v", polled, err)
				}
				writers := []varve.Polled{polled, late}
				if lateFirst {
					slices.Reverse(writers)
				}
				if n, m := s.applyAll(writers[0]), s.applyAll(writers[1]); n != 4 || m != 0 {
					t.Errorf("the first applied %d, the second %d", n, m)
				}
				if err := a.Commit(context.Background()); !errors.As(err, new(*varve.FencedError)) {
					t.Errorf("the late writer commits: %v", err)
				}
				r.drainInto(b, s)
				s.want(t, numbered("t/0", 0, 6)...)
				r.leave(b)
			})
		})
	}
}

// Members come and go while records come: each counts once, in order of its partition. A
// handler that a stop has left behind writes late.
func TestStoredPlacesWhileMembersComeAndGo(t *testing.T) {
	const parts, each = 4, 400
	r := newRig(t, workers(4))
	r.topic("t", parts)
	s := newStore()
	var left atomic.Int64
	left.Store(parts * each)
	all := make(chan struct{})
	handler := func(_ context.Context, d varve.Delivery) error {
		if rand.IntN(50) == 0 {
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
		}
		if s.apply(d.PlaceKey(), d.LeaderEpoch, &d.Record) && left.Add(-1) == 0 {
			close(all)
		}
		if rand.IntN(40) == 0 {
			return errBroken // behind its transaction
		}
		return nil
	}
	o := s.options()
	o.Retry = varve.Retry{Attempts: -1, First: time.Millisecond, Most: time.Millisecond}
	o.CommitInterval = 5 * time.Millisecond
	var work sync.WaitGroup
	for range 3 {
		work.Go(func() {
			for {
				sub, err := r.engine.Consume(context.Background(), "g", []string{"t"}, handler, o)
				if err != nil {
					t.Error(err)
					return
				}
				ended := false
				select {
				case <-all:
					ended = true
				case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
				}
				within, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(2000))*time.Microsecond)
				err = sub.Stop(within)
				cancel()
				if err != nil && !errors.As(err, new(*varve.UnfinishedError)) {
					t.Error(err)
				}
				if ended {
					return
				}
			}
		})
	}
	for n := range each {
		for i := range parts {
			r.publish(r.part("t", i), text("%d-%d", i, n))
		}
	}
	work.Wait()
	next := map[int]int{}
	for _, effect := range s.effects {
		var part, n int
		fmt.Sscanf(effect, "%d-%d", &part, &n)
		if n != next[part] {
			t.Fatalf("partition %d: record %d counts where %d should", part, n, next[part])
		}
		next[part]++
	}
}

// A store that is away is asked again, holds no worker meanwhile, and no other partition; one
// that panics does no harm.
func TestStoreThatIsAway(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 2)
		r.fill(r.part("t", 1), 2)
		s := newStore()
		var h handled
		tries := 0
		sub := r.consume("g", s.handle, varve.ConsumeOptions{OnError: h.failed, PlaceOf: func(ctx context.Context, key varve.PlaceKey) (varve.StoredPlace, bool, error) {
			if key.Partition == 0 {
				switch tries++; {
				case tries == 1:
					panic("away")
				case tries == 2:
					runtime.Goexit()
				case tries < 20:
					return varve.StoredPlace{}, false, errBroken
				}
			}
			return s.placeOf(ctx, key)
		}}, "t")
		synctest.Wait()
		s.want(t, numbered("t/1", 0, 2)...)
		time.Sleep(time.Hour)
		s.want(t, append(numbered("t/1", 0, 2), numbered("t/0", 0, 2)...)...)
		if f := h.failures(); len(f) != 19 || f[2].Outcome != varve.Retried || f[2].Attempt != 3 || !errors.Is(f[2].Err, errBroken) {
			t.Errorf("told %d times", len(f))
		}
		r.stopped(sub)
	}, workers(1))
}

// A stop waits for a store that is asked, names what it has not waited for, and does not wait
// for what is to be asked again.
func TestStopWhileAStoreIsAsked(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 2)
		s := newStore()
		ask := func(takes time.Duration, err error) varve.ConsumeOptions {
			return varve.ConsumeOptions{PlaceOf: func(ctx context.Context, key varve.PlaceKey) (varve.StoredPlace, bool, error) {
				time.Sleep(takes)
				p, some, _ := s.placeOf(ctx, key)
				return p, some, err
			}}
		}
		stop := func(o varve.ConsumeOptions, within time.Duration) (time.Duration, error) {
			sub := r.consume("g", s.handle, o, "t")
			synctest.Wait()
			begun := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), within)
			defer cancel()
			err := sub.Stop(ctx)
			return time.Since(begun), err
		}
		if took, err := stop(ask(5*time.Second, nil), time.Minute); took != 5*time.Second || err != nil {
			t.Errorf("stop took %v: %v", took, err)
		}
		var left *varve.UnfinishedError
		if took, err := stop(ask(time.Hour, nil), time.Minute); took != time.Minute || !errors.As(err, &left) || left.Handlers[0].Offset != -1 {
			t.Errorf("stop took %v: %v", took, err)
		}
		if took, err := stop(ask(0, errBroken), time.Minute); took != 0 || err != nil {
			t.Errorf("stop took %v: %v", took, err)
		}
		s.want(t)
		time.Sleep(2 * time.Hour)
	})
}

// Poll and Join return the error of a store, and the next Poll asks again.
func TestPollReturnsTheErrorOfAStore(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 2)
		s := newStore()
		away := true
		o := varve.JoinOptions{PlaceOf: func(ctx context.Context, key varve.PlaceKey) (varve.StoredPlace, bool, error) {
			if away {
				return varve.StoredPlace{}, false, errBroken
			}
			return s.placeOf(ctx, key)
		}}
		if _, err := r.engine.Join(context.Background(), "g", []string{"t"}, o); !errors.Is(err, errBroken) {
			t.Errorf("join: %v", err)
		}
		away = false
		m := r.join("g", o, "t")
		r.drainInto(m, s)
		r.leave(m)
		s.want(t, numbered("t/0", 0, 2)...)
	})
}

// What cannot be together is refused, and so is a place that cannot be.
func TestStoredPlaceOptions(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 2)
		s := newStore()
		for _, o := range []varve.ConsumeOptions{
			{ByKey: true}, {AckLater: true}, {Guarantee: varve.AtMostOnce}, {From: varve.Latest()},
		} {
			o.PlaceOf = s.placeOf
			if _, err := r.engine.Consume(context.Background(), "g", []string{"t"}, s.handle, o); err == nil {
				t.Errorf("%+v is taken", o)
			}
		}
		if _, err := r.engine.Join(context.Background(), "g", []string{"t"}, varve.JoinOptions{PlaceOf: s.placeOf, From: varve.Latest()}); err == nil {
			t.Error("From is taken beside PlaceOf")
		}
		m := r.join("g", varve.JoinOptions{PlaceOf: s.placeOf, MustResume: true}, "t")
		if err := r.firstError(m); !errors.Is(err, varve.ErrNoCommit) {
			t.Errorf("where nothing is stored: %v", err)
		}
		r.leave(m)
		m = r.join("g", varve.JoinOptions{PlaceOf: func(context.Context, varve.PlaceKey) (varve.StoredPlace, bool, error) {
			return varve.StoredPlace{Offset: -5}, true, nil
		}}, "t")
		if err := r.firstError(m); !errors.As(err, new(*varve.OutOfRangeError)) {
			t.Errorf("at offset -5: %v", err)
		}
		r.leave(m)
		if s.asked == 0 {
			t.Error("nobody has asked the store")
		}
	})
}

func (r *rig) firstError(m *varve.Member) error {
	_, _, err := m.TryPoll(context.Background())
	return err
}

func TestCovers(t *testing.T) {
	p := varve.StoredPlace{Offset: 10, LeaderEpoch: 3}
	for _, c := range []struct {
		epoch record.Epoch
		off   varve.Offset
		want  bool
	}{{3, 9, true}, {3, 10, false}, {4, 2, false}, {2, 50, true}} {
		if p.Covers(c.epoch, c.off) != c.want {
			t.Errorf("offset %d of epoch %d: covered is not %t", c.off, c.epoch, c.want)
		}
	}
}
