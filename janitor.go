package varve

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/retention"
)

// job is something the janitor does again and again.
type job struct {
	every time.Duration
	next  time.Time
	run   func()
}

const (
	janitorTick = 100 * time.Millisecond
	// jobShare bounds what a job costs: it waits this many times as long as it took.
	jobShare = 20

	measureInterval = time.Second
	// checkpointInterval bounds, together with the size of the journal, what a start
	// after a crash has to read.
	checkpointInterval = 5 * time.Second
	// weakCheckpoint is how often logs of a level below fsync are in a checkpoint:
	// it syncs them, which nobody asked for.
	weakCheckpoint = 30 * time.Second
)

// janitor is the one goroutine that looks after all logs: it syncs those of level
// interval, keeps checkpoints, rolls by age and applies retention.
func (e *Engine) janitor(ctx context.Context) {
	defer close(e.janitorDone)
	tick := time.NewTicker(janitorTick)
	defer tick.Stop()
	jobs := []*job{
		{every: janitorTick, run: e.flushIntervals},
		{every: measureInterval, run: e.measure},
		{every: e.opt.RetentionInterval, run: e.retain},
		{every: checkpointInterval, run: func() { e.keepCheckpoint(false); e.noteDeletions() }},
		{every: janitorTick, run: e.relieveJournal},
		{every: weakCheckpoint, run: func() { e.keepCheckpoint(true) }},
		{every: janitorTick, run: e.groups.expireMembers},
		{every: measureInterval, run: e.groups.compact},
		{every: commitExpiryInterval, run: e.groups.expireCommits},
	}
	for _, j := range jobs {
		j.next = time.Now().Add(j.every)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, j := range jobs {
			if now := time.Now(); !now.Before(j.next) {
				j.run()
				j.next = now.Add(max(j.every, jobShare*time.Since(now)))
			}
		}
	}
}

// flushIntervals asks for a sync of the logs of level interval that are due.
func (e *Engine) flushIntervals() {
	for _, l := range e.logs() {
		l.FlushIfDue()
	}
}

// relieveJournal writes a checkpoint of all logs when the journal has grown large.
func (e *Engine) relieveJournal() {
	if e.journal.pressed() {
		e.keepCheckpoint(true)
	}
}

func (e *Engine) measure() {
	for _, l := range e.logs() {
		l.Measure()
	}
}

func (e *Engine) retain() {
	if err := e.RunRetention(); err != nil && !errors.Is(err, ErrClosed) {
		e.log.Error("retention failed, trying again later", "err", err)
	}
}

func (e *Engine) keepCheckpoint(weak bool) {
	err := e.writeCheckpoint(weak)
	e.checkpoints.ended(e.opt.Clock(), err)
	if err != nil {
		e.log.Warn("checkpoint failed: a crash would cost a longer start", "err", err)
	}
}

// logs lists the logs of all partitions that are open.
func (e *Engine) logs() []*partition.Log {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return logsOf(maps.Values(e.topics))
}

// writeCheckpoint has the files of the logs take everything to the disk and keeps
// where they stand, if anything has changed since the last time; then the journal
// need not have it any more. Logs of a level below fsync are left out unless weak.
func (e *Engine) writeCheckpoint(weak bool) error {
	e.checkpointMu.Lock()
	defer e.checkpointMu.Unlock()
	if err := e.settleDeletionsLocked(); err != nil {
		return err
	}
	round := e.journal.wal.Round() // before any log is looked at: the files have it all
	next := newKeeping(e, round)
	for _, t := range e.allTopics() {
		for _, p := range t.parts() {
			key := logKey{Topic: t.id, Partition: p.index}
			old, known := e.checkpoint.Logs[key]
			switch {
			case p.log == nil:
			case p.log.Failed() != nil || p.log.Closed():
				next.leave(key)
			case known && p.log.CheckpointIsCurrent(&old.Checkpoint):
				next.logs[key] = keptLog{Checkpoint: old.Checkpoint, Round: round}
			case known && !weak && p.log.Config().Level != Fsync:
				next.leave(key)
			default:
				cp, err := p.log.Snapshot()
				if err != nil {
					e.log.Warn("partition is left out of the checkpoint", "partition", p.log.Name(), "err", err)
					next.leave(key)
					continue
				}
				next.logs[key], next.changed = keptLog{Checkpoint: cp, Round: round}, true
			}
		}
	}
	if !next.changed && len(next.logs) == len(e.checkpoint.Logs) && !e.unsavedDeletionsLocked() {
		e.forgetDeletionsLocked()
		return nil
	}
	if err := e.saveLocked(next.logs); err != nil {
		return err
	}
	err := e.journal.wal.Release(next.needed)
	e.forgetDeletionsLocked()
	return err
}

// saveLocked replaces the checkpoint by one without any deleted topic.
func (e *Engine) saveLocked(logs map[logKey]keptLog) error {
	err := e.checkpoint.save(e.fs, logs)
	for i := range e.deleted {
		e.deleted[i].saved = e.deleted[i].saved || err == nil
	}
	return err
}

// keeping is a checkpoint that is being put together.
type keeping struct {
	old     map[logKey]keptLog
	floor   uint64
	logs    map[logKey]keptLog
	needed  uint64 // rounds of the journal up to here are not
	changed bool
}

// newKeeping begins with what the last checkpoint has of logs that could not be
// opened this time.
func newKeeping(e *Engine, round uint64) *keeping {
	k := &keeping{old: e.checkpoint.Logs, floor: e.journal.floor, logs: make(map[logKey]keptLog), needed: round}
	opened := make(map[logKey]bool)
	ours := make(map[uuid.UUID]bool)
	for _, t := range e.allTopics() {
		ours[t.id] = true
		for _, p := range t.parts() {
			if opened[logKey{Topic: t.id, Partition: p.index}] = p.log != nil; p.log == nil {
				k.needed = min(k.needed, k.floor)
			}
		}
	}
	if e.anyBroken() {
		k.needed = min(k.needed, k.floor)
	}
	for key, old := range k.old {
		mayBe := ours[key.Topic] || e.anyBroken() && !e.isDeletedLocked(key.Topic)
		if !opened[key] && mayBe {
			k.logs[key] = old
		}
	}
	return k
}

// leave takes over what the last checkpoint has of a log, and what the journal has
// of it since.
func (k *keeping) leave(key logKey) {
	old, known := k.old[key]
	if !known {
		k.needed = min(k.needed, k.floor)
		return
	}
	k.logs[key] = old
	k.needed = min(k.needed, max(old.Round, k.floor))
}

// RunRetention rolls what is due and removes what the limits of the topics and
// the budget of the engine say, now. The engine does so by itself, every
// Options.RetentionInterval.
func (e *Engine) RunRetention() error {
	e.mu.RLock()
	closed := e.closed
	e.mu.RUnlock()
	if closed {
		return ErrClosed
	}
	e.retentionMu.Lock() // two passes would each make the room that is missing
	defer e.retentionMu.Unlock()
	e.readPlaces()
	e.wakeHeld() // a disk may have refused what was counted, or all there is to come
	e.losing.warn(e)
	logs := e.logs()
	var errs []error
	for _, l := range logs {
		if err := l.RollIfDue(); err != nil {
			errs = append(errs, err)
		}
		n, err := l.Retain()
		if err != nil {
			errs = append(errs, err)
		}
		if n > 0 {
			e.log.Info("retention removed segments", "partition", l.Name(), "segments", n, "log start", l.Start())
		}
	}
	if e.opt.MaxBytes > 0 {
		errs = append(errs, e.keepBudget(logsOf(slices.Values(e.Topics()))))
	}
	err := errors.Join(errs...)
	e.retentions.ended(e.opt.Clock(), err)
	return err
}

// logsOf lists the logs of the partitions of some topics that are open.
func logsOf(topics iter.Seq[*Topic]) []*partition.Log {
	var list []*partition.Log
	for t := range topics {
		for _, p := range t.parts() {
			if p.log != nil {
				list = append(list, p.log)
			}
		}
	}
	return list
}

// keepBudget removes the oldest segments of all logs until they fit the budget.
func (e *Engine) keepBudget(logs []*partition.Log) error {
	facts := make([][]retention.Segment, len(logs))
	for i, l := range logs {
		facts[i] = l.Facts()
	}
	var errs []error
	for i, n := range retention.OverBudget(facts, e.opt.MaxBytes) {
		if n == 0 {
			continue
		}
		removed, err := logs[i].RemoveBelow(facts[i][n-1].Next)
		if err != nil {
			errs = append(errs, err)
		}
		e.log.Info("budget removed segments", "partition", logs[i].Name(), "segments", removed, "log start", logs[i].Start())
	}
	return errors.Join(errs...)
}
