// Command outbox takes orders and mails their confirmations, without an order that is
// never confirmed and without a confirmation of an order that does not exist.
//
// With a database that takes a second table, written in the transaction of the first and
// relayed from there. With a log it takes one batch. The change of state and the message
// that announces it are published together, to one partition: both are stored or none, after
// a crash too. State is what a replay of the changes gives, and the outbox is the same
// log, read by the group "relay". It commits after it has sent, so that a crash in between
// has a message sent again, never lost. Each has an id, its place in the log, by which
// who receives it can tell. The program plays such a crash.
//
//	go run ./examples/outbox
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

	"github.com/varvelog/varve"
)

func main() {
	dir := flag.String("dir", "", "data directory to use and keep (default: a temporary one)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir); err != nil {
		log.Fatalf("outbox: %v", err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-outbox-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	engine, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer engine.Close()
	// One partition: PublishAll makes one batch of what goes to one partition, and only
	// that is all or nothing. With more, an order's key keeps its records together.
	topic, err := engine.EnsureTopic("orders", varve.TopicConfig{Partitions: 1})
	if err != nil {
		return err
	}
	orders, err := load(ctx, topic)
	if err != nil {
		return err
	}
	first := len(orders)
	fmt.Fprintf(w, "orders found in the log: %d\n", first)
	for n := first; n < first+5; n++ {
		if err := place(ctx, topic, orders, fmt.Sprintf("order-%d", n)); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "orders placed: %d\n", len(orders)-first)

	box := &mailbox{seen: map[string]bool{}}
	if err = relay(ctx, engine, box, 3); !errors.Is(err, errCrash) {
		return fmt.Errorf("the relay was to crash: %w", err)
	}
	fmt.Fprintf(w, "relay: %v\n", err)
	if err := relay(ctx, engine, box, -1); err != nil {
		return err
	}
	fmt.Fprintf(w, "confirmations received: %d, and %d once more\n", len(box.seen), box.again)
	return engine.Close()
}

// load replays the changes of state.
func load(ctx context.Context, topic *varve.Topic) (map[string]string, error) {
	orders := map[string]string{}
	for rec, err := range topic.Records(ctx, varve.Earliest()) {
		if err != nil {
			return nil, err
		}
		if kind(&rec) == "state" {
			orders[string(rec.Key)] = string(rec.Value)
		}
	}
	return orders, nil
}

// place changes the state and announces it. The map follows the log, not the other way
// round: what is not stored has not happened.
func place(ctx context.Context, topic *varve.Topic, orders map[string]string, id string) error {
	_, err := topic.PublishAll(ctx, []varve.Record{
		{Key: []byte(id), Value: []byte("placed"), Headers: []varve.Header{{Key: "kind", Value: []byte("state")}}},
		{Key: []byte(id), Value: []byte("thank you for " + id), Headers: []varve.Header{{Key: "kind", Value: []byte("message")}}},
	})
	if err == nil {
		orders[id] = "placed"
	}
	return err
}

func kind(rec *varve.Record) string { return string(rec.Headers[0].Value) }

var errCrash = errors.New("crashed between sending and committing")

// relay sends the messages that were not sent so far. It crashes behind the message of
// a number, unless that is negative.
func relay(ctx context.Context, engine *varve.Engine, box *mailbox, crashAt int) error {
	m, err := engine.Join(ctx, "relay", []string{"orders"}, varve.JoinOptions{MaxRecords: 4})
	if err != nil {
		return err
	}
	defer m.Leave(ctx)
	for sent := 0; ; {
		polled, some, err := m.TryPoll(ctx) // a service would Poll, which waits
		if err != nil || !some {
			return err
		}
		for _, rec := range polled.Records {
			if kind(&rec) != "message" {
				continue
			}
			box.receive(fmt.Sprintf("%s/%d@%d", polled.Topic, polled.Partition, rec.Offset))
			if sent++; sent == crashAt {
				return errCrash
			}
		}
		if err := m.Commit(ctx); err != nil {
			return err
		}
	}
}

// mailbox is who receives the messages, and knows which it has seen.
type mailbox struct {
	seen  map[string]bool
	again int
}

func (b *mailbox) receive(id string) {
	if b.seen[id] {
		b.again++
	}
	b.seen[id] = true
}
