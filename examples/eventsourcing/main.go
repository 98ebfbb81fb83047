// Command eventsourcing keeps an account as the events that it went through. Several
// tellers take money from it at once, and it is never overdrawn.
//
// A teller replays the account up to the end, decides, and appends on condition that
// nothing was appended meanwhile: PublishIf. Who is told of a conflict has decided on an old
// state, reads on and decides again. Nobody holds a lock.
//
// So that replays stay short the state is published to a second topic, with the offset it
// is as of. It can be made again, so it need not be durable when it is acknowledged.
//
//	go run ./examples/eventsourcing
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"strconv"
	"sync"

	"github.com/varvelog/varve"
)

func main() {
	dir := flag.String("dir", "", "data directory to use and keep (default: a temporary one)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *dir); err != nil {
		log.Fatalf("eventsourcing: %v", err)
	}
}

func run(ctx context.Context, w io.Writer, dir string) (err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "varve-eventsourcing-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	}
	engine, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer engine.Close()
	topic, err := engine.EnsureTopic("account-7", varve.TopicConfig{}) // one partition: its offsets are the versions
	if err != nil {
		return err
	}
	events, _ := topic.Partition(0)
	snapshots, err := engine.EnsureTopic("account-7-snapshots", varve.TopicConfig{Config: map[string]string{"durability": "os"}})
	if err != nil {
		return err
	}

	var a account
	if err := errors.Join(a.change(ctx, events, func() int { return 100 }), a.catchUp(ctx, events, events.End())); err != nil {
		return err
	}
	before := a.Balance
	var tellers sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		tellers.Go(func() { errs[i] = payOut(ctx, events, 7, 5) })
	}
	tellers.Wait()
	if err := errors.Join(append(errs, a.catchUp(ctx, events, events.End()))...); err != nil {
		return err
	}
	fmt.Fprintf(w, "100 deposited, 4 tellers asked for 5 times 7, paid out: %d\n", before-a.Balance)

	snapshot, _ := json.Marshal(a) // of two numbers
	_, err = snapshots.Publish(ctx, varve.Record{Value: snapshot})
	if err := errors.Join(err, a.change(ctx, events, func() int { return 50 })); err != nil { // an event behind it
		return err
	}
	var whole, short account
	for rec, err := range snapshots.Records(ctx, varve.Last(1)) {
		if err != nil || json.Unmarshal(rec.Value, &short) != nil {
			break // the account is replayed from its first event
		}
	}
	from := short.Next
	if err := errors.Join(whole.catchUp(ctx, events, events.End()), short.catchUp(ctx, events, events.End())); err != nil {
		return err
	}
	if whole != short {
		return fmt.Errorf("replays differ: %+v and %+v", whole, short)
	}
	fmt.Fprintf(w, "balance %d: by a replay of %d events, or by a snapshot and %d of them\n", whole.Balance, whole.Next, short.Next-from)
	return engine.Close()
}

// account is its state. An event is the sum by which the balance changes.
type account struct {
	Balance int
	Next    varve.Offset // of the first event that is not in it
}

// catchUp applies the events below end. It waits for those that were appended and are
// not shown yet: readers see what is durable.
func (a *account) catchUp(ctx context.Context, events *varve.Partition, end varve.Offset) error {
	rd, err := events.Reader(varve.At(a.Next))
	for err == nil && a.Next < end {
		var event varve.Record
		var sum int
		if event, err = rd.Next(ctx); err == nil {
			sum, err = strconv.Atoi(string(event.Value))
			a.Balance, a.Next = a.Balance+sum, event.Offset+1
		}
	}
	return err
}

// change appends what decide makes of the account, unless that is 0.
func (a *account) change(ctx context.Context, events *varve.Partition, decide func() int) error {
	for end := events.End(); ; {
		if err := a.catchUp(ctx, events, end); err != nil {
			return err
		}
		sum := decide()
		if sum == 0 {
			return nil
		}
		_, err := events.PublishIf(ctx, a.Next, varve.Record{Value: []byte(strconv.Itoa(sum))})
		var conflict *varve.ConflictError
		if !errors.As(err, &conflict) {
			return err // nil where it is stored; it is applied like everybody's, when it is read
		}
		end = conflict.Next
	}
}

// payOut is a teller, who knows of the account what the events say. Where the balance is
// too low nothing is paid.
func payOut(ctx context.Context, events *varve.Partition, sum, times int) (err error) {
	var a account
	for i := 0; i < times && err == nil; i++ {
		err = a.change(ctx, events, func() int { return -min(sum, a.Balance/sum*sum) })
	}
	return err
}
