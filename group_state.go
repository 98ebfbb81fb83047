package varve

import (
	"context"
	"sync"
	"time"

	"github.com/varvelog/varve/group"
)

// groupState is one group: its machine, which decides, and its commits, which are in
// the log.
//
// Locking. gate before mu. A commit is looked at and queued for the log under mu, so
// that the log has commits in the order in which their owners had the partitions; it
// holds gate, shared, until it is on stable storage or has failed. Who holds gate alone
// so knows that the table is what the log says, and stays so.
//
//	field     guarded by   written by
//	coordinator, id, table   (immutable)   newGroupState
//	machine   mu           events
//	members   mu           Join; events take them out
//	ended     mu           delete, expireCommits
//	seen      atomic       events (under mu)
//	handled   atomic       lanes
type groupState struct {
	coordinator *coordinator
	id          string
	table       *commitTable

	gate    sync.RWMutex
	mu      sync.Mutex
	machine *group.Group
	members map[string]*Member
	ended   bool // nothing may be added: it is, or will be, out of the coordinator

	seen    groupSeen
	handled handledSeen
}

func newGroupState(c *coordinator, id string, table *commitTable) *groupState {
	return &groupState{
		coordinator: c, id: id, table: table, members: map[string]*Member{},
		machine: group.New(id, time.Now(), group.Options{Assignor: c.opt.Assignor, MaxSize: c.opt.MaxMembers}),
	}
}

// event has something happen to the group now, and tells the members what comes of it.
func (g *groupState) event(happen func(now time.Time) (group.Decision, error)) (group.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.eventLocked(happen)
}

func (g *groupState) eventLocked(happen func(now time.Time) (group.Decision, error)) (group.Decision, error) {
	d, err := happen(time.Now())
	for _, f := range d.Fenced {
		if m := g.members[f.Member]; m != nil {
			m.end(&FencedError{Group: g.id, Member: f.Member, Instance: f.Instance, Reason: string(f.Reason)})
			delete(g.members, f.Member)
		}
	}
	for _, id := range d.Wake {
		if m := g.members[id]; m != nil {
			m.wake()
		}
	}
	g.seen.note(g.machine, len(d.Fenced))
	if at, some := g.machine.NextDeadline(); some {
		g.coordinator.expect(at)
	}
	return d, err
}

func (g *groupState) setTopics(topics group.Topics) {
	g.event(func(now time.Time) (group.Decision, error) {
		return g.machine.SetTopics(now, topics), nil
	})
}

func (g *groupState) expireMembers() {
	g.event(func(now time.Time) (group.Decision, error) { return g.machine.Expire(now), nil })
}

// commit stores entries if check, which is called under mu, lets it. It returns when
// they are on stable storage.
func (g *groupState) commit(ctx context.Context, list []entry, check func() error) error {
	w, err := g.queue(list, check)
	if err != nil {
		return err
	}
	return w.wait(ctx)
}

// queue is commit without the wait.
func (g *groupState) queue(list []entry, check func() error) (*commitWrite, error) {
	return g.queueThen(list, check, func(*commitWrite) {})
}

// queueThen is queue, and calls then when the entries are on stable storage or have
// failed, as failed of what it is given says. It must not block.
func (g *groupState) queueThen(list []entry, check func() error, then func(*commitWrite)) (*commitWrite, error) {
	offsets := &g.coordinator.offsets
	w, err := offsets.prepare(g.id, g.table, list)
	if err != nil {
		return nil, err
	}
	g.gate.RLock()
	g.mu.Lock()
	if err = errEnded; !g.ended {
		err = check()
	}
	if err != nil {
		g.mu.Unlock()
		g.gate.RUnlock()
		w.drop()
		return nil, err
	}
	w.append(offsets, func() {
		g.gate.RUnlock()
		then(w)
	})
	g.mu.Unlock()
	return w, nil
}

// checkCommit says whether a member may commit the partitions, or, for who is none, that
// the group is empty.
func (g *groupState) checkCommit(m *Member, epoch int32, list []entry) error {
	id, instance := "", ""
	if m != nil {
		id, instance = m.id, m.opt.Instance
	} else if _, empty := g.machine.EmptySince(); !empty {
		return ErrGroupNotEmpty
	}
	if err := g.machine.CheckCommit(id, instance, epoch); err != nil {
		return m.fencedBy(err)
	}
	known := g.coordinator.topics()
	for i := range list {
		if known.partition(list[i].at) == nil {
			return &PartitionError{Topic: list[i].topic, Partition: list[i].at.Number, Err: ErrNoTopic}
		}
		if owner, owned := g.machine.Owner(list[i].at); m != nil && (!owned || owner != m.id) {
			return &PartitionError{Topic: list[i].topic, Partition: list[i].at.Number, Err: ErrNotOwner}
		}
	}
	return nil
}

// storeGated stores entries of who holds gate alone.
func (g *groupState) storeGated(list []entry) error {
	if len(list) == 0 {
		return nil
	}
	offsets := &g.coordinator.offsets
	w, err := offsets.prepare(g.id, g.table, list)
	if err != nil {
		return err
	}
	w.append(offsets, func() {})
	return w.wait(context.Background())
}

// rewrite stores all commits once more, and says what they take.
func (g *groupState) rewrite() (bytes int64, err error) {
	g.gate.Lock()
	defer g.gate.Unlock()
	list := g.table.entries()
	for i := range list {
		bytes += entrySize(g.id, &list[i])
	}
	return bytes, g.storeGated(list)
}

// keepClamped stores the commits that were brought down, but for those that somebody
// has committed meanwhile.
func (g *groupState) keepClamped(list []entry) error {
	g.gate.Lock()
	defer g.gate.Unlock()
	var still []entry
	lost := map[group.Partition]Offset{}
	for _, e := range list {
		if was, some := g.table.lost(e.at); some {
			still, lost[e.at] = append(still, e), was
		}
	}
	err := g.storeGated(still)
	g.table.noteLost(lost)
	return err
}

// dropTopic forgets the commits of a topic that was deleted.
func (g *groupState) dropTopic(id group.TopicID) error {
	g.gate.Lock()
	defer g.gate.Unlock()
	return g.storeGated(g.table.dropTopic(id))
}

// expireCommits forgets commits that have served their time, and the group if it is
// empty and nothing is left.
func (g *groupState) expireCommits() error {
	g.gate.Lock()
	defer g.gate.Unlock()
	g.mu.Lock()
	gone := g.table.expire(g.coordinator.commitTime(), g.expiryLocked())
	g.mu.Unlock()
	err := g.storeGated(gone)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, empty := g.machine.EmptySince(); empty && g.table.len() == 0 {
		g.ended = true // whoever has it in hand begins another
		g.coordinator.remove(g)
	}
	return err
}

// expiryLocked is the rule by which commits of the group expire. Commits have the time
// of the engine's clock, which may be set; since when the group is empty is counted by
// one that may not.
func (g *groupState) expiryLocked() group.Expiry {
	rule := group.ExpiryOf(g.machine, g.coordinator.opt.CommitRetention)
	subscribed := rule.Subscribed
	rule.Subscribed = func(id group.TopicID) bool { return subscribed(id) || g.coordinator.holdsFor(id, g.id) }
	if !rule.EmptySince.IsZero() {
		rule.EmptySince = g.coordinator.commitTime().Add(-time.Since(rule.EmptySince))
	}
	return rule
}

// delete ends an empty group with all it has committed. Until that is on stable storage
// nobody begins another of its id, whose commits might come in front of it.
func (g *groupState) delete() error {
	g.gate.Lock()
	defer g.gate.Unlock()
	if err := g.beginEnd(); err != nil {
		return err
	}
	list := g.table.entries()
	for i := range list {
		list[i].commit = nil
	}
	if err := g.storeGated(list); err != nil {
		g.mu.Lock()
		g.ended = false
		g.mu.Unlock()
		return err
	}
	g.coordinator.remove(g)
	return nil
}

func (g *groupState) beginEnd() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return ErrNoGroup
	}
	if _, empty := g.machine.EmptySince(); !empty {
		return ErrGroupNotEmpty
	}
	g.ended = true
	return nil
}

// nothing says that the group has neither members nor commits: it is as if it were not.
func (g *groupState) nothing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, empty := g.machine.EmptySince()
	return empty && g.table.len() == 0
}

// settle returns when every commit that was queued so far is in the table or has
// failed.
func (g *groupState) settle() {
	g.gate.Lock()
	defer g.gate.Unlock()
}

func (g *groupState) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		m.end(ErrClosed)
	}
}
