package varve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve"
)

func ExamplePartition_Records() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("steps", varve.TopicConfig{})).Partition(0))
	must(p.Publish(ctx, values("one", "two", "three", "four")...))

	for _, from := range []varve.Start{varve.Earliest(), varve.At(2), varve.Last(1), varve.Latest()} {
		var seen []string
		for rec, err := range p.Records(ctx, from) {
			if err != nil {
				fmt.Println(err)
				return
			}
			seen = append(seen, string(rec.Value))
		}
		fmt.Println(seen)
	}
	// Output:
	// [one two three four]
	// [three four]
	// [four]
	// []
}

// Reading removes nothing: the same records are there for every reader, again
// and again, until retention takes them.
func ExampleTopic_Records() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 4}))
	for _, state := range []string{"created", "paid", "shipped"} {
		must(orders.Publish(ctx, varve.Record{Key: []byte("order-1001"), Value: []byte(state)}))
	}

	for range 2 {
		var seen []string
		for rec, err := range orders.Records(ctx, varve.Earliest()) {
			if err != nil {
				fmt.Println(err)
				return
			}
			seen = append(seen, string(rec.Value))
		}
		fmt.Println(seen)
	}
	// Output:
	// [created paid shipped]
	// [created paid shipped]
}

// Follow goes on at the end: it waits for more until its context is done.
func ExampleTopic_Follow() {
	engine, done := scratch()
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	must(orders.Publish(ctx, varve.Record{Value: []byte("created")}))

	for rec, err := range orders.Follow(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Value))
		switch string(rec.Value) {
		case "created":
			must(orders.Publish(ctx, varve.Record{Value: []byte("paid")}))
		case "paid":
			stop()
		}
	}
	// Output:
	// 0 created
	// 1 paid
}

func ExamplePartition_Follow() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("numbers", varve.TopicConfig{})).Partition(0))
	go func() {
		for i := range 3 {
			p.Publish(ctx, varve.Record{Value: fmt.Append(nil, i)})
		}
	}()

	for rec, err := range p.Follow(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(rec.Value))
		if rec.Offset == 2 {
			break // leaving the loop ends the reading
		}
	}
	// Output:
	// 0
	// 1
	// 2
}

func ExamplePartition_Backward() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("steps", varve.TopicConfig{})).Partition(0))
	must(p.Publish(ctx, values("one", "two", "three")...))

	for rec, err := range p.Backward(ctx, varve.Latest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Value))
	}
	// Output:
	// 2 three
	// 1 two
	// 0 one
}

// A time means the first record at or after it.
func ExampleAtTime() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("readings", varve.TopicConfig{})).Partition(0))
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for i := range 4 {
		at := noon.Add(time.Duration(i) * time.Minute)
		must(p.Publish(ctx, varve.Record{Timestamp: at.UnixMilli(), Value: []byte(at.Format("15:04"))}))
	}

	for rec, err := range p.Records(ctx, varve.AtTime(noon.Add(90*time.Second))) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Value))
	}
	// Output:
	// 2 12:02
	// 3 12:03
}

func ExamplePartition_OffsetFor() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("readings", varve.TopicConfig{})).Partition(0))
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	must(p.Publish(ctx,
		varve.Record{Timestamp: noon.UnixMilli(), Value: []byte("a")},
		varve.Record{Timestamp: noon.Add(time.Minute).UnixMilli(), Value: []byte("b")},
	))

	fmt.Println("at noon:", must(p.OffsetFor(ctx, noon)))
	fmt.Println("a second later:", must(p.OffsetFor(ctx, noon.Add(time.Second))))
	fmt.Println("an hour later, where nothing is:", must(p.OffsetFor(ctx, noon.Add(time.Hour))) == p.End())
	// Output:
	// at noon: 0
	// a second later: 1
	// an hour later, where nothing is: true
}

// A Reader keeps its place between calls; Poll does not wait, Next does.
func ExamplePartition_Reader() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("steps", varve.TopicConfig{})).Partition(0))
	must(p.Publish(ctx, values("one", "two")...))

	r := must(p.Reader(varve.Earliest()))
	defer r.Close()
	fmt.Println(string(must(r.Next(ctx)).Value))
	fmt.Println(string(must(r.Next(ctx)).Value))
	_, ok, err := r.Poll()
	fmt.Println("more:", ok, err)

	must(p.Publish(ctx, values("three")...))
	fmt.Println(string(must(r.Next(ctx)).Value))
	// Output:
	// one
	// two
	// more: false <nil>
	// three
}

// A topic's Reader takes records of all partitions: in order within each.
func ExampleTopic_Reader() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 4}))
	must(orders.Publish(ctx, varve.Record{Key: []byte("order-1001"), Value: []byte("created")}))

	r := must(orders.Reader(varve.Earliest()))
	defer r.Close()
	rec := must(r.Next(ctx))
	fmt.Println("partition", rec.Partition, "offset", rec.Offset, string(rec.Value))
	// Output:
	// partition 2 offset 0 created
}

// Batches come out as they are stored, compressed and checksummed, ready for
// PublishBatch of another log.
func ExampleReader_NextBatch() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	from := must(must(engine.CreateTopic("from", varve.TopicConfig{})).Partition(0))
	to := must(must(engine.CreateTopic("to", varve.TopicConfig{})).Partition(0))
	must(from.Publish(ctx, values("one", "two", "three")...))

	r := must(from.Reader(varve.Earliest()))
	defer r.Close()
	batch := must(r.NextBatch(ctx))
	must(to.PublishBatch(ctx, batch.Bytes()))
	fmt.Println("copied", batch.Count, "records, end", to.End())
	// Output:
	// copied 3 records, end 3
}

func ExamplePartition_Trim() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("steps", varve.TopicConfig{})).Partition(0))
	must(p.Publish(ctx, values("one", "two", "three")...))

	fmt.Println("log start", must(p.Trim(2)))
	for rec, err := range p.Records(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, string(rec.Value))
	}
	// Output:
	// log start 2
	// 2 three
}

// Whoever asks for what is not there is told what is.
func ExampleOutOfRangeError() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("steps", varve.TopicConfig{})).Partition(0))
	must(p.Publish(ctx, values("one", "two", "three")...))
	must(p.Trim(2))

	r, err := p.Reader(varve.At(0))
	if err == nil {
		defer r.Close()
		_, err = r.Next(ctx)
	}
	var out *varve.OutOfRangeError
	if errors.As(err, &out) {
		fmt.Println("asked for", out.Asked, "and there are", out.Start, "to", out.End)
	}
	// Output:
	// asked for 0 and there are 2 to 3
}

// Retention runs by itself; RunRetention does one pass now.
func ExampleEngine_RunRetention() {
	var later atomic.Int64 // nanoseconds that the engine's clock is ahead
	engine, done := scratchWith(varve.Options{
		Clock: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
	})
	defer done()
	ctx := context.Background()
	p := must(must(engine.CreateTopic("readings", varve.TopicConfig{
		Config: map[string]string{"retention.ms": "60000"},
	})).Partition(0))
	must(p.Publish(ctx, values("one", "two")...))

	later.Store(int64(time.Hour))
	if err := engine.RunRetention(); err != nil {
		fmt.Println(err)
	}
	fmt.Println("offsets", p.Start(), "to", p.End(), "are left; the next is", must(p.Publish(ctx, values("three")...)))
	// Output:
	// offsets 2 to 2 are left; the next is 2
}
