package varve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

const (
	journalDir = "wal"
	// directBytes is from where on a log is better off with a sync of its own files:
	// the journal would write its bytes a second time.
	directBytes = 128 << 10
	// markDelay is how long the last round may be without the mark behind it that
	// tells it from an unfinished one.
	markDelay = 5 * time.Millisecond
	// directSyncs wait for the disk, so more of them overlap than there are
	// processors.
	directSyncs = 8
	// storeApart is from how many logs in a round on their segments are written beside
	// its sync; fewer cost less than it takes to wake somebody for them.
	storeApart = 3
	// gatherTurns bounds how often a round lets others run before it begins.
	gatherTurns = 16
)

// journal makes the appends of all logs durable. Logs that wait share a round of the
// wal, which costs one sync; one with many bytes has its own files synced, and a
// frame in the next round says so.
//
//	field               guarded by   written by
//	wal, log, limit, floor, files, wake, done, ahead, stored   (immutable)   newJournal
//	queue, synced, stopped   mu      Commit, syncFiles, take, stop
//	came                atomic       Commit, take
//	noting              atomic       note, run
//	rounds, fileSyncs, failures   atomic   write; syncFiles
//	round, unmarked, failed   the goroutine of run
type journal struct {
	wal   *wal.Journal
	log   *slog.Logger
	limit int64  // bytes of the wal from which on a checkpoint is due
	floor uint64 // the last round before this engine: the files have what is up to it
	files *pool[*logJournal]
	wake  chan struct{}
	done  chan struct{}

	ahead  chan []*logJournal // those to store beside a sync; closed by run
	stored chan struct{}      // receives when that is done

	mu      sync.Mutex
	queue   []*logJournal // logs that wait for a round
	synced  []*logJournal // of rounds that the files have taken to the disk
	stopped bool
	came    atomic.Int32 // calls of Commit since the last take
	noting  atomic.Bool  // a mark is asked for

	rounds, fileSyncs durations
	failures          atomic.Int64 // of both

	round    gathering
	unmarked bool // the last round may be taken for unfinished
	failed   bool // and that was said: no mark can be written any more
}

func newJournal(w *wal.Journal, maxBytes int64, log *slog.Logger) *journal {
	j := &journal{
		wal: w, log: log, limit: maxBytes / 2, wake: make(chan struct{}, 1), done: make(chan struct{}),
		ahead: make(chan []*logJournal, 1), stored: make(chan struct{}, 1),
	}
	j.round.j = j
	j.floor = w.Round()
	j.files = newPool(directSyncs, j.syncFiles)
	go j.run()
	go j.storeAhead()
	return j
}

// logJournal is the journal of one log, and what it knows of that log on its way through
// a round.
//
//	field        guarded by    written by
//	key          (immutable)   whoever makes it
//	queued       journal.mu    Commit, take
//	log          as round      Commit, the first time
//	round, plain whoever has the round: the goroutine of run, or one of files
type logJournal struct {
	*journal
	key    wal.Log
	queued bool
	log    *partition.Log
	round  *partition.Round // under way
	plain  bool             // the wal has no room: the files alone have to do
}

// Commit queues the log; one that is queued already is not queued again.
func (t *logJournal) Commit(log *partition.Log) {
	j := t.journal
	j.mu.Lock()
	j.came.Add(1)
	if !t.queued {
		if t.queued = true; t.log == nil {
			t.log = log
		}
		j.queue = append(j.queue, t)
	}
	j.mu.Unlock()
	j.rouse()
}

func (t *logJournal) Settle(log *partition.Log) error {
	return log.WaitDurable(context.Background(), log.LogEnd())
}

// rouse wakes the goroutine of the journal.
func (j *journal) rouse() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// take takes what waits, and how many came for it; it gives the queues room that was used
// before.
func (j *journal) take(queue, synced []*logJournal) (q, s []*logJournal, came int32, stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q, s = j.queue, j.synced
	j.queue, j.synced = queue, synced
	for _, t := range q {
		t.queued = false
	}
	return q, s, j.came.Swap(0), j.stopped
}

// gather lets those who were told of the last round come back before the next one is
// begun, which they would wait for else: want are they and those who came meanwhile. It
// waits for nobody: where there is nothing else to run it gives up after some turns,
// which take microseconds.
func (j *journal) gather(want int32) {
	for before, turns := int32(0), 0; turns < gatherTurns; turns++ {
		came := j.came.Load()
		if came == 0 || came >= want {
			return
		}
		if came > before {
			before, turns = came, 0
		}
		runtime.Gosched()
	}
}

func (j *journal) run() {
	defer close(j.done)
	defer func() {
		close(j.ahead)
		<-j.stored
	}()
	idle := time.NewTimer(markDelay)
	defer idle.Stop()
	var queue, synced []*logJournal
	var came, want int32
	var stopped bool
	for {
		j.gather(want)
		queue, synced, came, stopped = j.take(queue[:0], synced[:0])
		switch {
		case len(queue)+len(synced) > 0:
			j.turn(queue, synced)
			want = came + j.came.Load()
			clear(queue)
			clear(synced)
			idle.Reset(markDelay)
			continue
		case stopped:
			return
		}
		select {
		case <-j.wake:
			if j.noting.Swap(false) && !j.failed {
				j.unmarked = true
				j.mark()
			}
		case <-idle.C:
			j.mark()
		}
	}
}

// stop lets everything that is queued be done. No log queues anything meanwhile.
func (j *journal) stop() {
	j.files.stop()
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	j.rouse()
	<-j.done
}

// mark writes the closing mark: the last round was on stable storage.
func (j *journal) mark() {
	if !j.unmarked {
		return
	}
	_, err := j.wal.Write(nil)
	j.unmarked = errors.Is(err, wal.ErrFull)
	if j.failed = err != nil && !j.unmarked; j.failed {
		j.log.Error("journal has failed: publishes of level fsync fail until the engine is opened again", "err", err)
	}
}

// note has a mark say up to which round the wal was released, where nothing else has.
func (j *journal) note() {
	if j.wal.Released() > j.wal.Noted() {
		j.noting.Store(true)
		j.rouse()
	}
}

// turn makes what the logs wait for durable, in as few rounds as hold it.
func (j *journal) turn(queue, synced []*logJournal) {
	g := &j.round
	g.room = j.wal.MaxRound()
	for _, t := range synced {
		g.direct(t)
	}
	for _, t := range queue {
		r := t.log.BeginRound()
		if r == nil { // t may have one under way
			continue
		}
		t.round, t.plain = r, false
		if t.round.Bytes() == 0 {
			t.round.End(nil)
			continue
		}
		if size := dataBytes(t.round); t.round.Bytes() > directBytes || size > j.wal.MaxRound() {
			j.files.add(t)
			continue
		}
		g.data(t)
	}
	g.write()
}

// syncFiles takes a round to the disk by way of its files.
func (j *journal) syncFiles(t *logJournal) {
	start := time.Now()
	err := t.round.Sync()
	j.took(&j.fileSyncs, start, err)
	if err != nil || t.plain {
		t.round.End(err)
		return
	}
	j.mu.Lock()
	j.synced = append(j.synced, t)
	j.mu.Unlock()
	j.rouse()
}

// write writes frames as one round of the wal.
func (j *journal) write(frames []wal.Frame) error {
	start := time.Now()
	_, err := j.wal.Write(frames)
	if !errors.Is(err, wal.ErrFull) { // which has written nothing
		j.took(&j.rounds, start, err)
	}
	return err
}

// took counts something that began at start and has ended.
func (j *journal) took(d *durations, start time.Time, err error) {
	if err != nil {
		j.failures.Add(1)
		return
	}
	d.add(time.Since(start))
}

// storeAhead writes what a round has to the segments of the logs, while the goroutine of
// run writes it to the wal and waits for the disk.
func (j *journal) storeAhead() {
	defer close(j.stored)
	for list := range j.ahead {
		for _, t := range list {
			t.log.Store() // an error is found by the end of the round
		}
		j.stored <- struct{}{}
	}
}

// pressed says that the wal has grown so much that a checkpoint is due.
func (j *journal) pressed() bool { return j.wal.Bytes() > j.limit }

// makeJournalDir makes sure that there is a directory for the journal.
func makeJournalDir(fsys vfs.FS) error {
	if _, err := fsys.Stat(journalDir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.Mkdir(journalDir); err != nil {
		return err
	}
	return fsys.SyncDir(".")
}
