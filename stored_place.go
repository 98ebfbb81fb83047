package varve

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/varvelog/varve/record"
)

// PlaceKey is under what a handler that stores its own place stores it, with all but
// Topic, which is for people: topics that are deleted and made anew differ by their ids, and
// a place in the one is none in the other.
type PlaceKey struct {
	Group     string
	Topic     string
	TopicID   uuid.UUID
	Partition int32
}

// StoredPlace is what it stores, in one transaction with the effect of a record: one
// offset more than that of the record, and its leader epoch. A record counts as processed
// where Covers says so; a transaction that finds that has to do nothing, and commits to
// nothing. As SQL, with the record's own epoch and offset:
//
//	INSERT INTO places VALUES (:group, :topic_id, :partition, :epoch, :offset + 1)
//	ON CONFLICT DO UPDATE SET leader_epoch = :epoch, next_offset = :offset + 1
//	WHERE (leader_epoch, next_offset) <= (:epoch, :offset)
//
// changes no row then. The condition is what stops a handler that writes
// when its partition is another member's by now, for the group cannot.
type StoredPlace struct {
	Offset      Offset       // everything below was processed
	LeaderEpoch record.Epoch // of the last record processed; -1 where it is not known
}

// Covers says whether a record was processed: it is below the place, in its leader epoch
// or an earlier one. A record of a later epoch is another one, at an offset that a crash
// had freed.
func (p StoredPlace) Covers(epoch record.Epoch, off Offset) bool {
	return epoch < p.LeaderEpoch || epoch == p.LeaderEpoch && off < p.Offset
}

// PlaceOf reads back what a handler has stored; some is false where that is nothing. What
// is read must be committed, and be the latest: not a replica's that may lag.
type PlaceOf func(ctx context.Context, key PlaceKey) (p StoredPlace, some bool, err error)

// StoredPlaceError says that records which a handler has stored as processed are gone: a
// crash has taken them from a topic of a weaker level, or the directory is an older copy.
// Reading goes on at what is left.
type StoredPlaceError struct {
	Stored StoredPlace
	Left   Offset
}

func (e *StoredPlaceError) Error() string {
	return fmt.Sprintf("place %d of leader epoch %d was stored, and of what was processed the log holds what is below %d: going on there",
		e.Stored.Offset, e.Stored.LeaderEpoch, e.Left)
}

// left is where to go on, from what was stored: behind the last record that was processed
// and still stands there.
func (p StoredPlace) left(part *Partition) Offset {
	at := min(p.Offset, part.End())
	if p.LeaderEpoch >= 0 {
		at = min(at, part.log.EpochEnd(p.LeaderEpoch))
	}
	return at
}

// PlaceKey is under what the place behind the record is to be stored. Of a delivery that a
// test has made it has neither group nor id.
func (d Delivery) PlaceKey() PlaceKey {
	if d.lane == nil {
		return PlaceKey{Topic: d.Topic, Partition: d.Partition}
	}
	return PlaceKey{d.lane.sub.groupID, d.Topic, uuid.UUID(d.lane.at.Topic), d.Partition}
}

// PlaceKey is under what the place behind the records is to be stored.
func (p Polled) PlaceKey() PlaceKey {
	return PlaceKey{p.group, p.Topic, p.topicID, p.Partition}
}

var errBothPlaces = errors.New("PlaceOf says where to begin, and From is not used")

// answer is what PlaceOf has said.
type answer struct {
	place StoredPlace
	some  bool
}

func (c *claim) key(groupID string) PlaceKey {
	return PlaceKey{groupID, c.topic, uuid.UUID(c.at.Topic), c.at.Number}
}

// unasked says that PlaceOf has to be asked where the claim begins.
func (c *claim) unasked() bool { return !c.placed && !c.going && c.wrong == nil && c.answer == nil }

// askLocked asks PlaceOf about claims, in the caller's time.
func (m *Member) askLocked(ctx context.Context) (err error) {
	if m.opt.PlaceOf == nil || m.pushed {
		return nil
	}
	for _, c := range slices.Clone(m.claims) {
		if !c.unasked() {
			continue
		}
		var a answer
		m.unlocked(func() { a.place, a.some, err = m.opt.PlaceOf(ctx, c.key(m.group.id)) })
		if err != nil {
			return &PartitionError{c.topic, c.at.Number, fmt.Errorf("read stored place: %w", err)}
		}
		c.answer = &a
	}
	return nil
}

// placeStored puts a claim where the handler's store says. What the group has committed is
// for its lag alone, and follows.
func (m *Member) placeStored(c *claim, p *Partition) {
	a := c.answer
	c.answer = nil // who places it once more asks anew
	c.settled = -1
	if commit, some := m.group.table.get(c.at); some {
		c.settled = commit.Offset
	}
	switch {
	case !a.some && m.opt.MustResume:
		c.stop(ErrNoCommit)
	case !a.some:
		c.put(p, p.Start())
	case a.place.Offset < 0:
		c.stop(p.outOfRange(a.place.Offset))
	default:
		at := a.place.left(p)
		if c.put(p, at); at == a.place.Offset {
			c.epoch = a.place.LeaderEpoch
		} else {
			c.failed = &PartitionError{c.topic, c.at.Number, &StoredPlaceError{a.place, at}}
		}
	}
}
