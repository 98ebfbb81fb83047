package varve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// work does what is new: of the group, of commits, of a stop. It waits for the disk, but
// for no handler.
func (s *Subscription) work() {
	s.actor.begin()
	defer func() {
		if s.actor.end() {
			s.all.drivers.add(s)
		}
	}()
	switch m := s.member.Load(); {
	case !s.joined.Load() || s.isDone():
	case m == nil:
		s.joinAgain()
	case m.ended() != nil:
		s.putOut(m)
	case s.abandoned.Load():
		s.abandon(m)
	default:
		s.drive(m)
	}
}

func (s *Subscription) isDone() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// drive keeps a member going.
func (s *Subscription) drive(m *Member) {
	if s.stopping.Load() {
		for _, l := range s.current() {
			l.halt()
		}
		s.giveUpQuestions()
	}
	s.settleSave()
	if !s.reconcile(m) {
		s.wake() // it is over, which the next look tells
		return
	}
	if err := s.beginSave(m); err != nil {
		s.notSaved(err)
	}
	if s.stopping.Load() && s.flying == nil && s.atRest() && s.giveUpQuestions() {
		s.leave(m, nil)
		return
	}
	m.mu.Lock()
	next := m.beaten.Add(m.opt.MaxPollInterval / heartbeats)
	m.mu.Unlock()
	s.all.alarms.set(&s.beat, next)
}

// reconcile lets go of what the group wants back and is done with, and takes what it gives.
// False says that the member is one no more.
func (s *Subscription) reconcile(m *Member) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	released := s.releaseLocked(m)
	if news := m.news.Swap(false); !released && !news && !m.dueLocked() {
		return true
	}
	var held = m.heldLocked()
	if !released {
		held = nil
	}
	a, ok := m.beatLocked(held)
	if !ok {
		return false
	}
	if len(m.goingLocked(a.Assigned)) > 0 {
		s.haltGoingLocked(m)
	} else if len(a.Revoke) > 0 { // of which there is no claim
		if a, ok = m.beatLocked(m.heldLocked()); !ok {
			return false
		}
		m.news.Store(true)
		s.wake()
	}
	m.addLocked(a.Assigned)
	if err := m.placeLocked(s.ctx); err != nil && m.ended() == nil {
		s.all.engine.log.Warn("cannot begin in partitions of a group, trying again", "group", s.groupID, "err", err)
		m.news.Store(true)
		s.all.alarms.set(&s.save, time.Now().Add(restBeforeRetry))
	}
	s.askLocked(m)
	s.openLocked(m)
	return true
}

// releaseLocked lets go of the claims that are going and at which nobody is at work.
func (s *Subscription) releaseLocked(m *Member) bool {
	had := len(m.claims)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.claims = slices.DeleteFunc(m.claims, func(c *claim) bool {
		l := s.lanes[c.at]
		if !c.going || l != nil && !l.atRest() {
			return false
		}
		if l != nil {
			l.drop(ErrNotOwner)
			delete(s.lanes, c.at)
		}
		return true
	})
	return len(m.claims) < had
}

// haltGoingLocked has lanes of claims that are going begin nothing more.
func (s *Subscription) haltGoingLocked(m *Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range m.claims {
		if l := s.lanes[c.at]; c.going && l != nil {
			l.halt()
		}
	}
	s.wake() // those that are at rest go at once
}

// openLocked makes lanes of claims that are placed.
func (s *Subscription) openLocked(m *Member) {
	for _, c := range m.claims {
		s.mu.Lock()
		l := s.lanes[c.at]
		fresh := l == nil && c.placed && !c.going && !s.stopping.Load()
		if fresh {
			l = newLane(s, m.group, c)
			s.lanes[c.at] = l
		}
		s.mu.Unlock()
		if fresh {
			l.wake()
		}
		if c.failed == nil {
			continue
		}
		f := Failure{Offset: -1, Err: c.failed, Outcome: Stopped}
		if c.placed {
			f.Offset, f.Outcome = c.cursor.next, LostRecords
		}
		c.failed = nil
		m.unlocked(func() { s.tell(c.name(), f) })
	}
}

// current are the lanes there are.
func (s *Subscription) current() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.lanes))
}

func (s *Subscription) atRest() bool {
	for _, l := range s.current() {
		if !l.atRest() {
			return false
		}
	}
	return true
}

// leave takes the member out of the group, and ends the subscription.
func (s *Subscription) leave(m *Member, err error) {
	m.mu.Lock()
	m.claims = nil
	lerr := m.group.leave(m, true)
	m.end(ErrLeft)
	m.mu.Unlock()
	s.finish(errors.Join(err, lerr))
}

// abandon ends the subscription without the handlers that are at work.
func (s *Subscription) abandon(m *Member) {
	lanes := s.current()
	for _, l := range lanes {
		l.halt()
	}
	if f := s.flying; f != nil {
		f.write.wait(context.Background())
		s.settleSave()
	}
	err := s.beginSave(m)
	for _, l := range lanes {
		l.drop(context.Cause(s.ctx))
		s.left = append(s.left, l.unfinished()...)
	}
	if f := s.flying; f != nil {
		err = f.write.wait(context.Background())
		s.flying = nil
	}
	s.left = append(s.left, s.unanswered()...)
	s.leave(m, err)
}

// putOut is what becomes of a subscription whose member is one no more: it joins anew once
// its handlers have returned, or ends.
func (s *Subscription) putOut(m *Member) {
	err := m.ended()
	lanes := s.current()
	for _, l := range lanes {
		l.drop(err)
	}
	s.mu.Lock()
	s.retired = append(s.retired, lanes...)
	clear(s.lanes)
	s.mu.Unlock()
	m.mu.Lock()
	m.claims = nil
	m.mu.Unlock()
	if f := s.flying; f != nil {
		f.write.wait(context.Background())
		s.stored.Store(nil)
		s.flying = nil
	}
	if !errors.As(err, new(*FencedError)) {
		s.finish(err)
		return
	}
	s.all.engine.log.Warn("subscription was put out of its group, joining anew", "group", s.groupID, "err", err)
	s.member.Store(nil)
	s.wake()
}

// joinAgain makes a new member when no handler of the one before is at work: nobody works
// on a record twice at a time.
func (s *Subscription) joinAgain() {
	s.mu.Lock()
	s.retired = slices.DeleteFunc(s.retired, (*lane).isQuiet)
	retired := slices.Clone(s.retired)
	s.mu.Unlock()
	switch {
	case s.abandoned.Load():
		for _, l := range retired {
			s.left = append(s.left, l.unfinished()...)
		}
		s.left = append(s.left, s.unanswered()...)
		s.finish(nil)
	case len(retired) > 0:
	case s.stopping.Load() && !s.giveUpQuestions():
	case s.stopping.Load():
		s.finish(nil)
	default:
		if err := s.join(s.ctx); errors.Is(err, ErrClosed) {
			s.finish(err)
		} else if err != nil {
			s.all.engine.log.Warn("subscription cannot join its group, trying again", "group", s.groupID, "err", err)
			s.all.alarms.set(&s.beat, time.Now().Add(restBeforeRetry))
		} else {
			s.wake()
		}
	}
}

// finish is the end.
func (s *Subscription) finish(err error) {
	for _, l := range s.current() {
		l.drop(ErrLeft)
	}
	s.giveUpQuestions()
	if err != nil {
		s.err.Store(&err)
	}
	s.cancel(ErrLeft)
	s.all.alarms.stop(&s.beat)
	s.all.alarms.stop(&s.save)
	if s.unbind != nil {
		s.unbind()
	}
	s.all.remove(s)
	close(s.done)
}
