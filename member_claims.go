package varve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/record"
)

// claim is a partition that a member owns, and how far it has come in it. It is guarded
// by the member's mu.
type claim struct {
	topic string
	at    group.Partition

	cursor    cursor
	epoch     record.Epoch // of the last record handed out, or -1
	settled   Offset       // at which nothing is to be committed, or -1
	metadata  string       // of the commit at which it was placed
	commits   int          // that were begun: which of them is the last
	answer    *answer      // of JoinOptions.PlaceOf, until the claim is placed
	asked     bool         // there is a question under way
	placed    bool         // the cursor is where the group goes on
	announced bool         // OnAssigned knows of it
	going     bool         // it is to be let go of: nothing more is read
	paused    bool
	last      int   // records that the last poll of it had: the next may have as many
	wrong     error // why nothing can be read of it, until somebody seeks
	failed    error // to be told by a poll
}

func (c *claim) name() TopicPartition { return TopicPartition{c.topic, c.at.Number} }

// idle says that nothing is read of it now.
func (c *claim) idle() bool { return !c.placed || c.going || c.paused }

// stop has nothing be read until somebody seeks; a poll says why.
func (c *claim) stop(err error) {
	c.placed, c.wrong = false, &PartitionError{c.topic, c.at.Number, err}
	c.failed = c.wrong
}

// put places the cursor.
func (c *claim) put(p *Partition, next Offset) {
	c.cursor, c.epoch = cursor{p: p, next: next}, -1
	c.placed, c.wrong, c.failed = true, nil, nil
}

// heartbeats is how many there are in a MaxPollInterval: a poll makes one where the last
// is older than that part of it.
const heartbeats = 8

// session is how long the group waits for a member: as long as it may take between two
// polls, and what may have gone by before the first of them.
func (o *JoinOptions) session() time.Duration {
	return o.MaxPollInterval + o.MaxPollInterval/heartbeats
}

func (m *Member) dueLocked() bool { return time.Since(m.beaten) >= m.opt.MaxPollInterval/heartbeats }

// step does what the group wants of the member, until it wants no more.
func (m *Member) step(ctx context.Context) error {
	for more := true; more; {
		if err := m.ended(); err != nil {
			return m.lose(err)
		}
		if m.leaving.Load() {
			return ErrLeft
		}
		var err error
		if more, err = m.advance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// advance takes one step, and says whether there may be another.
func (m *Member) advance(ctx context.Context) (more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.news.Swap(false) || m.dueLocked() {
		m.fresh = true
		if !m.reconcileLocked(ctx) {
			return true, nil // it is over, which the next step tells
		}
	}
	if !m.fresh {
		return false, nil
	}
	if err := m.askLocked(ctx); err != nil {
		return false, err
	}
	if err := m.placeLocked(ctx); err != nil {
		return false, err
	}
	if m.ended() != nil {
		return true, nil // put out meanwhile: the claims are others'
	}
	m.announceLocked(ctx)
	m.fresh = false
	return m.news.Load(), nil
}

// reconcileLocked lets go of what the group wants back, and takes what it gives. Nobody
// is given a partition before the second heartbeat says that OnRevoked is done with it.
func (m *Member) reconcileLocked(ctx context.Context) bool {
	a, ok := m.beatLocked(nil)
	if !ok {
		return false
	}
	// What the group wants back may also be what the member has made no claim of, for its
	// topic was gone.
	if going := m.goingLocked(a.Assigned); len(going) > 0 || len(a.Revoke) > 0 {
		m.news.Store(true) // the next step looks again, also after a panic
		m.revokeLocked(ctx, told(going))
		m.claims = slices.DeleteFunc(m.claims, func(c *claim) bool { return c.going })
		if a, ok = m.beatLocked(m.heldLocked()); !ok {
			return false
		}
	}
	m.addLocked(a.Assigned)
	return true
}

// beatLocked tells the group that the member is alive and, unless it is nil, what it
// holds. False says that it is a member no more.
func (m *Member) beatLocked(held []group.Partition) (group.Answer, bool) {
	var at time.Time
	d, err := m.group.event(func(now time.Time) (group.Decision, error) {
		at = now
		return m.group.machine.Heartbeat(now, group.Heartbeat{
			Member: m.id, Instance: m.opt.Instance, Epoch: m.epoch, Owned: held,
		})
	})
	if err != nil {
		m.end(m.fencedBy(err))
		return group.Answer{}, false
	}
	m.epoch, m.beaten = d.Answer.Epoch, at
	return d.Answer, true
}

func (m *Member) heldLocked() []group.Partition {
	held := []group.Partition{}
	for _, c := range m.claims {
		held = append(held, c.at)
	}
	return held
}

// goingLocked marks and returns the claims that are not among what the member may have.
func (m *Member) goingLocked(assigned []group.Partition) []*claim {
	var going []*claim
	for _, c := range m.claims {
		if _, stays := slices.BinarySearchFunc(assigned, c.at, group.Partition.Compare); !stays {
			c.going = true
			going = append(going, c)
		}
	}
	return going
}

// told lists the claims that OnAssigned knows of: of others the callbacks say nothing.
func told(claims []*claim) []TopicPartition {
	var list []TopicPartition
	for _, c := range claims {
		if c.announced {
			list = append(list, c.name())
		}
	}
	return list
}

// addLocked makes claims of what the member was given.
func (m *Member) addLocked(assigned []group.Partition) {
	known := m.group.coordinator.topics()
	for _, at := range assigned {
		i, had := slices.BinarySearchFunc(m.claims, at, func(c *claim, at group.Partition) int { return c.at.Compare(at) })
		if t := known.ids[at.Topic]; !had && t != nil {
			m.claims = slices.Insert(m.claims, i, &claim{topic: t.name, at: at, epoch: -1, settled: -1})
		}
	}
}

// revokeLocked calls OnRevoked, which has until the group puts the member out.
func (m *Member) revokeLocked(ctx context.Context, going []TopicPartition) {
	if len(going) == 0 || m.opt.OnRevoked == nil {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, m.beaten.Add(min(m.opt.RevokeTimeout, m.opt.session())))
	defer cancel()
	m.unlocked(func() { m.opt.OnRevoked(ctx, going) })
}

// announceLocked calls OnAssigned for what it does not know of.
func (m *Member) announceLocked(ctx context.Context) {
	var got []TopicPartition
	for _, c := range m.claims {
		if !c.announced {
			c.announced = true
			got = append(got, c.name())
		}
	}
	if len(got) > 0 && m.opt.OnAssigned != nil {
		m.unlocked(func() { m.opt.OnAssigned(ctx, got) })
	}
}

// unlocked calls f without mu.
func (m *Member) unlocked(f func()) {
	m.mu.Unlock()
	defer m.mu.Lock()
	f()
}

// lose tells OnLost of what the member had when it was put out, once.
func (m *Member) lose(err error) error {
	m.mu.Lock()
	lost := told(m.claims)
	m.claims = nil
	m.mu.Unlock()
	if _, fenced := err.(*FencedError); fenced && len(lost) > 0 && m.opt.OnLost != nil {
		m.opt.OnLost(lost)
	}
	return err
}

// placeLocked puts the cursors of new claims to where the group goes on.
func (m *Member) placeLocked(ctx context.Context) error {
	var open []*claim
	for _, c := range m.claims {
		if !c.placed && !c.going && c.wrong == nil && (m.opt.PlaceOf == nil || c.answer != nil) {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		return nil
	}
	m.group.settle() // what the owner before has committed is in the table
	known := m.group.coordinator.topics()
	var pins []entry
	for _, c := range open {
		p := known.partition(c.at)
		if p == nil {
			continue // deleted just now
		}
		pin, err := m.place(ctx, c, p)
		if err != nil {
			return &PartitionError{c.topic, c.at.Number, err}
		}
		if pin {
			pins = append(pins, m.entryOf(c))
		}
	}
	return m.pinLocked(ctx, pins)
}

// place finds where a claim begins. pin says that this is to be committed first.
func (m *Member) place(ctx context.Context, c *claim, p *Partition) (pin bool, err error) {
	if p.broken != nil {
		c.stop(p.broken)
		return false, nil
	}
	if m.opt.PlaceOf != nil {
		m.placeStored(c, p)
		return false, nil
	}
	if commit, some := m.group.table.get(c.at); some {
		c.put(p, commit.Offset)
		c.epoch, c.settled, c.metadata = commit.LeaderEpoch, commit.Offset, commit.Metadata
		return false, nil
	}
	gap := m.group.coordinator.gap
	switch {
	case m.opt.MustResume:
		c.stop(ErrNoCommit)
		return false, nil
	case gap != nil && m.opt.From.kind != fromEarliest:
		c.stop(fmt.Errorf("%w, or it is among the damaged ones: %w", ErrNoCommit, gap))
		return false, nil
	}
	next, err := m.opt.From.resolve(ctx, p)
	if err != nil && ctx.Err() == nil {
		c.stop(err)
		return false, nil
	}
	if err == nil {
		c.put(p, next)
		c.settled = next
	}
	return m.opt.From.kind != fromEarliest, err
}

// pinLocked commits where claims begin. Where that fails they are placed anew the next
// time.
func (m *Member) pinLocked(ctx context.Context, pins []entry) error {
	if len(pins) == 0 {
		return nil
	}
	err := m.group.commit(ctx, pins, func() error { return m.group.checkCommit(m, m.epoch, pins) })
	for _, pin := range pins {
		c := m.claimLocked(pin.at)
		if c.settled = pin.commit.Offset; err != nil {
			c.placed, c.settled = false, -1
		}
	}
	return err
}

// claimLocked returns the claim of a partition, or nil.
func (m *Member) claimLocked(at group.Partition) *claim {
	i, has := slices.BinarySearchFunc(m.claims, at, func(c *claim, at group.Partition) int { return c.at.Compare(at) })
	if !has {
		return nil
	}
	return m.claims[i]
}

// wrong lists the partitions of which nothing can be read, and why.
func (m *Member) wrong() (list []PartitionError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if err, is := c.wrong.(*PartitionError); is {
			list = append(list, *err)
		}
	}
	return list
}
