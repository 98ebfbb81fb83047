package varve

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/group/kafkaoffsets"
)

// commitExpiryInterval is how often it is looked for commits that have served their
// time, and groups of which nothing is left.
const commitExpiryInterval = time.Minute

// coordinator has the groups of an engine. Groups have no goroutines: what happens by
// itself, timeouts, is the janitor's, and everything else is done by who calls.
//
// Locking. loadMu before the locks of a group, and those before mu. Only loadMu is held
// across a write to the log.
//
//	field        guarded by   written by
//	engine, opt, log, offsets   (immutable)   newCoordinator
//	lost         (immutable)  Open
//	gap, newer, unsaved   loadMu   load, saveClamped
//	loaded       atomic, set once   load (under loadMu)
//	groups       mu           load, of, remove
//	closed       mu           close
//	catalog, asked   atomic   topicsChanged; who asks for it first
//	nextDeadline atomic       events of groups, expireMembers
type coordinator struct {
	engine  *Engine
	opt     GroupOptions
	log     *slog.Logger
	offsets offsetsTopic

	lost error // why the offsets topic may be one that was there and is missing

	loadMu  sync.Mutex
	loaded  atomic.Bool
	gap     error              // what is damaged of the offsets topic: commits may be missing
	newer   bool               // it has records that a later version may have written
	unsaved map[string][]entry // commits that were brought down to an end, by group

	mu     sync.Mutex
	groups map[string]*groupState
	closed bool

	catalog      atomic.Pointer[catalog]
	asked        atomic.Bool
	nextDeadline atomic.Int64 // of any member, nanoseconds since begun; see expireMembers
	begun        time.Time
}

// catalog is the topics there are. It is never changed.
type catalog struct {
	names  map[string]*Topic
	ids    map[group.TopicID]*Topic
	topics group.Topics
}

func newCoordinator(e *Engine) *coordinator {
	c := &coordinator{
		engine: e, opt: e.opt.Groups, log: e.log, offsets: offsetsTopic{engine: e},
		groups: map[string]*groupState{}, begun: time.Now(),
	}
	c.nextDeadline.Store(noDeadline)
	return c
}

// topics is the catalog, which is made where there is none so far.
func (c *coordinator) topics() *catalog {
	if k := c.catalog.Load(); k != nil {
		return k
	}
	c.asked.Store(true) // first: who makes a topic now either is seen or sees it
	c.catalog.CompareAndSwap(nil, newCatalog(c.engine))
	return c.catalog.Load()
}

func newCatalog(e *Engine) *catalog {
	list := e.Topics()
	k := &catalog{make(map[string]*Topic, len(list)), make(map[group.TopicID]*Topic, len(list)), make(group.Topics, len(list))}
	for _, t := range list {
		id := group.TopicID(t.id)
		k.names[t.name], k.ids[id] = t, t
		k.topics[t.name] = group.Topic{Name: t.name, ID: id, Partitions: int32(t.Partitions())}
	}
	return k
}

// partition finds a partition by the topic's id, nil where there is none.
func (k *catalog) partition(at group.Partition) *Partition {
	t := k.ids[at.Topic]
	if t == nil || at.Number < 0 || int(at.Number) >= t.Partitions() {
		return nil
	}
	return t.parts()[at.Number]
}

// topicsChanged tells the groups that topics were made, deleted or given partitions. Who
// calls it holds catalogMu.
func (c *coordinator) topicsChanged() {
	if !c.asked.Load() {
		return
	}
	k := newCatalog(c.engine)
	c.catalog.Store(k)
	for _, g := range c.list() {
		g.setTopics(k.topics)
	}
}

// topicDeleted forgets what groups have committed of a topic, durably: who holds
// partitions of it loses them, and a new topic of the name begins without commits.
func (c *coordinator) topicDeleted(t *Topic) {
	c.topicsChanged()
	if err := c.ready(); err != nil {
		if !errors.Is(err, ErrClosed) {
			c.log.Warn("cannot forget the commits of a deleted topic; they are of no effect", "topic", t.name, "err", err)
		}
		return
	}
	for _, g := range c.list() {
		if err := g.dropTopic(group.TopicID(t.id)); err != nil {
			c.log.Warn("cannot forget the commits of a deleted topic; they are of no effect", "topic", t.name, "group", g.id, "err", err)
		}
	}
}

// loadAfterCrash reads the commits before anybody can publish: what they were made
// for may be gone, and must not be taken for what is published next.
func (c *coordinator) loadAfterCrash() {
	if err := c.ready(); err != nil {
		c.log.Error("cannot read the commits of groups", "err", err)
	}
}

// ready sees to it that the commits are read. Where that fails it is tried again.
func (c *coordinator) ready() error {
	if c.loaded.Load() {
		return nil
	}
	c.loadMu.Lock()
	defer c.loadMu.Unlock()
	if c.loaded.Load() {
		return nil
	}
	known := c.topics()
	in, err := c.offsets.load(known)
	if err != nil {
		return err
	}
	if c.lost != nil {
		in.gaps = append(in.gaps, c.lost)
	}
	for _, gap := range in.gaps {
		c.log.Error("commits of groups are damaged: some may be missing, or older than they were", "err", gap)
	}
	if in.odd > 0 {
		c.log.Warn("records of the offsets topic are not understood and passed over", "records", in.odd, "last", in.last)
	}
	c.gap, c.newer = errors.Join(in.gaps...), in.newer
	c.unsaved = c.clamp(in.tables, known)
	c.mu.Lock()
	for id, table := range in.tables {
		if table.len() > 0 {
			c.groups[id] = newGroupState(c, id, table)
		}
	}
	c.mu.Unlock()
	c.loaded.Store(true)
	c.engine.wakeHeld()
	c.saveClampedLocked()
	return nil
}

// clamp brings the commits that lie above the end of their log down to it. A crash has
// taken the records in between, and other ones will get their offsets.
func (c *coordinator) clamp(tables map[string]*commitTable, known *catalog) map[string][]entry {
	down := map[string][]entry{}
	for _, id := range slices.Sorted(maps.Keys(tables)) {
		for _, e := range tables[id].entries() {
			p := known.partition(e.at)
			if p == nil || p.log == nil {
				continue
			}
			lower, was := tables[id].clamp(e.at, p.opened)
			if !was {
				continue
			}
			c.log.Error("group has committed more than a crash has left: it goes on at the end of the log",
				"group", id, "partition", p.log.Name(), "committed", e.commit.Offset, "end", p.opened)
			down[id] = append(down[id], lower)
		}
	}
	return down
}

// saveClampedLocked keeps what clamp has done: the next start finds a longer log.
func (c *coordinator) saveClampedLocked() {
	for id, list := range c.unsaved {
		g := c.find(id)
		if g != nil {
			if err := g.keepClamped(list); err != nil {
				c.log.Error("cannot keep what a group's place is after the crash, trying again", "group", id, "err", err)
				continue
			}
		}
		delete(c.unsaved, id)
	}
}

// with calls f with a group, which is made where there is none. One that ends meanwhile
// is waited for, and then begins anew.
func (c *coordinator) with(id string, f func(*groupState) error) error {
	for {
		g, err := c.of(id)
		if err != nil {
			return err
		}
		if err := f(g); err != errEnded {
			return err
		}
		g.settle()
	}
}

// find returns a group, or nil.
func (c *coordinator) find(id string) *groupState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.groups[id]
}

// of returns a group, which is made where there is none.
func (c *coordinator) of(id string) (*groupState, error) {
	if err := checkGroupID(id); err != nil {
		return nil, err
	}
	if err := c.ready(); err != nil {
		return nil, err
	}
	c.topics() // from here on changes of topics are told to groups
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	g := c.groups[id]
	if g == nil {
		g = newGroupState(c, id, &commitTable{})
		c.groups[id] = g
	}
	return g, nil
}

// existing returns a group, ErrNoGroup where there is none.
func (c *coordinator) existing(id string) (*groupState, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	g, closed := c.groups[id], c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return nil, ErrClosed
	case g == nil || g.nothing():
		return nil, ErrNoGroup
	}
	return g, nil
}

// all returns the groups that have members or commits, by id.
func (c *coordinator) all() ([]*groupState, error) {
	if err := c.ready(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	return slices.DeleteFunc(c.list(), (*groupState).nothing), nil
}

// list returns all groups, by id.
func (c *coordinator) list() []*groupState {
	c.mu.Lock()
	list := slices.Collect(maps.Values(c.groups))
	c.mu.Unlock()
	slices.SortFunc(list, func(a, b *groupState) int { return strings.Compare(a.id, b.id) })
	return list
}

// placeOf is a group's place; false where it has none, or the commits are not read.
func (c *coordinator) placeOf(id string, at group.Partition) (Offset, bool) {
	if !c.loaded.Load() {
		return 0, false
	}
	g := c.find(id)
	if g == nil {
		return 0, false
	}
	commit, some := g.table.get(at)
	return commit.Offset, some
}

// moved has publishers look anew for which groups have moved.
func (c *coordinator) moved(list []entry) {
	known := c.catalog.Load()
	if known == nil {
		return
	}
	for i := range list {
		if p := known.partition(list[i].at); p != nil {
			p.wakeHeld()
		}
	}
}

// remove takes a group out that has ended.
func (c *coordinator) remove(g *groupState) {
	c.mu.Lock()
	if c.groups[g.id] == g {
		delete(c.groups, g.id)
	}
	c.mu.Unlock()
}

const noDeadline = 1<<63 - 1

// expect makes sure that expireMembers looks at the groups at a time.
func (c *coordinator) expect(at time.Time) {
	ns := int64(at.Sub(c.begun))
	for {
		next := c.nextDeadline.Load()
		if next <= ns || c.nextDeadline.CompareAndSwap(next, ns) {
			return
		}
	}
}

// expireMembers puts out the members that were not heard of in time.
func (c *coordinator) expireMembers() {
	if int64(time.Since(c.begun)) < c.nextDeadline.Load() {
		return
	}
	c.nextDeadline.Store(noDeadline)
	for _, g := range c.list() {
		g.expireMembers()
	}
}

// compact keeps the offsets topic short. One that has more than the tables do, damage or
// records of a later version, stays as it is: a trim would take the bytes and what tells
// of them.
func (c *coordinator) compact() {
	c.loadMu.Lock()
	c.saveClampedLocked()
	due := c.loaded.Load() && c.gap == nil && !c.newer && c.offsets.due()
	c.loadMu.Unlock()
	if !due {
		return
	}
	if err := c.offsets.compact(c.list); err != nil && !errors.Is(err, ErrClosed) {
		c.log.Error("cannot write the commits of groups anew, trying again", "topic", kafkaoffsets.Topic, "err", err)
	}
}

// expireCommits forgets commits that have served their time, and groups of which
// nothing is left.
func (c *coordinator) expireCommits() {
	for _, g := range c.list() {
		if err := g.expireCommits(); err != nil && !errors.Is(err, ErrClosed) {
			c.log.Warn("cannot expire the commits of a group for good", "group", g.id, "err", err)
		}
	}
}

// commitTime is the time of a commit, to the millisecond, as it is kept.
func (c *coordinator) commitTime() time.Time { return time.UnixMilli(c.engine.env.Now()) }

// close has every member's calls return ErrClosed. What was committed is on its way
// and told about when the logs are closed.
func (c *coordinator) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, g := range c.list() {
		g.close()
	}
}
