package varve_test

import (
	"context"
	"fmt"
	"os"

	"github.com/varvelog/varve"
)

// Example is the quick start of README.md: the function below stands there
// byte for byte.
func Example() {
	dir := must(os.MkdirTemp("", "varve-"))
	defer os.RemoveAll(dir)
	if err := quickStart(dir); err != nil {
		fmt.Println(err)
	}
	// Output:
	// partition 2 offset 0: order-1001 created
	// partition 2 offset 1: order-1001 paid
	// partition 2 offset 2: order-1001 shipped
}

func quickStart(dir string) error {
	engine, err := varve.Open(dir, varve.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	orders, err := engine.EnsureTopic("orders", varve.TopicConfig{Partitions: 4})
	if err != nil {
		return err
	}
	ctx := context.Background()
	for _, state := range []string{"created", "paid", "shipped"} {
		// On stable storage when it returns: that is the default of a topic.
		if _, err := orders.Publish(ctx, varve.Record{Key: []byte("order-1001"), Value: []byte(state)}); err != nil {
			return err
		}
	}
	for rec, err := range orders.Records(ctx, varve.Earliest()) {
		if err != nil {
			return err
		}
		fmt.Printf("partition %d offset %d: %s %s\n", rec.Partition, rec.Offset, rec.Key, rec.Value)
	}
	return nil
}

// must is for examples whose point is not what can go wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// scratch opens an engine in a directory of its own; done closes it and takes
// the directory away.
func scratch() (engine *varve.Engine, done func()) {
	return scratchWith(varve.Options{})
}

func scratchWith(o varve.Options) (engine *varve.Engine, done func()) {
	dir := must(os.MkdirTemp("", "varve-"))
	engine = must(varve.Open(dir, o))
	return engine, func() {
		if err := engine.Close(); err != nil {
			fmt.Println("close:", err)
		}
		os.RemoveAll(dir)
	}
}

// values makes one record of each value.
func values(texts ...string) []varve.Record {
	var recs []varve.Record
	for _, text := range texts {
		recs = append(recs, varve.Record{Value: []byte(text)})
	}
	return recs
}
