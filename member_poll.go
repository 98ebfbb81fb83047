package varve

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/varvelog/varve/record"
)

// Polled is a run of records of one partition, in order.
type Polled struct {
	Topic     string
	Partition int32
	Records   []Record

	LeaderEpoch record.Epoch // of all of them

	group   string
	topicID uuid.UUID
}

// Poll returns the next records of one of the member's partitions, in turn; where there
// are none it waits until there are, or the context ends. Whoever polls says that the
// records of the polls before are done with: Commit commits them all.
//
// It also does what the group asks of the member, and calls the callbacks. The records of
// a partition that goes to another member are not handed out any more from when OnRevoked
// is called.
//
// What cannot be read of a partition is an error, told once, with the partition in
// Polled: *OutOfRangeError where retention went past the group's place, *CorruptError,
// ErrNoCommit. Polls go on with the other partitions, and behind what is lost. Once the
// member was put out the error is a *FencedError, after Leave ErrLeft, and ErrClosed when
// the engine is closed.
func (m *Member) Poll(ctx context.Context) (Polled, error) {
	if err := m.lock(ctx); err != nil {
		return Polled{}, err
	}
	defer m.unlock()
	for {
		if err := m.step(ctx); err != nil {
			return Polled{}, err
		}
		if p, ok, err := m.take(); ok || err != nil {
			return p, err
		}
		if err := m.park(ctx); err != nil {
			return Polled{}, err
		}
	}
}

// TryPoll is Poll without waiting for records: ok is false when there are none now. It
// may wait for the disk, and does for callbacks.
func (m *Member) TryPoll(ctx context.Context) (p Polled, ok bool, err error) {
	if err := m.lock(ctx); err != nil {
		return Polled{}, false, err
	}
	defer m.unlock()
	if err := m.step(ctx); err != nil {
		return Polled{}, false, err
	}
	return m.take()
}

// take hands out what there is, of the partition whose turn it is.
func (m *Member) take() (Polled, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn %= max(len(m.claims), 1)
	for range m.claims {
		c := m.claims[m.turn%len(m.claims)]
		m.turn++
		if p, err := m.takeOf(c); len(p.Records) > 0 || err != nil {
			return p, len(p.Records) > 0, err
		}
	}
	return Polled{}, false, nil
}

// takeOf reads one claim. An error behind records waits for the next time.
func (m *Member) takeOf(c *claim) (Polled, error) {
	p := Polled{Topic: c.topic, Partition: c.at.Number, LeaderEpoch: -1, group: m.group.id, topicID: uuid.UUID(c.at.Topic)}
	if err := c.failed; err != nil && !c.going {
		c.failed = nil
		return p, err
	}
	if c.idle() || !m.alive(c) || c.cursor.dry() && c.cursor.next >= c.cursor.p.End() {
		return p, nil
	}
	p.Records = make([]Record, 0, c.last)
	for bytes := 0; len(p.Records) < m.opt.MaxRecords && bytes < m.opt.MaxBytes; {
		var rec Record
		ok, err := c.cursor.record(&rec)
		if err != nil {
			c.failed = fmt.Errorf("group %s: %w", m.group.id, err)
		}
		if !ok {
			break
		}
		epoch := c.cursor.batch.LeaderEpoch
		if len(p.Records) > 0 && epoch != p.LeaderEpoch {
			c.cursor = cursor{p: c.cursor.p, next: rec.Offset} // of the next poll
			break
		}
		p.Records = append(p.Records, rec)
		p.LeaderEpoch, c.epoch = epoch, epoch
		bytes += weight(&rec)
	}
	c.last = len(p.Records)
	if err := c.failed; len(p.Records) == 0 && err != nil {
		c.failed = nil
		return p, err
	}
	return p, nil
}

// alive says whether a claim's log is open. One of a topic that could not be deleted is
// another than before.
func (m *Member) alive(c *claim) bool {
	if !c.cursor.p.log.Closed() {
		return true
	}
	p := m.group.coordinator.topics().partition(c.at)
	if p == nil || p.log == nil || p.log.Closed() {
		return false
	}
	c.cursor = cursor{p: p, next: c.cursor.next}
	return true
}

// park waits until there may be records, something the group wants, or a heartbeat is
// due.
func (m *Member) park(ctx context.Context) error {
	m.mu.Lock()
	ready := false
	parked := make([]*Partition, 0, len(m.claims))
	for _, c := range m.claims {
		if c.idle() || !m.alive(c) {
			continue
		}
		if ready = !c.cursor.p.log.Park(m.waiter, c.cursor.next); ready {
			break
		}
		parked = append(parked, c.cursor.p)
	}
	beat := time.Until(m.beaten.Add(m.opt.MaxPollInterval / heartbeats))
	m.mu.Unlock()
	defer func() {
		for _, p := range parked {
			p.log.Unpark(m.waiter)
		}
	}()
	if ready || m.news.Load() {
		return ctx.Err()
	}
	timer := time.NewTimer(beat)
	defer timer.Stop()
	defer lend(ctx).back()
	select {
	case <-m.waiter.C:
	case <-timer.C:
	case <-ctx.Done():
		return fmt.Errorf("wait for records: %w", ctx.Err())
	}
	return nil
}

// Pause has polls pass over partitions until Resume; the member goes on owning them. All
// of them must be the member's: ErrNotOwner else, and nothing changes. A partition that
// comes back to the member is not paused.
func (m *Member) Pause(partitions ...TopicPartition) error { return m.setPaused(partitions, true) }

// Resume undoes Pause.
func (m *Member) Resume(partitions ...TopicPartition) error { return m.setPaused(partitions, false) }

func (m *Member) setPaused(partitions []TopicPartition, paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*claim
	for _, p := range partitions {
		c, err := m.ownLocked(p.Topic, p.Partition)
		if err != nil {
			return err
		}
		list = append(list, c)
	}
	for _, c := range list {
		c.paused = paused
	}
	m.wake()
	return nil
}

// Seek has polls go on elsewhere in a partition, from the next on. Commit then commits
// this place, whether it is ahead or behind. ErrNotOwner where the partition is not the
// member's, *OutOfRangeError for an offset that is not there.
func (m *Member) Seek(ctx context.Context, topic string, number int32, to Start) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.ownLocked(topic, number)
	if err != nil {
		return err
	}
	p := m.group.coordinator.topics().partition(c.at)
	if p == nil {
		return &PartitionError{topic, number, ErrNoTopic}
	}
	next, err := to.resolve(ctx, p)
	if err != nil {
		return &PartitionError{topic, number, err}
	}
	c.put(p, next)
	c.settled = -1
	m.wake()
	return nil
}

// Position is the offset from which on the next poll hands out records of a partition,
// and which Commit commits.
func (m *Member) Position(topic string, number int32) (Offset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.ownLocked(topic, number)
	if err == nil && !c.placed {
		err = c.wrong
	}
	if err != nil {
		return -1, err
	}
	return c.cursor.next, nil
}

// ownLocked finds a claim by the name of its topic.
func (m *Member) ownLocked(topic string, number int32) (*claim, error) {
	if err := m.ended(); err != nil {
		return nil, err
	}
	for _, c := range m.claims {
		if c.topic == topic && c.at.Number == number {
			return c, nil
		}
	}
	return nil, &PartitionError{topic, number, ErrNotOwner}
}
