package varve

import (
	"github.com/varvelog/varve/group"
)

// advanceLocked moves the place over what is done at the front.
func (l *lane) advanceLocked() {
	was := l.place
	for l.window.len() > 0 && l.window.front().state == itemDone {
		l.place, l.epoch = l.window.front().rec.Offset+1, l.window.front().epoch
		l.window.pop()
	}
	if l.window.len() == 0 {
		l.place = l.next // behind what was lost, too
		l.shedLocked()
	}
	if l.place != was {
		l.changedLocked()
	}
	l.refillLocked()
}

// changedLocked has what there is to commit be committed some time.
func (l *lane) changedLocked() {
	if l.sub.opt.Guarantee == AtLeastOnce {
		l.version++
		l.sub.saveSoon()
	}
}

// progress is what there is to commit, and which version of it; none where that is
// committed.
func (l *lane) progress() (e entry, version int, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version == l.saved {
		return entry{}, 0, false
	}
	c := &group.Commit{Offset: l.place, LeaderEpoch: l.epoch, Time: l.sub.all.engine.groups.commitTime()}
	if l.sub.opt.Guarantee == AtMostOnce {
		c.Offset, c.LeaderEpoch = l.begunLocked(), -1
	} else {
		done := finished{base: l.place, epoch: -1}
		l.window.each(func(it *item) {
			if it.state == itemDone {
				done.add(it.rec.Offset, it.epoch)
			}
		})
		done.addRest(&l.ahead, l.next)
		c.Metadata = done.String()
	}
	return entry{l.topic, l.at, c}, l.version, true
}

// begunLocked is the place of a lane of at most once: behind what was read, for that is
// about to be handled, or behind what was, when no more is.
func (l *lane) begunLocked() Offset {
	if l.halted || l.stopped != nil {
		at := l.next
		l.window.each(func(it *item) {
			if it.state == itemReady && it.attempt == 0 {
				at = min(at, it.rec.Offset)
			}
		})
		return at
	}
	return l.next
}

// keep notes what is committed.
func (l *lane) keep(version int) {
	l.mu.Lock()
	l.saved = max(l.saved, version)
	l.mu.Unlock()
}

// permit lets the records below a place be begun, which is committed.
func (l *lane) permit(below Offset) {
	l.mu.Lock()
	l.may = max(l.may, below)
	l.startAllLocked()
	l.mu.Unlock()
}
