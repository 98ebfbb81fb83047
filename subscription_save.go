package varve

import "time"

// saving is a commit of several lanes that is under way.
type saving struct {
	write    *commitWrite
	list     []entry
	lanes    []*lane
	versions []int
}

// stored is how a commit has ended.
type stored struct{ err error }

// saveSoon has what was processed be committed within CommitInterval.
func (s *Subscription) saveSoon() {
	if !s.dirty.Load() && s.dirty.CompareAndSwap(false, true) {
		s.all.alarms.set(&s.save, time.Now().Add(s.opt.CommitInterval))
	}
}

// saveNow has it be committed at once.
func (s *Subscription) saveNow() {
	s.due.Store(true)
	s.wake()
}

// beginSave commits, where that is due or a lane waits for it, and none is under way:
// a commit holds what has come together while the one before was written.
func (s *Subscription) beginSave(m *Member) error {
	if s.flying != nil {
		return nil
	}
	all := s.due.Swap(false) || s.stopping.Load()
	if all {
		s.dirty.Store(false) // first: what changes from here on sets the alarm anew
	}
	f := &saving{}
	for _, l := range s.current() {
		if !all && !l.isHalted() {
			continue
		}
		e, version, some := l.progress()
		if !some {
			continue
		}
		if m.group.coordinator.topics().partition(l.at) == nil {
			l.drop(ErrNoTopic)
			s.wake()
			continue
		}
		f.list, f.lanes, f.versions = append(f.list, e), append(f.lanes, l), append(f.versions, version)
	}
	if len(f.list) == 0 {
		return nil
	}
	m.mu.Lock()
	write, err := m.group.queueThen(f.list, func() error { return m.group.checkCommit(m, m.epoch, f.list) }, func(w *commitWrite) {
		s.stored.Store(&stored{w.failed()})
		s.wake()
	})
	m.mu.Unlock()
	if err == nil {
		f.write, s.flying = write, f
	}
	return err
}

// settleSave sees what has become of a commit.
func (s *Subscription) settleSave() {
	end := s.stored.Swap(nil)
	if end == nil {
		return
	}
	f := s.flying
	s.flying = nil
	if end.err != nil {
		s.notSaved(end.err)
		return
	}
	for i, l := range f.lanes {
		l.keep(f.versions[i])
		if s.opt.Guarantee == AtMostOnce {
			l.permit(f.list[i].commit.Offset)
		}
	}
}

// notSaved has a commit be tried again. Where the member was put out there is none to.
func (s *Subscription) notSaved(err error) {
	if m := s.member.Load(); m.ended() != nil {
		s.wake()
		return
	}
	s.all.engine.log.Warn("cannot commit for a group, trying again", "group", s.groupID, "err", err)
	s.dirty.Store(true)
	s.all.alarms.set(&s.save, time.Now().Add(restBeforeRetry))
}
