package varve_test

import (
	"context"
	"fmt"

	"github.com/varvelog/varve"
)

// A member polls records, processes them, and then commits: at least once.
func ExampleEngine_Join() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()

	orders := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	for _, value := range []string{"created", "paid", "shipped"} {
		must(orders.Publish(ctx, varve.Record{Value: []byte(value)}))
	}

	work := func(records int) {
		m := must(engine.Join(ctx, "billing", []string{"orders"}, varve.JoinOptions{MaxRecords: records}))
		defer m.Leave(ctx)
		polled := must(m.Poll(ctx))
		for _, rec := range polled.Records {
			fmt.Println(polled.Topic, polled.Partition, rec.Offset, string(rec.Value))
		}
		if err := m.Commit(ctx); err != nil {
			fmt.Println(err)
		}
	}
	work(2)
	fmt.Println("another member goes on:")
	work(2)
	// Output:
	// orders 0 0 created
	// orders 0 1 paid
	// another member goes on:
	// orders 0 2 shipped
}

// The owner of a partition finishes and commits before somebody else gets it.
func ExampleJoinOptions() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()

	must(engine.CreateTopic("orders", varve.TopicConfig{Partitions: 2}))
	var first *varve.Member
	first = must(engine.Join(ctx, "billing", []string{"orders"}, varve.JoinOptions{
		OnAssigned: func(_ context.Context, got []varve.TopicPartition) { fmt.Println("first has", got) },
		OnRevoked: func(ctx context.Context, going []varve.TopicPartition) {
			fmt.Println("first gives up", len(going), "of", len(first.Owned()))
			if err := first.Commit(ctx); err != nil {
				fmt.Println(err)
			}
		},
	}))
	first.TryPoll(ctx)

	second := must(engine.Join(ctx, "billing", []string{"orders"}, varve.JoinOptions{}))
	second.TryPoll(ctx)
	fmt.Println("second has", len(second.Owned()))
	first.TryPoll(ctx)
	second.TryPoll(ctx)
	fmt.Println("second has", len(second.Owned()))
	// Output:
	// first has [orders/0 orders/1]
	// second has 0
	// first gives up 1 of 2
	// second has 1
}

// The lag of a group is how much there is from its place to the end.
func ExampleEngine_DescribeGroup() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()

	orders := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	for range 10 {
		must(orders.Publish(ctx, varve.Record{Value: []byte("order")}))
	}
	if err := engine.CommitOffsets(ctx, "billing", varve.Commit{Topic: "orders", Offset: 4}); err != nil {
		fmt.Println(err)
	}
	for _, p := range must(engine.DescribeGroup("billing")).PartitionList {
		fmt.Printf("%s/%d: at %d, %d behind\n", p.Topic, p.Partition, p.Committed, p.Lag)
	}

	must(engine.ResetGroup(ctx, "billing", varve.Reset{Shift: -3}))
	fmt.Println("lag after going back by 3:", must(engine.Groups())[0].Lag)
	// Output:
	// orders/0: at 4, 6 behind
	// lag after going back by 3: 9
}
