package varve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// keyed publishes a record for each key, its value the key and a number.
func (r *rig) keyed(p *varve.Partition, keys ...string) {
	r.t.Helper()
	for i, key := range keys {
		rec := text("%s%d", key, i)
		rec.Key = []byte(key)
		r.publish(p, rec)
	}
}

// A slow record holds up its key, and not its partition; the place stays in front of it.
func TestByKey(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		r.keyed(p, "a", "b", "a", "c", "b", "a")
		r.fill(p, 2) // without a key: in order among each other
		var h handled
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if string(d.Value) == "a0" {
				time.Sleep(time.Minute)
			}
			time.Sleep(time.Second)
			return h.note(ctx, d)
		}, varve.ConsumeOptions{ByKey: true}, "t")
		time.Sleep(30 * time.Second)
		got := h.values()
		slices.Sort(got)
		if want := []string{"b1", "b4", "c3", "t/0-0", "t/0-1"}; !slices.Equal(got, want) {
			t.Errorf("handled %q beside the slow record, want %q", got, want)
		}
		r.wantCommitted("g", "t", 0, 0)
		time.Sleep(time.Minute)
		if got := h.values(); !slices.Equal(got[5:], []string{"a0", "a2", "a5"}) {
			t.Errorf("then handled %q", got[5:])
		}
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 8)
	})
}

// What was finished past the place is not done again after a stop, a kill and a power cut,
// by who works in order either.
func TestFinishedPastThePlaceIsRemembered(t *testing.T) {
	for _, end := range []string{"stop", "kill", "cut", "in order"} {
		t.Run(end, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				p := r.one()
				keys := strings.Split("abcdefghijklmnop", "")
				r.keyed(p, keys...)
				var h handled
				o := varve.ConsumeOptions{ByKey: true, Retry: varve.Retry{First: time.Hour, Most: time.Hour}}
				h1 := func(ctx context.Context, d varve.Delivery) error {
					if d.Offset == 3 || d.Offset == 9 {
						return errBroken
					}
					return h.note(ctx, d)
				}
				s := r.consume("g", h1, o, "t")
				time.Sleep(time.Second)
				r.wantCommitted("g", "t", 0, 3)
				switch end {
				case "stop":
					r.stopped(s)
				case "kill":
					r.kill()
				case "cut":
					r.cut(vfs.CrashOptions{})
				case "in order":
					r.stopped(s)
					o.ByKey = false
				}
				var again handled
				s = r.consume("g", again.note, o, "t")
				time.Sleep(time.Second)
				got := again.values()
				slices.Sort(got) // by key they come in any order
				if want := []string{"d3", "j9"}; !slices.Equal(got, want) {
					t.Errorf("handled %q, want %q", got, want)
				}
				r.stopped(s)
				r.wantCommitted("g", "t", 0, 16)
			})
		})
	}
}

// What was finished of records that a crash took is not taken for what comes at their
// offsets.
func TestFinishedOfLostRecords(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one("durability=os")
		r.keyed(p, "a")
		if err := p.WaitDurable(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		var h handled
		o := varve.ConsumeOptions{ByKey: true, Retry: varve.Retry{First: time.Hour, Most: time.Hour}}
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if d.Offset == 0 {
				return errBroken
			}
			return h.note(ctx, d)
		}, o, "t")
		for _, key := range []string{"b", "c", "d"} {
			rec := text("%s", key)
			rec.Key = []byte(key)
			if _, err := p.Publish(context.Background(), rec); err != nil { // not in the book: the cut takes it
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		h.want(t, "b", "c", "d")
		_ = s
		r.cut(vfs.CrashOptions{})
		p = r.part("t", 0)
		if p.End() != 1 {
			t.Fatalf("the cut has left %d records, the test wants 1", p.End())
		}
		r.keyed(p, "x", "y")
		var again handled
		s = r.consume("g", again.note, o, "t")
		time.Sleep(time.Second)
		got := again.values()
		slices.Sort(got)
		if want := []string{"a0", "x0", "y1"}; !slices.Equal(got, want) {
			t.Errorf("handled %q, want %q", got, want)
		}
		r.stopped(s)
	}, loud)
}

// How far a partition is ahead of its place is bounded, in records and in bytes.
func TestAheadIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		o    varve.ConsumeOptions
		want int
	}{
		"records": {varve.ConsumeOptions{ByKey: true, MaxAhead: 10}, 9},
		"one":     {varve.ConsumeOptions{ByKey: true, MaxAhead: 1}, 0},
		"bytes":   {varve.ConsumeOptions{ByKey: true, MaxBytes: 3000}, 2},
		"later":   {varve.ConsumeOptions{AckLater: true, MaxAhead: 10}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			pushBubble(t, func(r *rig) {
				p := r.one()
				for i := range 50 {
					rec := text("%d%s", i, strings.Repeat("x", 1000))
					rec.Key = fmt.Append(nil, i)
					r.publish(p, rec)
				}
				var others atomic.Int32
				var open atomic.Bool
				s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
					switch {
					case d.Offset > 0:
						others.Add(1)
						d.Done(nil)
					case c.o.AckLater:
						time.AfterFunc(time.Minute, func() { open.Store(true); d.Done(nil) })
					default:
						time.Sleep(time.Minute)
						open.Store(true)
					}
					return nil
				}, c.o, "t")
				time.Sleep(30 * time.Second)
				if got := int(others.Load()); got != c.want {
					t.Errorf("%d records past the first were handled, want %d", got, c.want)
				}
				time.Sleep(time.Hour)
				r.stopped(s)
				r.wantCommitted("g", "t", 0, 50)
			})
		})
	}
}

// Acknowledged one by one, out of order: the place moves over the contiguous prefix.
func TestAcknowledgeLater(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 6)
		var all []varve.Delivery
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			all = append(all, d)
			if d.Offset == 4 {
				d.Done(nil) // while it runs
			}
			return nil
		}, varve.ConsumeOptions{AckLater: true, Retry: varve.Retry{First: time.Second}}, "t")
		at := func(want varve.Offset) {
			t.Helper()
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			r.wantCommitted("g", "t", 0, want)
		}
		at(0)
		all[1].Done(nil)
		all[2].Done(nil)
		at(0)
		all[0].Done(nil)
		at(3)
		all[0].Done(errBroken) // too late to say so
		all[5].Done(nil)
		at(3)
		all[3].Done(errBroken)
		all[3].Done(nil) // told already
		at(3)
		time.Sleep(time.Second)
		synctest.Wait()
		if len(all) != 7 || all[6].Offset != 3 || all[6].Attempt != 2 {
			t.Fatalf("what failed was not handed out again: %d", len(all))
		}
		all[3].Done(nil) // of the first attempt
		at(3)
		all[6].Done(nil)
		at(6)
		r.stopped(s)
	})
}

// What is never acknowledged is named by a stop, and done again by the next.
func TestNeverAcknowledged(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		r.keyed(p, "a", "b", "a")
		var h handled
		var late varve.Delivery
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if d.Offset == 0 {
				late = d
				return nil
			}
			h.note(ctx, d)
			return d.Done(nil)
		}, varve.ConsumeOptions{AckLater: true, ByKey: true}, "t")
		time.Sleep(time.Second)
		synctest.Wait()
		h.want(t, "b1") // the key waits
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var left *varve.UnfinishedError
		if err := s.Stop(ctx); !errors.As(err, &left) || len(left.Handlers) != 1 || left.Handlers[0].Offset != 0 {
			t.Errorf("stop: %v", err)
		}
		if err := late.Done(nil); !errors.Is(err, varve.ErrNotOwner) {
			t.Errorf("Done after the stop: %v", err)
		}
		var again handled
		s = r.consume("g", again.note, varve.ConsumeOptions{}, "t")
		synctest.Wait()
		again.want(t, "a0", "a2")
		r.stopped(s)
	})
}

// When all that was read has been begun the lane reads on, however little room there is:
// records that wait to be tried again hold up no others.
func TestReadsOnBehindWhatWaits(t *testing.T) {
	pushBubble(t, func(r *rig) {
		p := r.one()
		for i := range 20 {
			rec := text("%d", i)
			rec.Key = fmt.Append(nil, i)
			r.publish(p, rec)
		}
		var h handled
		s := r.consume("g", func(ctx context.Context, d varve.Delivery) error {
			if d.Offset == 3 || d.Offset == 9 {
				return errBroken
			}
			return h.note(ctx, d)
		}, varve.ConsumeOptions{ByKey: true, MaxAhead: 10, Retry: varve.Retry{First: time.Hour, Most: time.Hour}}, "t")
		time.Sleep(time.Minute)
		h.want(t, "0", "1", "2", "4", "5", "6", "7", "8", "10", "11", "12")
		r.stopped(s)
	}, workers(1))
}

// A partition that is resumed goes on with all that was to be tried again meanwhile.
func TestResumeOfWhatWaitedToBeTriedAgain(t *testing.T) {
	pushBubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		var mu sync.Mutex
		var all []varve.Delivery
		s := r.consume("g", func(_ context.Context, d varve.Delivery) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, d)
			return nil
		}, varve.ConsumeOptions{AckLater: true, Retry: varve.Retry{Attempts: 2, First: time.Second}}, "t")
		synctest.Wait()
		all[0].Done(errBroken)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		all[1].Done(errBroken)
		all[2].Done(nil)
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		all[3].Done(errBroken) // the first for good, the second still has to wait
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(all) != 4 || len(s.Stopped()) != 1 {
			t.Fatalf("%d deliveries, stopped are %v", len(all), s.Stopped())
		}
		if err := s.Resume(varve.TopicPartition{Topic: "t"}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if len(all) != 6 {
			t.Fatalf("%d deliveries after the partition was resumed, want 6", len(all))
		}
		all[4].Done(nil)
		all[5].Done(nil)
		r.stopped(s)
		r.wantCommitted("g", "t", 0, 3)
	}, loud)
}
