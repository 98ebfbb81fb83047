package partition

import (
	"fmt"
	"sync"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Snapshot has the files take everything appended so far to the disk, and returns
// what a checkpoint is to keep of the log. Appends go on beside it, and rounds of
// the journal; a log that failed has none.
func (l *Log) Snapshot() (Checkpoint, error) { return l.snapshot((*segment.Segment).Snapshot) }

func (l *Log) snapshot(of func(*segment.Segment) (segment.State, error)) (Checkpoint, error) {
	for {
		if err := l.Tidy(); err != nil {
			return Checkpoint{}, err
		}
		cp, active, err := l.snapshotActive(of)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("checkpoint %s: %w", l.name, err)
		}
		if active == nil {
			continue
		}
		if err := l.syncFile(active); err != nil {
			return Checkpoint{}, err
		}
		cp.Start = l.Start()
		return cp, l.Failed()
	}
}

// syncFile takes to the disk what a snapshot speaks of. On a topic of level fsync
// that is no round, so that those of the journal do not wait for it.
func (l *Log) syncFile(active *segment.Segment) error {
	if l.Config().Level != Fsync && l.Unsynced() {
		return l.SyncRound()
	}
	l.appendMu.Lock()
	names := l.names
	l.appendMu.Unlock()
	err := l.syncNames(names)
	if err == nil {
		err = active.Sync()
	}
	if err != nil && !segment.IsRemoved(err) {
		l.fail(fmt.Errorf("%s: %w", active.Path(), err))
		return l.Failed()
	}
	return nil
}

// snapshotActive takes the state of the active segment; none is returned when it
// was rolled since the others were tidied up.
func (l *Log) snapshotActive(of func(*segment.Segment) (segment.State, error)) (cp Checkpoint, active *segment.Segment, err error) {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.gone.Load() { // another topic may have the directory's name soon
		return cp, nil, ErrClosed
	}
	if len(l.unfinished) > 0 {
		return cp, nil, nil
	}
	l.storeLocked() // the journal is about to forget it; what is refused, is taken back
	if err := l.Failed(); err != nil {
		return cp, nil, err
	}
	cp = Checkpoint{Sparse: l.sparse.Load(), Taken: l.taken, Epoch: l.epoch, LastTime: l.lastTime.Load()}
	cp.Active, err = of(l.active)
	return cp, l.active, err
}

// Close ends the log: appends that are queued are done, those that wait for
// durability get it, readers that wait are woken. It returns what a checkpoint is to
// keep. After an error that matches ErrReadOnly not everything is on stable storage;
// after any other it is, and only derived files could not be written. The caller sees
// to it that no goroutine of the engine works for the log meanwhile, but the journal's.
func (l *Log) Close() (Checkpoint, error) {
	l.stop()
	var cp Checkpoint
	var err error
	if l.Unsynced() || l.Failed() != nil {
		if err = l.SyncRound(); err != nil && l.Failed() == nil {
			err = l.SyncRound() // of what is in front of a tail that was refused, and taken back
		}
		if err != nil {
			l.fail(err) // the journal is needed
			err = l.Failed()
		}
	}
	if err == nil {
		cp, err = l.snapshot((*segment.Segment).Rest)
	}
	if err == nil && l.seals.unsynced {
		err = l.seals.sync()
	}
	l.release()
	return cp, err
}

// Abandon ends the log without another write: its topic is being deleted.
func (l *Log) Abandon() {
	l.gone.Store(true)
	l.stop()
	l.SyncRound() // after one that is under way; it finds the log gone, and says so to who waits
	l.release()
}

// stop refuses what comes, lets what is under way be done, and wakes readers:
// what is queued, a trim or a retention pass, a roll by age.
func (l *Log) stop() {
	l.closed.Store(true)
	l.waiters.wake()
	l.durables.wake()
	l.queueMu.Lock()
	for l.draining {
		l.idle.Wait()
	}
	l.queueMu.Unlock()
	outlast(&l.trimMu)
	outlast(&l.appendMu)
}

// outlast waits for whoever holds mu now.
func outlast(mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

// release gives the files back.
func (l *Log) release() {
	l.tidyMu.Lock()
	defer l.tidyMu.Unlock()
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	for _, s := range l.segments() {
		s.Close()
	}
	for _, s := range l.doomed {
		s.Close()
	}
}

// CheckpointIsCurrent says that nothing has changed since cp was taken, so that
// another one would say the same.
func (l *Log) CheckpointIsCurrent(cp *Checkpoint) bool {
	return cp.Epoch == l.epoch && cp.Taken == l.taken && cp.Active.Next == l.LogEnd() && cp.Start == l.Start() &&
		!l.Unsynced() && l.baseOfActive() == cp.Active.Base
}

func (l *Log) baseOfActive() record.Offset {
	last, _ := l.view.Load().Max()
	return last.base
}
