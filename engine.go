package varve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/internal/checkpoint"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// Engine is an open data directory: its topics, and the goroutines that work for
// them.
//
// Locking. catalogMu before checkpointMu, and these and retentionMu before mu. None
// is taken by a publish or a read.
//
//	field               guarded by   written by
//	fs, watch, reserve, opt, log, env, workers, journal, scrubber, cache, groups, consumers, lock   (immutable)   Open
//	topics, broken      mu           Open, create, delete
//	catalogMu           (a lock)     held for the length of a create, alter, delete
//	losing              retentionMu  RunRetention
//	retentionMu         (a lock)     held for the length of a pass of retention
//	checkpoint          checkpointMu the janitor, Close
//	mayReturn, deleted  checkpointMu delete, the janitor, Open, Close
//	closed              mu           Close
//	gone                mu           delete
//	checkpoints, retentions   atomic   keepCheckpoint; RunRetention
//	closing             atomic       Close
type Engine struct {
	fs      vfs.FS // reserves, and is watched
	watch   *vfs.Watch
	reserve int64 // bytes left free
	opt     Options
	log     *slog.Logger
	env     partition.Env
	workers *workers
	journal *journal

	scrubber *scrubber

	cache *batchCache
	lock  io.Closer

	requests requestPool
	waiters  waiterPool
	groups   *coordinator

	consumers *consumers

	catalogMu sync.Mutex
	mu        sync.RWMutex
	topics    map[string]*Topic
	broken    map[string]error // topic directories that cannot be opened
	closed    bool
	gone      Counters    // of topics that were deleted
	closing   atomic.Bool // whom a group keeps back is told that it is over

	retentionMu  sync.Mutex
	losing       losing
	checkpointMu sync.Mutex
	checkpoint   checkpointFile
	mayReturn    bool       // the name of a deleted topic may, by a power cut
	deleted      []deletion // of which the directories are still there

	checkpoints, retentions jobStats

	stopJanitor context.CancelFunc
	janitorDone chan struct{}
}

// Names in the data directory.
const (
	lockName       = "LOCK"
	formatName     = "FORMAT"
	checkpointName = checkpoint.Name
	cleanName      = checkpoint.MarkName
	topicsName     = "topics"
)

// Open opens a data directory, which is made if there is none. One engine at a
// time may have it open, in this process or any other: *LockedError else.
//
// After a clean stop this costs a listing of the directory. After any other, what
// the last checkpoint does not cover is read, torn ends are cut, and the leader
// epochs rise; the log says what was done.
func Open(dir string, o Options) (*Engine, error) {
	if dir == "" {
		return nil, errors.New("open: the data directory has no name")
	}
	if err := makeRoot(dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return OpenFS(vfs.Dir(dir), o)
}

// makeRoot makes the directory, and those above it that are missing, and makes
// the name of each durable.
func makeRoot(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return errors.New("is a file, not a directory")
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err == nil || !errors.Is(err, fs.ErrNotExist) || parent == dir {
		return err
	}
	if err := makeRoot(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, serr := os.Stat(dir); serr != nil || !info.IsDir() { // not made by somebody else just now
			return err
		}
	}
	return vfs.Dir(parent).SyncDir(".")
}

// OpenFS opens an engine on a file system: for tests of this module.
func OpenFS(fsys vfs.FS, o Options) (*Engine, error) {
	e := &Engine{fs: fsys, opt: o.withDefaults(), topics: make(map[string]*Topic), broken: make(map[string]error)}
	e.log = e.opt.Logger
	if err := e.open(); err != nil {
		return nil, fmt.Errorf("open %s: %w", fsys.Path("."), err)
	}
	return e, nil
}

func (e *Engine) open() error {
	// What is not ours to open stays untouched: the lock would be a change. What the
	// document says is believed once it is held: another engine may be at work now.
	if _, err := e.checkFormat(); err != nil {
		return err
	}
	lock, err := e.fs.Lock(lockName, holder())
	if err != nil {
		return err
	}
	e.lock = lock
	if err := e.openLocked(); err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

func (e *Engine) openLocked() error {
	found, err := e.checkFormat()
	if err != nil {
		return err
	}
	if found.mended != "" {
		e.log.Warn("metadata is restored from its copy", "what", found.mended)
	}
	if found.starts == 0 && e.hasTopics() {
		e.log.Error("FORMAT and its copy are missing, making them anew: which version the directory had is not known",
			"path", e.fs.Path(formatName))
	}
	if e.fs, err = e.minded(e.fs); err != nil {
		return err
	}
	if err := e.nameStraysIn(".", inRoot); err != nil {
		return err
	}
	left, err := e.checkpoint.load(e.fs, e.log, found.starts)
	if err != nil {
		return err
	}
	e.cache = newBatchCache(e.opt.CacheBytes)
	e.workers = newWorkers(e)
	e.groups = newCoordinator(e)
	e.consumers = newConsumers(e)
	e.env = partition.Env{
		FS: e.fs, Files: segment.NewFiles(e.opt.OpenFiles), Runner: e.workers, Logger: e.log,
		Now: func() int64 { return e.opt.Clock().UnixMilli() },
	}
	if err := e.openLogs(left, found); err != nil {
		e.workers.stop()
		e.cache.close()
		return err
	}
	if left.Stop != partition.Clean || e.holds() {
		e.groups.loadAfterCrash()
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stopJanitor, e.janitorDone = cancel, make(chan struct{})
	go e.janitor(ctx)
	e.scrubber = newScrubber(ctx, e)
	return nil
}

// openLogs opens the journal and the logs of all topics. Until it takes the mark of a
// clean stop away it writes nothing that the mark would be wrong about, and may be
// begun again.
func (e *Engine) openLogs(left partition.Left, found foundFormat) error {
	clean := left.Stop == partition.Clean
	if err := e.loadTopics(clean); err != nil {
		return err
	}
	if clean {
		e.nameMissing(e.inCheckpoint())
	}
	up := &takeUp{clean: clean, logs: e.checkpoint.Logs, claims: e.claim(left)}
	if err := errors.Join(e.checkpoint.unmark(e.fs), e.countStart(found.starts+1)); err != nil {
		return err
	}
	old, r, err := e.openJournal(up.clean)
	if err != nil {
		return err
	}
	up.replay = r
	if left.Stop == partition.Crashed && found.version >= deletionsLast {
		e.nameMissing(slices.Concat(e.inCheckpoint(), r.strangers(old.Released())))
	}
	w := wal.Open(e.fs, journalDir, wal.Options{MaxBytes: e.opt.JournalBytes}, old, e.checkpoint.Round())
	e.journal = newJournal(w, e.opt.JournalBytes, e.log)
	for i := range e.deleted {
		e.deleted[i].round = e.journal.floor
	}
	openPartitions(seatsOf(e.allTopics()), up)
	if r != nil {
		err = e.carryJournal(old, r)
	}
	if err == nil && (r != nil || slices.ContainsFunc(e.logs(), (*partition.Log).Recovered)) {
		// The leader epochs that have risen are kept before anybody can publish under
		// them, what was recovered need not be read again, and what is missing of it
		// stays damage when the journal tells no more.
		e.keepCheckpoint(true)
	}
	if err == nil && r != nil {
		err = e.journal.wal.Retire(e.journal.floor)
		e.forgetDeletionsLocked()
	}
	if err != nil {
		return errors.Join(err, e.closeJournal())
	}
	return nil
}

func (e *Engine) closeJournal() error {
	e.journal.stop()
	return e.journal.wal.Close()
}

// holder is what the lock file says of this process.
func holder() string {
	return fmt.Sprintf("process %d (%s), since %s", os.Getpid(), filepath.Base(os.Args[0]),
		time.Now().UTC().Format(time.RFC3339))
}

// Close stops the engine: publishes that wait get their answer, everything is
// made durable, and the directory is marked as cleanly stopped. Readers that wait
// get ErrClosed. Subscriptions stop first, with GroupOptions.StopTimeout for their
// handlers: those that need longer are named in an *UnfinishedError, and everything else is
// done as without them. It waits for all goroutines of the engine but theirs.
func (e *Engine) Close() error {
	e.closing.Store(true)
	e.wakeHeld() // handlers that wait for a group would wait for ever
	if unfinished := e.consumers.stop(); unfinished != nil {
		return errors.Join(unfinished, e.close())
	}
	return e.close()
}

func (e *Engine) close() error {
	e.catalogMu.Lock()
	defer e.catalogMu.Unlock()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.closed = true
	e.mu.Unlock()

	e.groups.close()
	e.stopJanitor()
	<-e.janitorDone
	e.scrubber.wait()
	cps, err := e.closeLogs()
	e.workers.stop()
	e.journal.stop()
	if err == nil {
		e.keepLast(cps)
	}
	e.cache.close()
	return errors.Join(err, e.journal.wal.Close(), e.lock.Close())
}

// closeLogs closes every log and returns what the last checkpoint is to keep of each,
// nil of one whose derived files could not be written.
func (e *Engine) closeLogs() (map[logKey]*partition.Checkpoint, error) {
	cps := make(map[logKey]*partition.Checkpoint)
	var errs []error
	for _, t := range e.allTopics() {
		for _, p := range t.parts() {
			if p.log == nil {
				continue
			}
			cp, err := p.log.Close()
			key := logKey{Topic: t.id, Partition: p.index}
			switch {
			case err == nil:
				cps[key] = &cp
			case errors.Is(err, ErrReadOnly):
				errs = append(errs, err)
			default: // everything is durable; the next start reads more
				e.log.Warn("partition is left out of the checkpoint", "partition", p.log.Name(), "err", err)
				cps[key] = nil
			}
		}
	}
	return cps, errors.Join(errs...)
}

// keepLast writes the last checkpoint, with the mark of a clean stop if it speaks of
// every log. Where the disk refuses that, the next start is one after a crash, and
// loses nothing.
func (e *Engine) keepLast(cps map[logKey]*partition.Checkpoint) {
	e.checkpointMu.Lock()
	defer e.checkpointMu.Unlock()
	round := e.journal.wal.Round()
	next := newKeeping(e, round)
	whole := len(next.logs) == 0 && !e.anyBroken() && len(e.unopened()) == 0
	for key, cp := range cps {
		if cp == nil {
			next.leave(key)
			whole = false
			continue
		}
		next.logs[key] = keptLog{Checkpoint: *cp, Round: round}
	}
	err := e.settleDeletionsLocked()
	if err == nil {
		err = e.saveLocked(next.logs)
	}
	if err == nil && whole {
		err = errors.Join(e.journal.wal.Retire(round), e.journal.wal.Shrink())
		if err == nil {
			err = e.checkpoint.markClean(e.fs)
		}
	}
	e.forgetDeletionsLocked()
	if err != nil {
		e.log.Warn("checkpoint failed: the next start takes longer", "err", err)
	}
}

// anyBroken says that there are topics that could not be opened.
func (e *Engine) anyBroken() bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return len(e.broken) > 0
}

// Topics lists the topics by name.
func (e *Engine) Topics() []*Topic { return slices.DeleteFunc(e.allTopics(), (*Topic).internal) }

// allTopics are the topics and those that the engine keeps for itself, by name.
func (e *Engine) allTopics() []*Topic {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.topicsLocked()
}

func (e *Engine) topicsLocked() []*Topic {
	list := make([]*Topic, 0, len(e.topics))
	for _, t := range e.topics {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b *Topic) int { return strings.Compare(a.name, b.name) })
	return list
}

// Topic finds a topic: ErrNoTopic where there is none, with a *NameError where there
// can be none.
func (e *Engine) Topic(name string) (*Topic, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch t, ok := e.topics[name]; {
	case e.closed:
		return nil, ErrClosed
	case ok && !t.internal():
		return t, nil
	}
	if err := e.broken[name]; err != nil {
		return nil, fmt.Errorf("topic %s: %w", name, err)
	}
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoTopic, err)
	}
	return nil, fmt.Errorf("topic %s: %w", name, ErrNoTopic)
}
