package varve_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Asynchronous records keep their order in their partition, also where batches,
// syncs and other publishers come between, and each is told once.
func TestAsyncKeepsTheOrderOfEachPartition(t *testing.T) {
	for _, level := range []string{"fsync", "os"} {
		for _, codec := range []string{"none", "zstd"} {
			r := newRig(t)
			topic := r.topic("t", 3, "durability="+level, "segment.bytes=3000", "retention.ms=-1")
			const publishers, n = 4, 300
			var wg sync.WaitGroup
			for g := range publishers {
				wg.Go(func() {
					pub := topic.Publisher(varve.PublisherOptions{Codec: codec})
					told := make([]atomic.Int32, n)
					places := make([]varve.Place, n)
					for i := range n {
						rec := varve.Record{Key: fmt.Appendf(nil, "%d", i%11), Value: fmt.Appendf(nil, "%d.%d %s", g, i, strings.Repeat("x", i))}
						err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) {
							if err != nil || told[i].Add(1) != 1 {
								t.Errorf("record %d was told %d times, %v", i, told[i].Load(), err)
								return
							}
							places[i] = pl
							r.note(r.part("t", int(pl.Partition)), pl.Offset, rec)
						})
						if err != nil {
							t.Error(err)
						}
					}
					if err := pub.Flush(context.Background()); err != nil {
						t.Error(err)
					}
					var last [3]varve.Offset
					for i := range n {
						if told[i].Load() != 1 {
							t.Errorf("after Flush record %d was told %d times", i, told[i].Load())
						}
						if pl := places[i]; i > 0 && pl.Offset < last[pl.Partition] {
							t.Errorf("record %d is at %v, behind it stands %d", i, pl, last[pl.Partition])
						} else {
							last[pl.Partition] = pl.Offset
						}
					}
				})
			}
			wg.Wait()
		}
	}
}

// No more than MaxInFlight bytes are taken and not acknowledged; one record that
// is larger goes alone. Who waits is let go by its context, and by nothing else
// before there is room.
func TestAsyncIsBoundedInBytes(t *testing.T) {
	gate := make(chan struct{})
	var hold atomic.Bool
	r := newRig(t, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if hold.Load() && syncsRecords(op) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}
	})
	p := r.one("retention.ms=-1")
	pub := p.Topic().Publisher(varve.PublisherOptions{MaxInFlight: 1_000_000})
	hold.Store(true)
	var told atomic.Int64
	publish := func(ctx context.Context, i, size int) error {
		rec := varve.Record{Key: []byte("k"), Value: noise(i, size-1)}
		return pub.PublishAsync(ctx, rec, func(pl varve.Place, err error) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
			r.note(p, pl.Offset, rec)
			told.Add(1)
		})
	}
	for i := range 9 { // what a record costs beside its content counts too, and is little
		if err := publish(context.Background(), i, 100_000); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	refused := make(chan error)
	go func() { refused <- publish(ctx, 9, 100_000) }()
	give()
	select {
	case err := <-refused:
		t.Fatalf("a million bytes and more are in flight: %v", err)
	default:
	}
	cancel()
	if err := <-refused; !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended while waiting: %v", err)
	}
	flushed, stop := context.WithCancel(context.Background())
	stop()
	if err := pub.Flush(flushed); !errors.Is(err, context.Canceled) {
		t.Errorf("a flush whose context has ended: %v", err)
	}
	next := make(chan error)
	go func() { next <- publish(context.Background(), 10, 100_000) }()
	hold.Store(false)
	close(gate)
	if err := <-next; err != nil {
		t.Errorf("after there was room: %v", err)
	}
	small := p.Topic().Publisher(varve.PublisherOptions{MaxInFlight: 10})
	for i := range 3 { // each is larger than the bound: it waits for the one before and goes alone
		rec := varve.Record{Value: noise(i, 5000)}
		err := small.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) { r.note(p, pl.Offset, rec) })
		if err != nil {
			t.Errorf("larger than the bound: %v", err)
		}
	}
	if err := small.Flush(context.Background()); err != nil {
		t.Errorf("larger than the bound: %v", err)
	}
	if err := pub.Flush(context.Background()); err != nil || told.Load() != 10 {
		t.Errorf("%d records were told, want 10: %v", told.Load(), err)
	}
}

// What was handed over is the caller's again at once, whether it shares a batch or not.
func TestAsyncCopiesTheRecord(t *testing.T) {
	r := newRig(t)
	for _, codec := range []string{"none", "zstd"} {
		p := r.part(r.topic("t-"+codec, 1, "retention.ms=-1").Name(), 0)
		pub := p.Topic().Publisher(varve.PublisherOptions{Codec: codec})
		scratch := make([]byte, 100_000)
		for i, size := range []int{10, 3000, 5000, 10, 20_000, 70_000, 100_000, 10} {
			value := scratch[:copy(scratch, noise(i, size))]
			rec := varve.Record{Key: value[:5], Value: value, Headers: []varve.Header{{Key: "h", Value: value[2:4]}}}
			want := varve.Record{Key: noise(i, size)[:5], Value: noise(i, size), Headers: []varve.Header{{Key: "h", Value: noise(i, size)[2:4]}}}
			if err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) { r.note(p, pl.Offset, want) }); err != nil {
				t.Fatal(err)
			}
			clear(scratch)
		}
		if err := pub.Flush(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// A context that has ended before PublishAsync takes nothing: nothing is stored,
// nobody is told, and there is nothing that a Flush would wait for.
func TestAsyncWithAContextThatHasEnded(t *testing.T) {
	r := newRig(t)
	p := r.one()
	pub := p.Topic().Publisher(varve.PublisherOptions{MaxInFlight: 10})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 5 {
		err := pub.PublishAsync(ended, text("never"), func(pl varve.Place, err error) { t.Errorf("told: %v, %v", pl, err) })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("publish async: %v", err)
		}
	}
	if _, err := pub.Publish(ended, text("never")); !errors.Is(err, context.Canceled) {
		t.Errorf("publish: %v", err)
	}
	if pls, err := pub.PublishAll(ended, []varve.Record{text("never")}); !errors.Is(err, context.Canceled) || pls[0].Offset != -1 {
		t.Errorf("publish all: %v, %v", pls, err)
	}
	done := make(chan error)
	go func() { done <- pub.Flush(context.Background()) }()
	give()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("flush: %v", err)
		}
	default:
		t.Fatal("a flush waits for records that were not taken")
	}
	if p.LogEnd() != 0 {
		t.Errorf("%d records were stored", p.LogEnd())
	}
	if err := pub.PublishAsync(context.Background(), text("taken"), func(pl varve.Place, _ error) { r.note(p, pl.Offset, text("taken")) }); err != nil {
		t.Error(err)
	}
	if err := pub.Flush(context.Background()); err != nil {
		t.Error(err)
	}
}

// What cannot be published is told to the callback and to Flush, once; the records
// around it are stored.
func TestAsyncFailuresAreToldOnce(t *testing.T) {
	r := newRig(t)
	p := r.one("max.message.bytes=1000", "message.timestamp.after.max.ms=1000")
	pub := p.Topic().Publisher(varve.PublisherOptions{})
	var large *varve.TooLargeError
	var wrong *varve.RecordError
	errs := map[string]error{}
	var mu sync.Mutex
	send := func(name string, rec varve.Record) {
		err := pub.PublishAsync(context.Background(), rec, func(pl varve.Place, err error) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := errs[name]; twice {
				t.Errorf("%s was told twice", name)
			}
			errs[name] = err
			if err == nil {
				r.note(p, pl.Offset, rec)
			} else if pl.Offset != -1 {
				t.Errorf("%s: offset %d with the error %v", name, pl.Offset, err)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	send("first", text("first"))
	send("large", varve.Record{Value: make([]byte, 1000)})
	send("between", text("between"))
	send("future", dated(r.now.Load()+5000, "future"))
	send("last", text("last"))
	if err := pub.PublishAsync(context.Background(), text("untold"), nil); err != nil {
		t.Error(err)
	}
	if err := pub.Flush(context.Background()); !errors.As(err, &large) && !errors.As(err, &wrong) {
		t.Errorf("flush: %v", err)
	}
	if err := pub.Flush(context.Background()); err != nil {
		t.Errorf("a second flush tells it again: %v", err)
	}
	if len(errs) != 5 || !errors.As(errs["large"], &large) || !errors.As(errs["future"], &wrong) || errs["first"] != nil || errs["between"] != nil || errs["last"] != nil {
		t.Errorf("told were %v", errs)
	}
	recs := collect(t, p.Records(context.Background(), varve.Last(1)))
	if len(recs) == 1 && string(recs[0].Value) == "untold" {
		r.note(p, recs[0].Offset, text("untold"))
	} else {
		for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
			if string(rec.Value) == "untold" {
				r.note(p, rec.Offset, text("untold"))
			}
		}
	}
	if p.End() != 4 {
		t.Errorf("%d records are stored, want 4", p.End())
	}
}

// After a stop, and after the topic is gone, every way of publishing says so, at
// once: no callback is left out and no Flush waits.
func TestPublishingAfterTheEnd(t *testing.T) {
	for _, what := range []string{"closed", "deleted"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			topic := r.topic("t", 1)
			p := r.part("t", 0)
			pub := topic.Publisher(varve.PublisherOptions{})
			r.publish(p, text("before"))
			r.forget("t")
			if what == "closed" {
				r.close()
			} else if err := r.engine.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			told := make(chan error, 1)
			if err := pub.PublishAsync(context.Background(), text("late"), func(pl varve.Place, err error) { told <- err }); err != nil {
				told <- err
			}
			give()
			select {
			case err := <-told:
				if !errors.Is(err, varve.ErrClosed) {
					t.Errorf("async: %v", err)
				}
			default:
				t.Fatal("nobody is told of a record that was published too late")
			}
			if err := pub.Flush(context.Background()); err != nil && !errors.Is(err, varve.ErrClosed) {
				t.Errorf("flush: %v", err)
			}
			ctx := context.Background()
			for name, call := range map[string]func() error{
				"publish":         func() error { _, err := p.Publish(ctx, text("x")); return err },
				"publish if":      func() error { _, err := p.PublishIf(ctx, 1, text("x")); return err },
				"publish batch":   func() error { _, err := p.PublishBatch(ctx, batchOfText(dated(1, "x"))); return err },
				"topic publish":   func() error { _, err := topic.Publish(ctx, text("x")); return err },
				"publish all":     func() error { _, err := topic.PublishAll(ctx, []varve.Record{text("x")}); return err },
				"trim":            func() error { _, err := p.Trim(1); return err },
				"alter":           func() error { return topic.Alter(map[string]string{"retention.ms": "1"}) },
				"add partitions":  func() error { return topic.AddPartitions(4) },
				"reader":          func() error { _, err := p.Reader(varve.Earliest()); return err },
				"topic reader":    func() error { _, err := topic.Reader(varve.Latest()); return err },
				"look up by time": func() error { _, err := p.OffsetFor(ctx, time.UnixMilli(r.now.Load())); return err },
				"records":         func() error { return onlyError(t, p.Records(ctx, varve.Earliest())) },
				"follow":          func() error { return onlyError(t, topic.Follow(ctx, varve.Earliest())) },
				"backward":        func() error { return onlyError(t, p.Backward(ctx, varve.Latest())) },
			} {
				if err := call(); !errors.Is(err, varve.ErrClosed) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := p.Err(); err == nil && what == "closed" {
				t.Logf("the error of a closed partition is nil")
			}
			if what == "closed" {
				r.open()
				r.note(r.part("t", 0), 0, text("before"))
			} else {
				give()
			}
			runtime.KeepAlive(pub)
		})
	}
}

// onlyError is the error of an iteration that has nothing but one.
func onlyError(t testing.TB, seq func(func(varve.Record, error) bool)) error {
	t.Helper()
	var found error
	for rec, err := range seq {
		if err == nil {
			t.Errorf("record %s", recordText(rec))
		}
		if found != nil {
			t.Errorf("more than one error: %v, %v", found, err)
		}
		found = err
	}
	return found
}

// Options that cannot be are the error of every publish, and nothing is stored.
func TestPublisherOptionsThatCannotBe(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1)
	for _, o := range []varve.PublisherOptions{{Codec: "brotli"}, {Codec: "GZIP"}, {Codec: "producer"}, {Ack: 4}, {Ack: 255}} {
		pub := topic.Publisher(o)
		if _, err := pub.Publish(context.Background(), text("x")); err == nil {
			t.Errorf("%+v: published", o)
		}
		if _, err := pub.PublishAll(context.Background(), []varve.Record{text("x")}); err == nil {
			t.Errorf("%+v: published all", o)
		}
		if err := pub.PublishAsync(context.Background(), text("x"), nil); err == nil {
			t.Errorf("%+v: published asynchronously", o)
		}
	}
	p := r.part("t", 0)
	for name, call := range map[string]func() error{
		"publish":     func() error { _, err := p.Publish(context.Background()); return err },
		"publish if":  func() error { _, err := p.PublishIf(context.Background(), 0); return err },
		"publish all": func() error { _, err := topic.PublishAll(context.Background(), nil); return err },
	} {
		if err := call(); !errors.Is(err, varve.ErrNoRecords) {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if topic.Stats().Records != 0 {
		t.Error("something was stored")
	}
}

// The compression of a topic overrides that of the publisher, and "producer"
// leaves it to it.
func TestWhoChoosesTheCodec(t *testing.T) {
	r := newRig(t)
	for setting, want := range map[string]string{"producer": "lz4", "uncompressed": "none", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"} {
		topic := r.topic("t-"+setting, 1, "compression.type="+setting)
		p := r.part(topic.Name(), 0)
		pub := topic.Publisher(varve.PublisherOptions{Codec: "lz4"})
		for _, size := range []int{10, 100_000} { // made by the appender, made by the publisher
			rec := varve.Record{Value: make([]byte, size)}
			pl, err := pub.Publish(context.Background(), rec)
			if err != nil {
				t.Fatal(err)
			}
			r.note(p, pl.Offset, rec)
			rd, err := p.Reader(varve.At(pl.Offset))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := rd.NextBatch(context.Background()); err != nil || b.Attributes.Codec().String() != want {
				t.Errorf("compression.type=%s: a batch of %d bytes is stored with %s, %v", setting, size, b.Attributes.Codec(), err)
			}
		}
	}
}

// An acknowledgement may be asked for that is stronger or weaker than the topic's;
// what readers see is the topic's business.
func TestAcknowledgementsOfEveryStrength(t *testing.T) {
	gate := make(chan struct{})
	var hold atomic.Bool
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if hold.Load() && syncsRecords(op) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}
	})
	weak, strong := r.topic("weak", 1, "durability=os"), r.topic("strong", 1)
	ctx := context.Background()
	pl, err := weak.Publisher(varve.PublisherOptions{Ack: varve.Fsync}).Publish(ctx, text("sure"))
	if p := r.part("weak", 0); err != nil || p.DurableEnd() != 1 {
		t.Errorf("asked for stable storage and got %d of 1 there: %v", p.DurableEnd(), err)
	}
	r.note(r.part("weak", 0), pl.Offset, text("sure"))
	hold.Store(true)
	for _, ack := range []varve.Durability{varve.OS, varve.Interval} {
		rec := text("%v", ack)
		pl, err := strong.Publisher(varve.PublisherOptions{Ack: ack}).Publish(ctx, rec) // while no sync returns
		if err != nil {
			t.Fatal(err)
		}
		p := r.part("strong", 0)
		r.note(p, pl.Offset, rec)
		if p.End() != 0 || p.LogEnd() != pl.Offset+1 {
			t.Errorf("ack %v: published is %d, written %d", ack, p.End(), p.LogEnd())
		}
	}
	hold.Store(false)
	close(gate)
	r.publish(r.part("strong", 0), text("all"))
	if p := r.part("strong", 0); p.End() != 3 {
		t.Errorf("after a sync the end is %d, want 3", p.End())
	}
}
