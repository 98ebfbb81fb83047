package varve_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/varvelog/varve"
)

// A reader can take what is stored, batch by batch, without waiting at the end.
func ExampleReader_PollBatch() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	part := must(orders.Partition(0))
	must(part.Publish(ctx, values("created", "paid")...))
	must(part.Publish(ctx, values("shipped")...))

	reader := must(part.Reader(varve.Earliest()))
	defer reader.Close()
	for {
		batch, ok, err := reader.PollBatch()
		if err != nil || !ok {
			fmt.Println("nothing more now, error:", err)
			break
		}
		fmt.Println("records:", batch.Count, "first offset:", batch.BaseOffset)
	}
	// Output:
	// records: 2 first offset: 0
	// records: 1 first offset: 2
	// nothing more now, error: <nil>
}

// A copy keeps each record in the partition that it had, whatever its key.
func ExamplePublisherOptions_byPartition() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 3}))
	backup := must(engine.CreateTopic("backup", varve.TopicConfig{Partitions: 3}))
	for _, p := range []int{0, 2} {
		part := must(orders.Partition(p))
		must(part.Publish(ctx, values("created")...))
	}

	copier := backup.Publisher(varve.PublisherOptions{ByPartition: true})
	for rec, err := range orders.Records(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		place := must(copier.Publish(ctx, rec))
		fmt.Println("partition", place.Partition, "offset", place.Offset)
	}
	// Unordered output:
	// partition 0 offset 0
	// partition 2 offset 0
}

// A publish that fails is not stored, but for this error, after which it is not
// known. Publishing on condition makes it safe to try again.
func ExampleMaybeStoredError() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	accounts := must(engine.CreateTopic("accounts", varve.TopicConfig{}))
	account := must(accounts.Partition(0))

	next := account.End()
	publish := func() error {
		_, err := account.PublishIf(ctx, next, values("opened")...)
		var maybe *varve.MaybeStoredError
		var conflict *varve.ConflictError
		switch {
		case errors.As(err, &maybe):
			return fmt.Errorf("try again: %w", err)
		case errors.As(err, &conflict):
			return nil // it was stored, by the attempt before
		}
		return err
	}
	fmt.Println(publish())
	fmt.Println(publish()) // as if the first answer had been lost
	fmt.Println("records:", account.End())
	// Output:
	// <nil>
	// <nil>
	// records: 1
}

// A setting of a program may name a level of durability.
func ExampleParseDurability() {
	for _, name := range []string{"fsync", "os", "never"} {
		level, err := varve.ParseDurability(name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(varve.PublisherOptions{Ack: level}.Ack)
	}
	// Output:
	// fsync
	// os
	// durability is fsync, interval or os, not "never"
}

// Records of a topic that is not durable by default can be made so all at once.
func ExamplePartition_WaitDurable() {
	engine, done := scratch()
	defer done()

	ctx := context.Background()
	topic := must(engine.CreateTopic("clicks", varve.TopicConfig{Config: map[string]string{"durability": "os"}}))
	p := must(topic.Partition(0))
	for i := range 1000 {
		must(p.Publish(ctx, varve.Record{Value: fmt.Appendf(nil, "click %d", i)}))
	}
	if err := p.WaitDurable(ctx, p.LogEnd()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.DurableEnd())
	// Output: 1000
}

// The scrub checks in the background what is stored; a monitor asks for what it found.
func ExampleEngine_Scrub() {
	engine, done := scratch()
	defer done()

	status := engine.Scrub()
	fmt.Println("passes:", status.Passes, "damaged:", len(status.Faults))
	for _, fault := range status.Faults {
		fmt.Println(fault.Path, fault.From, fault.To)
	}
	// Output: passes: 0 damaged: 0
}
