package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	var o options
	flag.IntVar(&o.records, "records", 1_000_000, "events to publish")
	flag.IntVar(&o.partitions, "partitions", 4, "partitions of the topic")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the events")
	flag.StringVar(&o.dir, "dir", "", "data directory to use and keep (default: a temporary one)")
	flag.BoolVar(&o.keep, "keep", false, "keep the temporary directory")
	flag.Parse()
	if flag.NArg() > 0 || o.records < 2 || o.partitions < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runInDir(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// options say what to do.
type options struct {
	records    int
	partitions int
	seed       uint64
	dir        string
	keep       bool
}

// runInDir runs in the directory asked for, or in one that it removes.
func runInDir(ctx context.Context, o options) error {
	kept := o.dir != "" || o.keep
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "varve-replay-")
		if err != nil {
			return err
		}
		o.dir = dir
		if !kept {
			defer os.RemoveAll(dir)
		}
	}
	if err := run(ctx, os.Stdout, o); err != nil {
		return err
	}
	if kept {
		fmt.Printf("kept        %s (try: varve consume events --dir %s --count 3)\n", o.dir, o.dir)
	}
	return nil
}
