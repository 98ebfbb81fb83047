package varve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// A reader that waits at the end is given the next record, however many rolls
// with nothing in them came between (OpenHFT/Chronicle-Queue#301, #389, #1438).
func TestParkedReaderCrossesIdleRolls(t *testing.T) {
	for _, level := range []string{"fsync", "os"} {
		r := newRig(t, background)
		p := r.one("segment.ms=1000", "retention.ms=-1", "durability="+level)
		topicReader, err := p.Topic().Reader(varve.Latest())
		if err != nil {
			t.Fatal(err)
		}
		partReader, err := p.Reader(varve.Latest())
		if err != nil {
			t.Fatal(err)
		}
		for round := range 20 {
			got := make(chan varve.Record, 2)
			for _, rd := range []*varve.Reader{topicReader, partReader} {
				go func() {
					rec, err := rd.Next(context.Background())
					if err != nil {
						t.Errorf("round %d: %v", round, err)
					}
					got <- rec
				}()
			}
			runtime.Gosched()
			for range round % 4 {
				r.advance(time.Hour)
				r.retain()
			}
			r.publish(p, text("round %d", round))
			for range 2 {
				if rec := <-got; rec.Offset != varve.Offset(round) || string(rec.Value) != fmt.Sprintf("round %d", round) {
					t.Errorf("round %d: %s", round, recordText(rec))
				}
			}
		}
	}
}

// Who parks when there is something new already is not left waiting for more: a
// publish between the look and the parking wakes nobody. A log that is closed has
// nobody waiting.
func TestParkingTooLateDoesNotWait(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.Mkdir("p"); err != nil {
		t.Fatal(err)
	}
	b := openBare(t, disk, nil, false)
	b.add(batchAt(0, 3, 1, []byte("x")), false)
	w := partition.NewWaiter()
	signalled := func() bool {
		select {
		case <-w.C:
			return true
		default:
			return false
		}
	}
	for seen := range record.Offset(3) {
		if b.Park(w, seen) {
			t.Errorf("parked behind %d with the end at 3", seen)
		}
	}
	signalled()
	if !b.Park(w, 3) || signalled() {
		t.Error("at the end there is something new, or a signal without a reason")
	}
	b.add(batchAt(0, 1, 1, []byte("x")), false)
	if !signalled() {
		t.Error("a publish does not wake who is parked")
	}
	if !b.Park(w, 4) {
		t.Error("at the end there is something new")
	}
	b.stop()
	if !signalled() || b.Park(w, 4) {
		t.Error("a stop does not wake who is parked, or lets somebody park")
	}
}

// At the end there is nothing, which is no error; the end is a place to read from
// before the first record, after the last and after a restart (redpanda commit
// 4c843a3964), at any offset that was just acknowledged and the one behind it
// (redpanda commit 796fe6b095).
func TestReadingAtTheEnd(t *testing.T) {
	r := newRig(t, background)
	r.one("retention.ms=3600000", "segment.bytes=300")
	nothing := func(end varve.Offset) {
		t.Helper()
		p := r.part("t", 0)
		for _, s := range []varve.Start{varve.At(end), varve.Latest(), varve.Last(0), varve.AtTime(time.UnixMilli(r.now.Load() + 1000))} {
			rd, err := p.Reader(s)
			if err != nil {
				t.Fatalf("from %v: %v", s, err)
			}
			if rec, ok, err := rd.Poll(); ok || err != nil {
				t.Errorf("from %v: %s, %v", s, recordText(rec), err)
			}
			if b, ok, err := rd.PollBatch(); ok || err != nil {
				t.Errorf("from %v: a batch at %d, %v", s, b.BaseOffset, err)
			}
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			if _, err := rd.Next(gone); !errors.Is(err, context.Canceled) {
				t.Errorf("from %v: waiting with a context that had ended: %v", s, err)
			}
			if rd.Offset(0) != end {
				t.Errorf("from %v: the reader stands at %d, want %d", s, rd.Offset(0), end)
			}
			if n := len(collect(t, p.Records(context.Background(), s))); n != 0 {
				t.Errorf("from %v: %d records", s, n)
			}
		}
		var out *varve.OutOfRangeError
		if _, err := p.Reader(varve.At(end + 1)); !errors.As(err, &out) || out.End != end {
			t.Errorf("reading from behind the end: %v", err)
		}
	}
	nothing(0)
	r.reopen()
	nothing(0)
	p := r.part("t", 0)
	for i := range 50 {
		off := r.publish(p, text("%d", i))
		nothing(off + 1)
		rd, err := p.Reader(varve.At(off))
		if err != nil {
			t.Fatal(err)
		}
		if rec, ok, err := rd.Poll(); !ok || err != nil || rec.Offset != off {
			t.Errorf("just acknowledged %d: %s, %t, %v", off, recordText(rec), ok, err)
		}
	}
	r.advance(2 * time.Hour)
	r.retain()
	if p.Start() != 50 {
		t.Fatalf("the start is %d, want 50", p.Start())
	}
	nothing(50)
	r.reopen()
	nothing(50)
	r.kill()
	nothing(50)
}

// Whoever sees an end can read everything below it, and from it (KAFKA-2477).
func TestEveryOffsetBelowTheEndIsReadable(t *testing.T) {
	for _, level := range []string{"fsync", "interval", "os"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, background)
			p := r.one("segment.bytes=500", "retention.ms=-1", "durability="+level, "flush.ms=1")
			var done atomic.Bool
			var all sync.WaitGroup
			for c := range 2 {
				all.Go(func() {
					for !done.Load() {
						runtime.Gosched()
						end := p.End()
						from := max(0, end-varve.Offset(c*10)-1)
						rd, err := p.Reader(varve.At(from))
						if err != nil {
							t.Errorf("from %d with the end at %d: %v", from, end, err)
							return
						}
						for next := from; next < end; next++ {
							if rec, ok, err := rd.Poll(); !ok || err != nil || rec.Offset != next {
								t.Errorf("offset %d of %d: got %d, %t, %v", next, end, rec.Offset, ok, err)
								return
							}
						}
						if _, err := p.Reader(varve.At(end)); err != nil {
							t.Errorf("from the end, %d: %v", end, err)
						}
						r.advance(time.Millisecond)
					}
				})
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range 300 {
				recs := make([]varve.Record, 1+rng.IntN(4))
				for k := range recs {
					recs[k] = text("%d.%d", i, k)
				}
				r.publish(p, recs...)
			}
			done.Store(true)
			all.Wait()
		})
	}
}

// Records that a reader has handed out never change, whatever is read, appended
// and evicted afterwards (hashicorp/raft-wal#16, nats-io/nats-server#8187); nor
// does what was published change when the publisher uses its bytes again.
func TestRecordsAreTheCallersToKeep(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec, func(t *testing.T) {
			r := newRig(t, background, func(r *rig) { r.opt.CacheBytes = 64 << 10 })
			p := r.one("segment.bytes=20000", "retention.ms=-1", "compression.type="+codecSetting(codec))
			scratch := make([]byte, 200)
			publish := func(i int) {
				n := copy(scratch, noise(i, 20+i%180))
				rec := varve.Record{Key: scratch[:10], Value: scratch[10:n], Headers: []varve.Header{{Key: "h", Value: scratch[:5]}}}
				off, err := p.Publish(context.Background(), rec, rec, rec)
				if err != nil {
					t.Fatal(err)
				}
				data := noise(i, 20+i%180)
				rec = varve.Record{Key: data[:10], Value: data[10:], Headers: []varve.Header{{Key: "h", Value: data[:5]}}}
				r.note(p, off, rec, rec, rec)
				clear(scratch)
			}
			for i := range 300 {
				publish(i)
			}
			type kept struct{ got, copied varve.Record }
			var keep []kept
			var batches []varve.Batch
			var batchCopies [][]byte
			for rec, err := range p.Records(context.Background(), varve.Earliest()) {
				if err != nil {
					t.Fatal(err)
				}
				c := rec
				c.Key, c.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
				c.Headers = []varve.Header{{Key: strings.Clone(rec.Headers[0].Key), Value: bytes.Clone(rec.Headers[0].Value)}}
				keep = append(keep, kept{rec, c})
			}
			rd, err := p.Reader(varve.Earliest())
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				b, err := rd.NextBatch(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				batches, batchCopies = append(batches, b), append(batchCopies, bytes.Clone(b.Bytes()))
			}
			for i := range 300 {
				publish(300 + i)
				collect(t, p.Records(context.Background(), varve.Last(50)))
			}
			collect(t, p.Backward(context.Background(), varve.Latest()))
			if _, err := p.Trim(900); err != nil {
				t.Fatal(err)
			}
			for _, k := range keep {
				if !equalRecords(k.got, k.copied) {
					t.Fatalf("a record that was kept is now %s, was %s", recordText(k.got), recordText(k.copied))
				}
			}
			for i := range batches {
				if !bytes.Equal(batches[i].Bytes(), batchCopies[i]) {
					t.Fatalf("batch %d changed", i)
				}
			}
		})
	}
}

// Many readers of one place, over rolls, evictions and shared decompression
// (apache/iggy#1539): all of them get all of it.
func TestManyReadersOfOnePlace(t *testing.T) {
	for _, codec := range []string{"none", "zstd"} {
		r := newRig(t, background, func(r *rig) { r.opt.OpenFiles = 4; r.opt.CacheBytes = 32 << 10 })
		p := r.one("segment.bytes=2000", "retention.ms=-1", "durability=os", "compression.type="+codecSetting(codec))
		const n, readers = 400, 16
		var wg sync.WaitGroup
		for g := range readers {
			wg.Go(func() {
				var next varve.Offset
				for rec, err := range p.Follow(context.Background(), varve.Earliest()) {
					if err != nil || rec.Offset != next {
						t.Errorf("reader %d at %d: offset %d, %v", g, next, rec.Offset, err)
						return
					}
					if next++; next == n {
						return
					}
				}
			})
		}
		for i := range n {
			r.publish(p, text("%s %d", strings.Repeat("x", i%100), i))
		}
		wg.Wait()
	}
}

// Acknowledged offsets are dense, unique, and each holds what it was given for,
// from many publishers in every way at once (Jepsen: Bufstream 0.1.0, redpanda
// commit 4182559cfc).
func TestAcknowledgedOffsetsAreDense(t *testing.T) {
	for _, level := range []string{"fsync", "os"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, background)
			p := r.one("segment.bytes=3000", "retention.ms=-1", "durability="+level)
			const publishers, each = 16, 60
			var wg sync.WaitGroup
			for g := range publishers {
				wg.Go(func() {
					pub := p.Topic().Publisher(varve.PublisherOptions{Codec: allCodecs[g%5]})
					ctx := context.Background()
					for i := range each {
						rec := text("publisher %d record %d", g, i)
						switch g % 5 {
						case 0:
							r.publish(p, rec)
						case 1:
							if err := pub.PublishAsync(ctx, rec, func(pl varve.Place, err error) { r.note(p, pl.Offset, rec) }); err != nil {
								t.Error(err)
							}
						case 2:
							pls, err := pub.PublishAll(ctx, []varve.Record{rec, rec})
							if err != nil || pls[1].Offset != pls[0].Offset+1 {
								t.Errorf("%v, %v", pls, err)
								return
							}
							r.note(p, pls[0].Offset, rec, rec)
						case 3:
							rec.Timestamp = 7
							off, err := p.PublishBatch(ctx, batchOfText(rec))
							if err != nil {
								t.Error(err)
								return
							}
							r.note(p, off, rec)
						case 4:
							for {
								next := p.LogEnd()
								off, err := p.PublishIf(ctx, next, rec)
								var conflict *varve.ConflictError
								if errors.As(err, &conflict) {
									if conflict.Expected != next || conflict.Next == next {
										t.Errorf("expected %d: %v", next, err)
									}
									continue
								}
								if err != nil || off != next {
									t.Errorf("expected %d: %d, %v", next, off, err)
								}
								r.note(p, off, rec)
								break
							}
						}
					}
					if err := pub.Flush(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if got, want := p.End(), varve.Offset(len(r.acked["t/0"])); got != want {
				t.Errorf("%d records were acknowledged, the end is %d", want, got)
			}
		})
	}
}

// The ends only rise, in every order of syncs (redpanda-data/redpanda#1826), and
// stand in their order: nothing is published that is not durable.
func TestEndsNeverGoBack(t *testing.T) {
	for _, level := range []string{"fsync", "interval", "os"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, background)
			p := r.one("segment.bytes=400", "retention.ms=-1", "durability="+level, "flush.ms=1")
			var done atomic.Bool
			var watch sync.WaitGroup
			watch.Go(func() {
				var end, durable, logEnd varve.Offset
				for !done.Load() {
					runtime.Gosched()
					e := p.End() // the order of these loads is the point: each is of what came before
					d := p.DurableEnd()
					l := p.LogEnd()
					if e < end || d < durable || l < logEnd {
						t.Errorf("back from %d, %d, %d to %d, %d, %d", end, durable, logEnd, e, d, l)
					}
					if e > l || (level == "fsync" && e > d) || d > p.LogEnd() {
						t.Errorf("published %d, durable %d, written %d", e, d, l)
					}
					end, durable, logEnd = e, d, l
				}
			})
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 100 {
						off := r.publish(p, text("%d.%d", g, i))
						if level == "fsync" && p.DurableEnd() <= off {
							t.Errorf("offset %d is acknowledged, durable is %d", off, p.DurableEnd())
						}
						r.advance(time.Millisecond)
					}
				})
			}
			wg.Wait()
			done.Store(true)
			watch.Wait()
		})
	}
}

// Those who follow see a prefix at all times: no gap, nothing twice, no half
// batch, nothing behind the published end (KAFKA-9835, apache/iggy#2575).
func TestFollowersSeeAPrefix(t *testing.T) {
	for _, level := range []string{"fsync", "os"} {
		t.Run(level, func(t *testing.T) {
			r := newRig(t, background, func(r *rig) { r.opt.OpenFiles = 4 })
			p := r.one("segment.bytes=900", "retention.ms=-1", "durability="+level)
			const n = 800
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					rd, err := p.Reader(varve.Earliest())
					if err != nil {
						t.Error(err)
						return
					}
					for next := varve.Offset(0); next < n; {
						if g%2 == 0 {
							rec, err := rd.Next(context.Background())
							if err != nil || rec.Offset != next || rec.Offset >= p.End() {
								t.Errorf("at %d: offset %d, end %d, %v", next, rec.Offset, p.End(), err)
								return
							}
							next++
							continue
						}
						b, err := rd.NextBatch(context.Background())
						if err != nil || b.BaseOffset != next || b.NextOffset() > p.End() || b.Verify() != nil {
							t.Errorf("at %d: batch [%d, %d), end %d, %v", next, b.BaseOffset, b.NextOffset(), p.End(), err)
							return
						}
						next = b.NextOffset()
					}
				})
			}
			rng := rand.New(rand.NewPCG(2, 2))
			for off := 0; off < n; {
				recs := make([]varve.Record, min(1+rng.IntN(5), n-off))
				for k := range recs {
					recs[k] = varve.Record{Value: noise(off+k, rng.IntN(200))}
				}
				r.publish(p, recs...)
				off += len(recs)
			}
			wg.Wait()
		})
	}
}

// Rolls by time, by size and by hand of retention, beside syncs of level interval,
// changes of the settings and a stop in the middle (redpanda-data/redpanda#10506,
// #12565, apache/iggy#2588): bases rise strictly, nothing is lost.
func TestRollsOfEverySortAtOnce(t *testing.T) {
	for round := range 4 {
		r := newRig(t, func(r *rig) { r.opt.RetentionInterval = time.Millisecond })
		p := r.one("segment.ms=50", "segment.bytes=400", "retention.ms=-1", "durability=interval", "flush.ms=1")
		var wg sync.WaitGroup
		stop := make(chan struct{})
		for g := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					rec := dated(r.now.Load(), "%d.%d", g, i)
					off, err := p.Publish(context.Background(), rec)
					if errors.Is(err, varve.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("publish: %v", err)
						return
					}
					r.note(p, off, rec)
				}
			})
		}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r.advance(20 * time.Millisecond)
				err := r.engine.RunRetention()
				if err == nil {
					err = p.Topic().Alter(map[string]string{"segment.bytes": fmt.Sprint(300 + i%200)})
				}
				if err != nil && !errors.Is(err, varve.ErrClosed) {
					t.Errorf("retention or alter: %v", err)
				}
			}
		})
		for p.End() < varve.Offset(300+100*round) {
			runtime.Gosched()
		}
		segs := p.Stats().Segments
		if !slices.IsSortedFunc(segs, func(a, b varve.SegmentStats) int { return int(a.Base - b.Base) }) {
			t.Errorf("segments %+v", segs)
		}
		e := r.engine
		if err := e.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		close(stop)
		wg.Wait()
		r.engine = nil
		r.open()
		if got, want := r.part("t", 0).End(), varve.Offset(len(r.acked["t/0"])); got != want {
			t.Errorf("%d records were acknowledged, the end is %d", want, got)
		}
	}
}
