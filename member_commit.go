package varve

import (
	"context"
	"fmt"

	"github.com/varvelog/varve/group"
)

// Commit makes what was polled the group's place, in all partitions of the member: every
// record that a Poll has returned counts as processed. It returns when that is on stable
// storage, together with whatever else is written then; where nothing was polled since
// the last time there is nothing to do.
//
// Called after the records of a poll were processed it makes that at least once: what a
// crash comes between is done again. Called in front of it, at most once.
//
// Errors: *FencedError where the member was put out, ErrNotOwner for a partition that is
// another's; nothing was committed then. After a *MaybeStoredError, where the context
// ended first, it is not known.
func (m *Member) Commit(ctx context.Context) error { return m.commit(ctx, m.polledLocked) }

// CommitOffsets commits places of the caller's choice, in partitions that the member
// owns: all of them or, where one is refused, none. Polls are not moved by it. Errors
// are those of Commit and of Engine.CommitOffsets.
func (m *Member) CommitOffsets(ctx context.Context, commits ...Commit) error {
	return m.commit(ctx, func() ([]entry, error) { return m.chosenLocked(commits) })
}

// commit commits what choose says. It is queued under mu, so that the commits of a member
// come in the order of the calls, and waited for without.
func (m *Member) commit(ctx context.Context, choose func() ([]entry, error)) error {
	err := ctx.Err()
	if err == nil {
		err = m.tryCommit(ctx, choose)
	}
	if err != nil {
		return fmt.Errorf("commit for group %s: %w", m.group.id, err)
	}
	return nil
}

func (m *Member) tryCommit(ctx context.Context, choose func() ([]entry, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ended(); err != nil {
		return err
	}
	list, err := choose()
	if err != nil || len(list) == 0 {
		return err
	}
	w, err := m.group.queue(list, func() error { return m.group.checkCommit(m, m.epoch, list) })
	if err != nil {
		return err
	}
	begun := m.begunLocked(list)
	m.unlocked(func() { err = w.wait(ctx) })
	for i, c := range begun.claims {
		if c != nil && c.commits == begun.numbers[i] {
			if c.settled = list[i].commit.Offset; err != nil {
				c.settled = -1
			}
		}
	}
	return err
}

// begun are commits that were queued: which of its claim each is.
type begun struct {
	claims  []*claim
	numbers []int
}

func (m *Member) begunLocked(list []entry) (b begun) {
	for i := range list {
		c := m.claimLocked(list[i].at)
		if c == nil {
			b.claims, b.numbers = append(b.claims, nil), append(b.numbers, 0)
			continue
		}
		c.commits++
		b.claims, b.numbers = append(b.claims, c), append(b.numbers, c.commits)
	}
	return b
}

// polledLocked are the places that polls have come to and that are not committed.
func (m *Member) polledLocked() ([]entry, error) {
	var list []entry
	for _, c := range m.claims {
		if c.placed && c.cursor.next != c.settled && m.alive(c) {
			list = append(list, m.entryOf(c))
		}
	}
	return list, nil
}

// entryOf is the place of a claim as a commit.
func (m *Member) entryOf(c *claim) entry {
	now := m.group.coordinator.commitTime()
	return entry{c.topic, c.at, &group.Commit{Offset: c.cursor.next, LeaderEpoch: c.epoch, Time: now}}
}

// chosenLocked are commits of the caller's choice. The epoch of one is known where the
// polls have come just there.
func (m *Member) chosenLocked(commits []Commit) ([]entry, error) {
	list, err := m.group.entriesOf(commits)
	for i := range list {
		if c := m.claimLocked(list[i].at); c != nil && c.placed && c.cursor.next == list[i].commit.Offset {
			list[i].commit.LeaderEpoch = c.epoch
		}
	}
	return list, err
}
