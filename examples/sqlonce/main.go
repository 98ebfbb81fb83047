// Command sqlonce books payments of a topic into a SQL database, each effectively once: the
// balance and the place behind the payment are one transaction, and whoever goes on begins
// at the place in the database. Two processes that book are killed, one in front of the
// commit of a transaction, and one behind it, of which the group knows nothing yet. Then
// the rest is booked, and the balances are what was paid.
//
//	go run .
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve"
)

const payments, customers = 300, 7

func main() {
	dir := flag.String("dir", "", "directory to use and keep (default: a temporary one)")
	kill := flag.String("kill", "", "be killed, before or after the commit of a transaction")
	flag.Parse()
	err := error(nil)
	if *kill != "" {
		_, err = book(context.Background(), *dir, *kill)
	} else {
		err = run(context.Background(), os.Stdout, *dir)
	}
	if err != nil {
		log.Fatalf("sqlonce: %v", err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-sqlonce-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	if err := pay(ctx, dir); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, when := range []string{"before", "after"} {
		out, err := exec.CommandContext(ctx, self, "-dir", dir, "-kill", when).CombinedOutput()
		if !errors.As(err, new(*exec.ExitError)) || len(out) > 0 {
			return fmt.Errorf("who books was to be killed: %v, %s", err, out)
		}
		fmt.Fprintf(w, "killed %s the commit of a transaction\n", when)
	}
	again, err := book(ctx, dir, "")
	if err != nil {
		return err
	}
	paid, err := sum(ctx, dir)
	if err != nil {
		return err
	}
	booked, err := balances(ctx, dir)
	fmt.Fprintf(w, "paid: %d, booked: %d, handed out again: %d\n", paid, booked, again)
	return err
}

// withTopic opens the engine for as long as f takes.
func withTopic(dir string, f func(*varve.Engine, *varve.Topic) error) error {
	engine, err := varve.Open(filepath.Join(dir, "log"), varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	topic, err := engine.EnsureTopic("payments", varve.TopicConfig{Partitions: 3})
	if err == nil {
		err = f(engine, topic)
	}
	return errors.Join(err, engine.Close())
}

// pay publishes payments.
func pay(ctx context.Context, dir string) error {
	return withTopic(dir, func(_ *varve.Engine, topic *varve.Topic) error {
		var list []varve.Record
		for n := range payments {
			list = append(list, varve.Record{Key: fmt.Append(nil, "customer-", n%customers), Value: fmt.Append(nil, n)})
		}
		_, err := topic.PublishAll(ctx, list)
		return err
	})
}

// sum is what was paid, by the log.
func sum(ctx context.Context, dir string) (sum int, err error) {
	err = withTopic(dir, func(_ *varve.Engine, topic *varve.Topic) error {
		for rec, err := range topic.Records(ctx, varve.Earliest()) {
			if err != nil {
				return err
			}
			sum += amount(&rec)
		}
		return nil
	})
	return sum, err
}

func amount(rec *varve.Record) int {
	n, _ := strconv.Atoi(string(rec.Value))
	return n
}

// book books payments until none are left, and says how many it was handed that were
// booked already. Unless kill is empty it has the process killed at one of them.
func book(ctx context.Context, dir, kill string) (again int64, err error) {
	db, err := openDatabase(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = withTopic(dir, func(engine *varve.Engine, _ *varve.Topic) error {
		var calls, repeated atomic.Int64
		handler := func(ctx context.Context, d varve.Delivery) error {
			dieAt := ""
			if calls.Add(1) == payments/3 {
				dieAt = kill
			}
			fresh, err := db.book(ctx, &d, dieAt)
			if err == nil && !fresh {
				repeated.Add(1)
			}
			return err
		}
		s, err := engine.Consume(ctx, "books", []string{"payments"}, handler, varve.ConsumeOptions{PlaceOf: db.placeOf})
		if err != nil {
			return err
		}
		err = caughtUp(ctx, engine)
		again = repeated.Load()
		return errors.Join(err, s.Stop(ctx))
	})
	return again, err
}

// caughtUp waits until all is booked; a service would wait for the end of ctx.
func caughtUp(ctx context.Context, engine *varve.Engine) error {
	for {
		g, err := engine.DescribeGroup("books")
		behind := func(p varve.GroupPartition) bool { return p.End > 0 && p.Lag != 0 }
		if err != nil || ctx.Err() != nil || !slices.ContainsFunc(g.PartitionList, behind) {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// die has the process killed.
func die() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}
