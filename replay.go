package varve

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// damagedSuffix is added to the name of a journal file that cannot be read.
const damagedSuffix = ".damaged"

// maxPending bounds what a replay holds in memory before it writes.
const maxPending = 16 << 20

// replay puts back what the journal has into the files of the logs, before they are
// opened.
type replay struct {
	e       *Engine
	topics  map[uuid.UUID]*Topic
	logs    map[wal.Log]*partition.Replay
	failed  map[wal.Log]error  // into whose files nothing could be put back
	unknown map[wal.Log]uint64 // of topics that are not there: the last round that has them

	pending int
	frames  int
}

func (e *Engine) newReplay() *replay {
	r := &replay{
		e: e, topics: make(map[uuid.UUID]*Topic), logs: make(map[wal.Log]*partition.Replay),
		failed: make(map[wal.Log]error), unknown: make(map[wal.Log]uint64),
	}
	for _, t := range e.topics {
		r.topics[t.id] = t
	}
	return r
}

// visit takes in one round.
func (r *replay) visit(round wal.Round) error {
	if round.Damaged != "" && !round.Last {
		r.e.log.Error("journal is damaged", "path", round.Path, "position", round.Pos, "round", round.Number, "reason", round.Damaged)
	}
	for i := range round.Frames {
		f := &round.Frames[i]
		log := r.log(f.Log)
		if r.topics[f.Log.Topic] == nil {
			r.unknown[f.Log] = max(r.unknown[f.Log], round.Number)
		}
		if log == nil || !r.isNew(round.Number, f.Log) {
			continue
		}
		if !round.Last || round.Damaged == "" { // a whole one says the same of what is in front of it
			log.Durable(f.Next)
		}
		if f.Kind != wal.Data || f.Payload == nil {
			continue
		}
		before := log.Pending()
		if err := log.Data(f.Base, f.Pos, f.Payload, f.Next); err != nil {
			r.fail(f.Log, err)
			continue
		}
		r.frames++
		if r.pending += log.Pending() - before; r.pending > maxPending {
			r.flush()
		}
	}
	return nil
}

// strangers are the logs of topics that are not there, of which there is a frame in a
// round behind one. What is up to a round that was released speaks of topics, too, that
// were deleted long ago.
func (r *replay) strangers(behind uint64) (list []logKey) {
	for key, round := range r.unknown {
		if round > behind {
			list = append(list, key)
		}
	}
	return list
}

// fail gives up on a log: it is not opened, and the journal keeps what it has of it.
func (r *replay) fail(key wal.Log, err error) {
	r.logs[key] = nil
	r.failed[key] = fmt.Errorf("put back what the journal has: %w", err)
}

// isNew says that a round is not covered by the checkpoint of a log. One whose header
// is lost counts as new: to put back what is there does no harm.
func (r *replay) isNew(round uint64, key wal.Log) bool {
	return round == 0 || round > r.e.checkpoint.Logs[key].Round
}

// log is the replay of one log; nil for one that is gone, or that cannot be opened.
func (r *replay) log(key wal.Log) *partition.Replay {
	if log, ok := r.logs[key]; ok {
		return log
	}
	t := r.topics[uuid.UUID(key.Topic)]
	var log *partition.Replay
	var err error
	if t != nil && int(key.Partition) >= t.body.Partitions {
		r.e.giveUp(t, r.e.olderDocument(&t.body, int(key.Partition), r.e.fs.Path(journalDir)))
		delete(r.topics, t.id)
	} else if t != nil {
		if log, err = partition.NewReplay(r.e.fs, t.partitionDir(int(key.Partition))); err != nil {
			r.fail(key, err)
			return nil
		}
	}
	r.logs[key] = log
	return log
}

// flush writes what is pending.
func (r *replay) flush() {
	for key, log := range r.logs {
		if log == nil {
			continue
		}
		if err := log.Flush(); err != nil {
			r.fail(key, err)
		}
	}
	r.pending = 0
}

// of is the replay of a log, nil where there is none; an error where it failed.
func (r *replay) of(key wal.Log) (*partition.Replay, error) {
	if r == nil {
		return nil, nil
	}
	return r.logs[key], r.failed[key]
}

// openJournal reads the journal that the last engine left, has everything in it that
// the logs' files may lack put back, and makes ready to write another.
func (e *Engine) openJournal(clean bool) (*wal.Old, *replay, error) {
	if err := makeJournalDir(e.fs); err != nil {
		return nil, nil, err
	}
	if err := e.nameStraysIn(journalDir, inJournal); err != nil {
		return nil, nil, err
	}
	if clean {
		old, err := wal.List(e.fs, journalDir)
		return old, nil, err
	}
	if err := e.fs.SyncDir(journalDir); err != nil { // a file may have been made just before a kill
		return nil, nil, err
	}
	r := e.newReplay()
	old, err := wal.Read(e.fs, journalDir, r.visit)
	if err != nil {
		return nil, nil, fmt.Errorf("replay the journal: %w", err)
	}
	r.flush()
	for _, damaged := range old.Missing(e.checkpoint.Covered()) {
		e.log.Error("a part of the journal is missing: what it alone had is lost", "err", damaged)
	}
	for _, name := range old.Unreadable { // kept for who may know more of it
		if err := e.fs.Rename(name, name+damagedSuffix); err != nil {
			return nil, nil, err
		}
	}
	if r.frames > 0 {
		e.log.Info("replayed the journal", "frames", r.frames, "logs", len(r.logs))
	}
	return old, r, nil
}

// carryJournal writes what belongs to a topic or a partition that cannot be opened now
// into new rounds, so that the old ones are not needed any more: the others have on the
// disk what those had.
func (e *Engine) carryJournal(old *wal.Old, r *replay) error {
	lost := e.unopened()
	if len(lost) > 0 || e.anyBroken() {
		_, err := wal.Read(e.fs, journalDir, func(round wal.Round) error {
			if round.Number > old.Round() {
				return nil // carried over just now
			}
			var keep []wal.Frame
			for _, f := range round.Frames {
				mayBe := lost[f.Log] || e.mayBeBroken(r, &f, round.Number > old.Released())
				if mayBe && r.isNew(round.Number, f.Log) && (f.Kind == wal.Direct || f.Payload != nil) {
					keep = append(keep, f)
				}
			}
			return e.journal.carry(keep)
		})
		if err == nil {
			_, err = e.journal.wal.Write(nil) // the mark behind them
		}
		if err != nil {
			return fmt.Errorf("carry over the journal of what cannot be opened: %w", err)
		}
	}
	return nil
}

// mayBeBroken says that a frame may be that of a topic that cannot be opened, of which not
// even the id can be read. One in a round that was released is not needed, and may be that
// of a topic that was deleted long ago.
func (e *Engine) mayBeBroken(r *replay, f *wal.Frame, needed bool) bool {
	return needed && r.topics[f.Log.Topic] == nil && e.anyBroken() && !e.isDeletedLocked(f.Log.Topic)
}

// carry writes frames in rounds of their own.
func (j *journal) carry(frames []wal.Frame) error {
	for len(frames) > 0 {
		n, size := 0, int64(0)
		for n < len(frames) {
			if size += frames[n].Size(); size > j.wal.MaxRound() && n > 0 {
				break
			}
			n++
		}
		if _, err := j.wal.Write(frames[:n]); err != nil {
			return err
		}
		frames = frames[n:]
	}
	return nil
}

// unopened are the partitions that could not be opened.
func (e *Engine) unopened() map[logKey]bool {
	lost := make(map[logKey]bool)
	for _, t := range e.allTopics() {
		for _, p := range t.parts() {
			if p.log == nil {
				lost[logKey{Topic: t.id, Partition: p.index}] = true
			}
		}
	}
	return lost
}
