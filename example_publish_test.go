package varve_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

func ExampleTopic_Publish() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 4}))

	place, err := orders.Publish(ctx, varve.Record{
		Key:     []byte("order-1001"),
		Value:   []byte("created"),
		Headers: []varve.Header{{Key: "source", Value: []byte("web")}},
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("partition", place.Partition, "offset", place.Offset)
	// Output:
	// partition 2 offset 0
}

func ExampleTopic_PublishAll() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 2}))

	// What goes to one partition is one batch there: all of it or nothing.
	places := must(orders.PublishAll(ctx, []varve.Record{
		{Key: []byte("alice"), Value: []byte("created")},
		{Key: []byte("bob"), Value: []byte("created")},
		{Key: []byte("alice"), Value: []byte("paid")},
	}))
	for _, p := range places {
		fmt.Println("partition", p.Partition, "offset", p.Offset)
	}
	// Output:
	// partition 1 offset 0
	// partition 0 offset 0
	// partition 1 offset 1
}

// Asynchronous publishing is for throughput: records that wait for the same
// sync share it. Flush waits for all of them.
func ExamplePublisher_PublishAsync() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	clicks := must(engine.CreateTopic("clicks", varve.TopicConfig{}))
	publisher := clicks.Publisher(varve.PublisherOptions{Codec: "zstd", MaxInFlight: 1 << 20})

	var stored atomic.Int64
	for i := range 1000 {
		rec := varve.Record{Value: fmt.Appendf(nil, `{"click":%d}`, i)}
		err := publisher.PublishAsync(ctx, rec, func(_ varve.Place, err error) {
			if err == nil {
				stored.Add(1)
			}
		})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := publisher.Flush(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println("stored", stored.Load())
	// Output:
	// stored 1000
}

// A publisher may wait for less than its topic promises, or for more. That
// changes when its caller is told, never what readers see.
func ExampleTopic_Publisher() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	logs := must(engine.CreateTopic("logs", varve.TopicConfig{
		Partitions: 4,
		Config:     map[string]string{"durability": "os"},
	}))

	audit := logs.Publisher(varve.PublisherOptions{
		Ack:         varve.Fsync,
		Partitioner: must(varve.PartitionerByName("crc32")), // as librdkafka
	})
	place := must(audit.Publish(ctx, varve.Record{Key: []byte("user-1"), Value: []byte("login")}))
	p := must(logs.Partition(int(place.Partition)))
	fmt.Println("durable:", place.Offset < p.DurableEnd())
	// Output:
	// durable: true
}

// Records published together to one partition are one batch: readers see all
// of them or none, after a crash too.
func ExamplePartition_Publish() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	ledger := must(must(engine.CreateTopic("ledger", varve.TopicConfig{})).Partition(0))

	first := must(ledger.Publish(ctx, values("debit alice 10", "credit bob 10")...))
	fmt.Println("first offset", first, "end", ledger.End())
	// Output:
	// first offset 0 end 2
}

// PublishIf appends only if nobody else did meanwhile: optimistic locking, as
// event sourcing wants it.
func ExamplePartition_PublishIf() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	account := must(must(engine.CreateTopic("account-7", varve.TopicConfig{})).Partition(0))

	seen := account.End()
	must(account.Publish(ctx, values("deposit 10")...)) // somebody else is faster

	_, err := account.PublishIf(ctx, seen, values("withdraw 5")...)
	var conflict *varve.ConflictError
	if errors.As(err, &conflict) {
		fmt.Println("expected", conflict.Expected, "but the next offset is", conflict.Next)
		fmt.Println("stored at", must(account.PublishIf(ctx, conflict.Next, values("withdraw 5")...)))
	}
	// Output:
	// expected 0 but the next offset is 1
	// stored at 1
}

// A finished record batch is stored as it came; only its base offset and
// leader epoch are filled in. That is how batches move between logs unopened.
func ExamplePartition_PublishBatch() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	copied := must(must(engine.CreateTopic("copy", varve.TopicConfig{})).Partition(0))

	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{Codec: record.Zstd})
	b.Add(1700000000000, []byte("order-1001"), []byte("created"), nil)
	b.Add(1700000000250, []byte("order-1001"), []byte("paid"), nil)
	first := must(copied.PublishBatch(ctx, b.Finish()))

	fmt.Println("first offset", first)
	for rec, err := range copied.Records(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(rec.Offset, rec.Timestamp, string(rec.Value))
	}
	// Output:
	// first offset 0
	// 0 1700000000000 created
	// 1 1700000000250 paid
}

func ExampleTooLargeError() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	notes := must(engine.CreateTopic("notes", varve.TopicConfig{
		Config: map[string]string{"max.message.bytes": "1024"},
	}))

	_, err := notes.Publish(ctx, varve.Record{Value: make([]byte, 4096)})
	var tooLarge *varve.TooLargeError
	if errors.As(err, &tooLarge) {
		fmt.Println("refused, the limit is", tooLarge.Limit)
	}
	fmt.Println("stored", must(notes.Partition(0)).End())
	// Output:
	// refused, the limit is 1024
	// stored 0
}
