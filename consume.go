package varve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/varvelog/varve/record"
)

// Handler processes one record. Its context is to be given to every call of the engine
// that may wait, a publish above all: what waits with it gives the worker of the handler
// to others meanwhile. The context ends when what the handler does counts no more: its
// member was put out, or it took longer than a stop waits.
//
// An error, or a panic, is dealt with as ConsumeOptions.Retry and OnFailure say.
type Handler func(ctx context.Context, d Delivery) error

// Delivery is a record that a handler is given, or one of its attempts at it.
type Delivery struct {
	Record
	Topic       string
	LeaderEpoch record.Epoch
	Attempt     int // 1 the first time

	lane *lane
	seq  uint64
}

// Done says, with ConsumeOptions.AckLater, that the record is processed, or with an error
// that it could not be. It may be called from any goroutine, once, in any order among
// records. Without effect are all calls but the first, those for attempts that were
// told already, of deliveries that a test has made, and all where the partition is not the
// subscription's any more: ErrNotOwner.
func (d Delivery) Done(err error) error {
	if d.lane == nil {
		return nil
	}
	return d.lane.acknowledge(d.seq, d.Attempt, err)
}

// Guarantee says what a crash may do to a record of a subscription.
type Guarantee uint8

const (
	// AtLeastOnce, the default: the place moves after the handler returned. A crash has
	// some records handled again.
	AtLeastOnce Guarantee = iota
	// AtMostOnce: the place moves before the handler is called, and it is called once. A
	// crash has some records, those that were read ahead, never handled.
	AtMostOnce
)

// FailurePolicy is what becomes of a record that its handler has failed for good.
type FailurePolicy uint8

const (
	// StopPartition, the default: the partition stops at the record, until
	// Subscription.Resume or a new owner. Nothing is lost, and the lag grows.
	StopPartition FailurePolicy = iota
	// SkipRecord counts it as processed.
	SkipRecord
	// DeadLetter publishes it to ConsumeOptions.DeadLetters, and then counts it as
	// processed. Where that fails as often as Retry allows, at most once the first time,
	// the partition stops.
	DeadLetter
)

// Retry is how often, and when, a handler is called again after an error. Between two
// attempts it has no worker. The zero value is sound.
type Retry struct {
	// Attempts is how often the handler is called for a record altogether. 0: 8;
	// negative: until it succeeds.
	Attempts int
	// First is how long to wait after the first failure; each further one doubles that,
	// up to Most. 0: 100 ms, and 30 s.
	First, Most time.Duration
}

// after is how long to wait after an attempt of a subscription, and whether there is
// another.
func (o *ConsumeOptions) after(attempt int) (time.Duration, bool) {
	if o.Guarantee == AtMostOnce {
		return 0, false
	}
	return o.Retry.after(attempt)
}

// after is how long to wait after an attempt, and whether there is another.
func (r *Retry) after(attempt int) (time.Duration, bool) {
	if r.Attempts > 0 && attempt >= r.Attempts {
		return 0, false
	}
	wait := r.First
	for n := 1; n < attempt && wait < r.Most; n++ {
		wait *= 2
	}
	return min(wait, r.Most), true
}

// ConsumeOptions are how a subscription works. The zero value calls the handler in the
// order of each partition, at least once, and stops a partition at a record that fails
// eight times.
type ConsumeOptions struct {
	// From, MustResume and Instance are those of JoinOptions.
	From       Start
	MustResume bool
	Instance   string
	// PlaceOf makes it effectively once, for handlers that store their place with what they
	// do: each partition begins where the handler's store says, whatever the group has
	// committed. See StoredPlace. It is asked on the workers, and after an error again as
	// Retry says, without end. It goes with neither From, ByKey, AckLater nor AtMostOnce.
	PlaceOf PlaceOf
	// RevokeTimeout is how long handlers may take to finish when their partition goes
	// to another member. Later the subscription is put out, and joins anew once they have
	// returned. 0: 1 minute.
	RevokeTimeout time.Duration

	// Guarantee is AtLeastOnce or, by name, AtMostOnce. That tries nothing again, and goes
	// with neither ByKey nor AckLater.
	Guarantee Guarantee
	// Retry is when a handler that failed is called again.
	Retry Retry
	// OnFailure is what becomes of a record when Retry is used up.
	OnFailure FailurePolicy
	// DeadLetters is the topic for DeadLetter. It exists, and is none of those consumed.
	DeadLetters string

	// ByKey runs records of different keys of one partition at the same time, each key in
	// order; those without a key are in order among each other.
	ByKey bool
	// AckLater has a record count as processed when Delivery.Done says so, not when the
	// handler returns without an error. The next one is handed out without waiting for
	// it; with ByKey, the next of the key is not.
	AckLater bool
	// MaxAhead bounds how far a partition is read, and with ByKey or AckLater processed,
	// past its place: in offsets. 0: 1,000; at most 16,384, which the metadata of a commit has
	// room for.
	MaxAhead int
	// MaxBytes bounds keys, values and headers of what is read ahead of a partition; it is
	// one record at least. 0: 256 KiB.
	MaxBytes int
	// CommitInterval is how long what was processed may wait to be committed, together
	// with what else is by then. Partitions that are let go of are committed at once.
	// 0: 100 ms.
	CommitInterval time.Duration

	// OnError is told of what went wrong, and what comes of it, by whoever works for the
	// subscription: it must neither block nor call Stop, though it may end the context of
	// the Consume. Once a Stop has returned it is told no more, but by what this named.
	OnError func(Failure)
}

const (
	defaultRevoke         = time.Minute
	defaultAttempts       = 8
	defaultFirstRetry     = 100 * time.Millisecond
	defaultMostRetry      = 30 * time.Second
	defaultMaxAhead       = 1000
	mostAhead             = 16384
	defaultAheadBytes     = 256 << 10
	defaultCommitInterval = 100 * time.Millisecond
)

func (o ConsumeOptions) withDefaults() ConsumeOptions {
	orDefault(&o.RevokeTimeout, defaultRevoke)
	orDefault(&o.Retry.First, defaultFirstRetry)
	orDefault(&o.Retry.Most, defaultMostRetry)
	orDefault(&o.CommitInterval, defaultCommitInterval)
	orDefault(&o.MaxAhead, defaultMaxAhead)
	orDefault(&o.MaxBytes, defaultAheadBytes)
	o.MaxAhead = min(o.MaxAhead, mostAhead)
	if o.Retry.Attempts == 0 {
		o.Retry.Attempts = defaultAttempts
	}
	return o
}

func orDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// check says what of the options cannot be.
func (o *ConsumeOptions) check(e *Engine, topics []string) error {
	switch {
	case o.Guarantee > AtMostOnce:
		return fmt.Errorf("there is no guarantee %d", o.Guarantee)
	case o.OnFailure > DeadLetter:
		return fmt.Errorf("there is no failure policy %d", o.OnFailure)
	case o.Guarantee == AtMostOnce && (o.ByKey || o.AckLater):
		return errors.New("at most once is in order, and goes with neither ByKey nor AckLater")
	case o.PlaceOf != nil && o.From.kind != fromEarliest:
		return errBothPlaces
	case o.PlaceOf != nil && (o.ByKey || o.AckLater || o.Guarantee == AtMostOnce):
		return errors.New("a stored place is one of records in order, at least once: it goes with neither ByKey, AckLater nor AtMostOnce")
	case o.OnFailure != DeadLetter:
		return nil
	case slices.Contains(topics, o.DeadLetters):
		return fmt.Errorf("topic %s would get its own dead letters", o.DeadLetters)
	}
	_, err := e.Topic(o.DeadLetters)
	return err
}

// join are the options of the member.
func (o *ConsumeOptions) join() JoinOptions {
	return JoinOptions{
		From: o.From, MustResume: o.MustResume, PlaceOf: o.PlaceOf, Instance: o.Instance, RevokeTimeout: o.RevokeTimeout,
	}.withDefaults()
}

// Consume makes a member of a group, as Join does, and calls a handler for each record of
// the partitions that it owns: in order in each, and at the same time for different ones,
// on the workers that all subscriptions of the engine share (GroupOptions.Workers). It
// returns at once; an idle subscription has no goroutine. When the context ends the
// subscription stops as by Stop, with GroupOptions.StopTimeout to finish in.
func (e *Engine) Consume(ctx context.Context, groupID string, topics []string, h Handler, o ConsumeOptions) (*Subscription, error) {
	err := ctx.Err()
	for _, name := range topics {
		if err == nil {
			_, err = e.Topic(name)
		}
	}
	if err == nil {
		err = o.check(e, topics)
	}
	var s *Subscription
	if err == nil {
		s, err = e.consumers.begin(ctx, groupID, slices.Clone(topics), h, o.withDefaults())
	}
	if err != nil {
		return nil, fmt.Errorf("consume for group %s: %w", groupID, err)
	}
	return s, nil
}
