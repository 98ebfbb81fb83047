package varve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/partition"
)

// Subscription is a member of a group whose records are pushed to a handler. It has no
// goroutine. As a task it does what the group asks of the member, commits, and stops;
// lanes call the handler.
//
// Locking. Member.mu, then mu, then the mu of lanes, which is a leaf but for those of
// crews and alarms.
//
//	field     guarded by   written by
//	all, groupID, topics, handler, opt, done   (immutable)   newSubscription
//	ctx, cancel, unbind    (immutable)   consumers.begin
//	lanes, retired   mu    the task itself
//	questions   mu         the task itself; questions
//	flying, left     the task itself, until done is closed
//	member, err      atomic   the task itself; Consume
//	stored, dirty, due, stopping, abandoned   atomic
type Subscription struct {
	all     *consumers
	groupID string
	topics  []string
	handler Handler
	opt     ConsumeOptions
	ctx     context.Context // of all handlers
	cancel  context.CancelCauseFunc
	unbind  func() bool

	actor      actor
	beat, save alarm
	member     atomic.Pointer[Member] // nil until it has joined, and until it has again
	joined     atomic.Bool            // once
	dirty      atomic.Bool            // the alarm for a commit is set
	due        atomic.Bool            // it has rung
	stopping   atomic.Bool
	abandoned  atomic.Bool

	mu      sync.Mutex
	lanes   map[group.Partition]*lane
	retired []*lane // of lives before, whose handlers have not returned

	questions map[*question]struct{} // where to begin, that have no answer

	flying *saving // a commit that is under way
	stored atomic.Pointer[stored]
	left   []HandlerPlace

	err  atomic.Pointer[error]
	done chan struct{}
}

// restBeforeRetry is how long a subscription waits before it tries again what the disk
// refused.
const restBeforeRetry = time.Second

func newSubscription(c *consumers, groupID string, topics []string, h Handler, o ConsumeOptions) *Subscription {
	s := &Subscription{
		all: c, groupID: groupID, topics: topics, handler: h, opt: o,
		lanes: map[group.Partition]*lane{}, questions: map[*question]struct{}{}, done: make(chan struct{}),
	}
	s.beat.ring = s.wake
	s.save.ring = s.saveNow
	return s
}

// join makes a member. What wakes it wakes the subscription.
func (s *Subscription) join(ctx context.Context) error {
	var m *Member
	err := s.all.engine.groups.with(s.groupID, func(g *groupState) (err error) {
		m, err = g.join(s.topics, s.opt.join(), partition.WakeFunc(s.wake))
		return err
	})
	if err == nil {
		m.pushed = true
		err = m.begin(ctx)
	}
	if err == nil {
		s.member.Store(m)
	}
	return err
}

// Group is the id of the group.
func (s *Subscription) Group() string { return s.groupID }

// Owned lists the partitions that the subscription owns.
func (s *Subscription) Owned() []TopicPartition {
	if m := s.member.Load(); m != nil {
		return m.Owned()
	}
	return nil
}

// Stopped lists the partitions that stand still, with the errors.
func (s *Subscription) Stopped() []PartitionError {
	var list []PartitionError
	for _, l := range s.current() {
		l.mu.Lock()
		if l.stopped != nil {
			list = append(list, PartitionError{l.topic, l.at.Number, l.stopped})
		}
		l.mu.Unlock()
	}
	if m := s.member.Load(); m != nil {
		list = append(list, m.wrong()...)
	}
	return list
}

// Resume has partitions go on that stand still: at the record that failed, which has all
// its attempts again. ErrNotOwner where one is not the subscription's; those that do not
// stand still are left alone.
func (s *Subscription) Resume(partitions ...TopicPartition) error {
	m := s.member.Load()
	for _, p := range partitions {
		var c *claim
		err := error(&PartitionError{p.Topic, p.Partition, ErrNotOwner})
		if m != nil {
			m.mu.Lock()
			if c, err = m.ownLocked(p.Topic, p.Partition); err == nil && c.wrong != nil {
				c.wrong, c.failed = nil, nil
				m.news.Store(true)
			}
			m.mu.Unlock()
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		l := s.lanes[c.at]
		s.mu.Unlock()
		if l != nil {
			l.resume()
		}
	}
	s.wake()
	return nil
}

// Stop reads nothing more, lets the handlers finish that are at work, commits, and leaves
// the group. Where the context ends first, it ends the contexts of those that still are,
// names them in an *UnfinishedError, and leaves without them. Calls after the first wait for
// the same end. A handler that calls it is one that has not finished.
func (s *Subscription) Stop(ctx context.Context) error {
	s.beginStop()
	defer lend(ctx).back()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.abandoned.Store(true)
		s.wake()
		<-s.done
	}
	if len(s.left) > 0 {
		return &UnfinishedError{s.left}
	}
	return s.Err()
}

func (s *Subscription) beginStop() {
	s.stopping.Store(true)
	s.wake()
}

// Done is closed when the subscription has ended, by a stop, or because it could not go
// on.
func (s *Subscription) Done() <-chan struct{} { return s.done }

// Err is nil, or why the subscription ended other than by a stop, or the commit that
// failed at its end.
func (s *Subscription) Err() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// wake has the task look at what is new.
func (s *Subscription) wake() {
	if s.actor.wake() {
		s.all.drivers.add(s)
	}
}

// tell logs a failure, and tells OnError.
func (s *Subscription) tell(p TopicPartition, f Failure) {
	f.Group, f.TopicPartition = s.groupID, p
	log := s.all.engine.log
	args := []any{"group", f.Group, "partition", f.TopicPartition.String(), "offset", f.Offset, "attempt", f.Attempt, "err", f.Err}
	switch f.Outcome {
	case Stopped:
		log.Error("partition of a group stands still", args...)
	case Retried:
		log.Debug("record of a group is tried again", args...)
	default:
		log.Warn("record of a group was not handled", append(args, "outcome", f.Outcome.String())...)
	}
	if s.opt.OnError != nil {
		s.opt.OnError(f)
	}
}
