package varve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/partition"
)

// JoinOptions are how a member takes part in its group. The zero value begins at the
// first record there is and has no callbacks.
type JoinOptions struct {
	// From is where to begin in partitions in which the group has no place yet. What is
	// not Earliest is committed before the first record is handed out, so that whoever
	// comes next begins there too.
	From Start
	// MustResume makes it an error, ErrNoCommit, that the group has no place: From is
	// not used, until somebody seeks.
	MustResume bool
	// PlaceOf has the member begin, in each partition that it is given, at the place that
	// its program has stored with what it did, whatever the group has committed; where
	// nothing is stored, at the first record there is. See StoredPlace. Join and Poll call
	// it, as they do callbacks, and return its error; the next Poll asks again. From is not used.
	PlaceOf PlaceOf

	// Instance is the name of a static member, which it keeps over restarts: while one
	// life of it has left and the next is to come, nothing moves, for MaxPollInterval.
	Instance string
	// MaxPollInterval is how long the member may take between two polls. One that takes
	// longer is put out of the group, and others get its partitions. 0: 5 minutes.
	MaxPollInterval time.Duration
	// RevokeTimeout is how long it may take to let go of partitions once it is told to.
	// 0: MaxPollInterval.
	RevokeTimeout time.Duration

	// MaxRecords and MaxBytes bound what a poll returns; it is at least one record. 0: 500
	// records, 1 MiB of keys, values and headers.
	MaxRecords int
	MaxBytes   int

	// OnAssigned is told which partitions the member has now, beside those it had; the
	// other two are told of none that it was not. Like them it is called by Poll, in whose
	// goroutine it may call anything of the member but Poll and Leave. One that takes long
	// may be told of partitions that are others' by the time it looks: the member was put
	// out, its commits are refused, and OnLost comes next.
	OnAssigned func(ctx context.Context, got []TopicPartition)
	// OnRevoked is told which partitions the member is to let go of. They are its own
	// until it returns: it finishes what it has begun and commits. The context has the
	// time until which this must be done; later the member is put out.
	OnRevoked func(ctx context.Context, going []TopicPartition)
	// OnLost is told which partitions the member had when it was put out. They are
	// others' already: nothing can be committed.
	OnLost func(lost []TopicPartition)
}

const (
	defaultMaxPoll        = 5 * time.Minute
	mostPollInterval      = 100 * 365 * 24 * time.Hour // nothing overflows
	defaultMaxRecords     = 500
	defaultMaxPolledBytes = 1 << 20
)

func (o JoinOptions) withDefaults() JoinOptions {
	if o.MaxPollInterval <= 0 {
		o.MaxPollInterval = defaultMaxPoll
	}
	o.MaxPollInterval = min(o.MaxPollInterval, mostPollInterval)
	if o.RevokeTimeout <= 0 {
		o.RevokeTimeout = o.MaxPollInterval
	}
	if o.MaxRecords <= 0 {
		o.MaxRecords = defaultMaxRecords
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxPolledBytes
	}
	return o
}

// Member is a member of a consumer group in this process. It has no goroutine: Poll does
// what is to be done, and says by being called that the member is alive.
//
// One goroutine at a time may Poll; a second one waits. Everything else may be called
// from any goroutine.
//
// Locking. polling, then mu, then the locks of the group. Callbacks are called with
// polling alone.
//
//	field     guarded by   written by
//	group, id, topics, opt, waiter, pushed   (immutable)   Join; Subscription.join
//	polling   (a lock)     held for the length of a Poll or Leave
//	epoch     mu           the answers of the group
//	claims, turn   mu      Poll, Seek, Pause, Leave
//	beaten    mu           each heartbeat
//	fresh     mu           Poll
//	news      atomic       wake, end; Poll
//	over      atomic, set once   end
//	leaving   atomic       Leave
type Member struct {
	group  *groupState
	id     string
	topics []string
	opt    JoinOptions
	waiter *partition.Waiter

	polling chan struct{} // has room for one
	mu      sync.Mutex
	epoch   int32
	claims  []*claim // of what the member owns, in the order of group.Partition
	turn    int
	beaten  time.Time
	fresh   bool // claims may have to be placed and announced

	pushed  bool        // a subscription asks PlaceOf
	news    atomic.Bool // a heartbeat brings something
	leaving atomic.Bool
	over    atomic.Pointer[error] // why the member is one no more
}

// Join makes a new member of a group, which is made where there is none, and subscribes
// it to topics: ErrNoTopic where one does not exist, though it may be deleted and made
// anew later. Members share the partitions of the topics: each has one owner at a time.
// Errors: *InstanceError, *GroupFullError, and *FencedError where the Join itself took
// longer than MaxPollInterval.
func (e *Engine) Join(ctx context.Context, groupID string, topics []string, o JoinOptions) (*Member, error) {
	err := ctx.Err()
	for _, name := range topics {
		if err == nil {
			_, err = e.Topic(name)
		}
	}
	if err == nil && o.PlaceOf != nil && o.From.kind != fromEarliest {
		err = errBothPlaces
	}
	var m *Member
	if err == nil {
		err = e.groups.with(groupID, func(g *groupState) error {
			m, err = g.join(topics, o.withDefaults(), partition.NewWaiter())
			return err
		})
	}
	if err == nil {
		err = m.begin(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("join group %s: %w", groupID, err)
	}
	return m, nil
}

func (g *groupState) join(topics []string, o JoinOptions, w *partition.Waiter) (*Member, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	m := &Member{
		group: g, id: id.String(), topics: topics, opt: o,
		waiter: w, polling: make(chan struct{}, 1), beaten: time.Now(),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, errEnded
	}
	g.eventLocked(func(now time.Time) (group.Decision, error) {
		return g.machine.SetTopics(now, g.coordinator.topics().topics), nil
	})
	g.members[m.id] = m
	d, err := g.eventLocked(func(now time.Time) (group.Decision, error) {
		return g.machine.Join(now, group.Join{
			Member: m.id, Instance: o.Instance, Topics: topics,
			SessionTimeout: o.session(), RebalanceTimeout: o.RevokeTimeout,
		})
	})
	if err != nil {
		delete(g.members, m.id)
		return nil, err
	}
	m.epoch = d.Answer.Epoch
	m.news.Store(true)
	return m, nil
}

// begin places the member in what it was given at once, so that From means the moment of
// the Join.
func (m *Member) begin(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Since it has joined the group may want back what it was given then: it holds none.
	a, ok := m.beatLocked(m.heldLocked())
	if !ok {
		return m.ended()
	}
	m.addLocked(a.Assigned)
	err := m.askLocked(ctx)
	if err == nil {
		err = m.placeLocked(ctx)
	}
	if err != nil {
		m.group.leave(m, false)
		m.end(err)
	}
	return err
}

// ID tells the member from all others, also those of earlier lives of an instance.
func (m *Member) ID() string { return m.id }

// Group is the id of its group.
func (m *Member) Group() string { return m.group.id }

// Owned lists the partitions that the member owns.
func (m *Member) Owned() []TopicPartition {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]TopicPartition, 0, len(m.claims))
	for _, c := range m.claims {
		list = append(list, c.name())
	}
	return list
}

// Leave has the member let go of its partitions, after OnRevoked has returned, and
// leave. It commits nothing by itself. The place of a static member is kept for
// MaxPollInterval. A Poll that is under way returns ErrLeft first; so Leave must not be
// called by a callback.
func (m *Member) Leave(ctx context.Context) error { return m.depart(ctx, true) }

// LeaveForGood is Leave, but for a static member: its place is not kept.
func (m *Member) LeaveForGood(ctx context.Context) error { return m.depart(ctx, false) }

func (m *Member) depart(ctx context.Context, mayReturn bool) error {
	m.leaving.Store(true)
	m.wake()
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.unlock()
	if err := m.ended(); err != nil {
		return m.lose(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if going := told(m.claims); len(going) > 0 && m.opt.OnRevoked != nil {
		m.unlocked(func() { m.opt.OnRevoked(ctx, going) })
	}
	m.claims = nil
	err := m.group.leave(m, mayReturn)
	m.end(ErrLeft)
	return err
}

// leave takes a member out of the group.
func (g *groupState) leave(m *Member, mayReturn bool) error {
	_, err := g.event(func(now time.Time) (group.Decision, error) {
		delete(g.members, m.id)
		if mayReturn {
			return g.machine.LeaveForNow(now, m.id, m.opt.Instance)
		}
		return g.machine.Leave(now, m.id, m.opt.Instance)
	})
	return m.fencedBy(err)
}

// fencedBy is the error of a member to which the group says that it is none.
func (m *Member) fencedBy(err error) error {
	if m == nil || err == nil {
		return err
	}
	if over := m.ended(); over != nil {
		return over
	}
	return &FencedError{Group: m.group.id, Member: m.id, Instance: m.opt.Instance, Reason: err.Error()}
}

// end makes every later call of the member return err.
func (m *Member) end(err error) {
	if m.over.CompareAndSwap(nil, &err) {
		m.wake()
	}
}

// ended is nil, or why the member is one no more.
func (m *Member) ended() error {
	if err := m.over.Load(); err != nil {
		return *err
	}
	return nil
}

// wake has the member's Poll look at what is new.
func (m *Member) wake() {
	m.news.Store(true)
	m.waiter.Signal()
}

// lock begins a Poll or Leave, when no other is under way.
func (m *Member) lock(ctx context.Context) error {
	select {
	case m.polling <- struct{}{}:
		return nil
	default:
	}
	defer lend(ctx).back()
	select {
	case m.polling <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *Member) unlock() { <-m.polling }
