package varve_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/varvelog/varve"
)

// A handler is called for each record, in the order of its partition; what fails goes to
// the dead letters, with what it was and why.
func ExampleEngine_Consume() {
	engine, done := scratch()
	defer done()
	ctx := context.Background()

	orders := must(engine.CreateTopic("orders", varve.TopicConfig{}))
	failed := must(engine.CreateTopic("failed", varve.TopicConfig{}))
	for _, value := range []string{"created", "nonsense", "shipped"} {
		must(orders.Publish(ctx, varve.Record{Value: []byte(value)}))
	}

	handled := make(chan string)
	handler := func(_ context.Context, d varve.Delivery) error {
		if string(d.Value) == "nonsense" {
			return errors.New("makes no sense")
		}
		handled <- string(d.Value)
		return nil
	}
	s := must(engine.Consume(ctx, "billing", []string{"orders"}, handler, varve.ConsumeOptions{
		Retry: varve.Retry{Attempts: 1}, OnFailure: varve.DeadLetter, DeadLetters: "failed",
	}))
	fmt.Println(<-handled)
	fmt.Println(<-handled)
	if err := s.Stop(ctx); err != nil {
		fmt.Println(err)
	}
	for letter, err := range failed.Records(ctx, varve.Earliest()) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println("failed:", string(letter.Value))
		for _, h := range letter.Headers {
			if h.Key == varve.DeadLetterOffset || h.Key == varve.DeadLetterError {
				fmt.Println(h.Key, string(h.Value))
			}
		}
	}
	fmt.Println("at", must(engine.Commits("billing"))[0].Offset)
	// Output:
	// created
	// shipped
	// failed: nonsense
	// varve.offset 1
	// varve.error makes no sense
	// at 3
}
