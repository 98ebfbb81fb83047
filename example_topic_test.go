package varve_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/varvelog/varve"
)

func ExampleEngine_CreateTopic() {
	engine, done := scratch()
	defer done()

	_, err := engine.CreateTopic("orders", varve.TopicConfig{
		Partitions: 4,
		Config: map[string]string{
			"retention.ms":     "604800000", // seven days
			"compression.type": "zstd",
		},
	})
	fmt.Println("created:", err == nil)

	_, err = engine.CreateTopic("orders", varve.TopicConfig{})
	fmt.Println("a second one is refused:", errors.Is(err, varve.ErrTopicExists))

	_, err = engine.CreateTopic("../orders", varve.TopicConfig{})
	fmt.Println("so is a name that is none:", err != nil)
	// Output:
	// created: true
	// a second one is refused: true
	// so is a name that is none: true
}

func ExampleEngine_Topics() {
	engine, done := scratch()
	defer done()

	must(engine.EnsureTopic("payments", varve.TopicConfig{Partitions: 2}))
	must(engine.EnsureTopic("orders", varve.TopicConfig{Partitions: 4}))
	for _, topic := range engine.Topics() {
		fmt.Println(topic.Name(), topic.Partitions())
	}
	// Output:
	// orders 4
	// payments 2
}

// A topic that is deleted and made again under its name is another topic: it
// has a new id and none of the old records.
func ExampleEngine_DeleteTopic() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()

	old := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	must(old.Publish(ctx, varve.Record{Value: []byte("created")}))
	if err := engine.DeleteTopic("orders"); err != nil {
		fmt.Println(err)
	}
	_, err := engine.Topic("orders")
	fmt.Println("gone:", errors.Is(err, varve.ErrNoTopic))

	fresh := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	fmt.Println("same id:", fresh.ID() == old.ID())
	fmt.Println("records:", must(fresh.Partition(0)).End())
	// Output:
	// gone: true
	// same id: false
	// records: 0
}

func ExampleTopic_Alter() {
	engine, done := scratch()
	defer done()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{
		Config: map[string]string{"retention.ms": "3600000"},
	}))

	// Keep the last gigabyte of each partition, however old; forget the hour.
	err := orders.Alter(map[string]string{"retention.bytes": "1073741824"}, "retention.ms")
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range orders.Config() {
		if c.Key == "retention.bytes" || c.Key == "retention.ms" {
			fmt.Printf("%s=%s default: %t\n", c.Key, c.Value, c.Default)
		}
	}

	err = orders.Alter(map[string]string{"retention.bytes": "plenty"})
	var bad *varve.ConfigError
	if errors.As(err, &bad) {
		fmt.Printf("refused: %s=%s\n", bad.Key, bad.Value)
	}
	// Output:
	// retention.bytes=1073741824 default: false
	// retention.ms=604800000 default: true
	// refused: retention.bytes=plenty
}

// Partitions can be added, never taken away. A key may go to another partition
// from then on, so order per key holds among the records before, and among
// those after, but not from one to the other.
func ExampleTopic_AddPartitions() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 2}))
	rec := varve.Record{Key: []byte("carol"), Value: []byte("…")}

	before := must(orders.Publish(ctx, rec))
	if err := orders.AddPartitions(4); err != nil {
		fmt.Println(err)
	}
	after := must(orders.Publish(ctx, rec))
	fmt.Println("carol went to partition", before.Partition, "and goes to", after.Partition)
	// Output:
	// carol went to partition 0 and goes to 2
}

func ExampleTopic_Stats() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()
	orders := must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 2}))
	must(orders.PublishAll(ctx, []varve.Record{
		{Key: []byte("alice"), Value: []byte("created")},
		{Key: []byte("bob"), Value: []byte("created")},
		{Key: []byte("alice"), Value: []byte("paid")},
	}))

	for i, p := range orders.Stats().Partitions {
		fmt.Printf("partition %d: offsets %d to %d, %d segment\n", i, p.Start, p.End, len(p.Segments))
	}
	// Output:
	// partition 0: offsets 0 to 1, 1 segment
	// partition 1: offsets 0 to 2, 1 segment
}
