package varve

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
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
)

// journal makes the appends of all logs durable. Logs that wait share a round of the
// wal, which costs one sync; one with many bytes has its own files synced, and a
// frame in the next round says so.
//
//	field               guarded by   written by
//	wal, log, limit, floor, files, wake, done   (immutable)   newJournal
//	queue, queued, stopped   mu      add, take, stop
//	buf, unmarked       the goroutine of run
type journal struct {
	wal   *wal.Journal
	log   *slog.Logger
	limit int64  // bytes of the wal from which on a checkpoint is due
	floor uint64 // the last round before this engine: the files have what is up to it
	files *pool[*task]
	wake  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	queue   []*task
	queued  map[*partition.Log]bool
	stopped bool

	buf      []byte
	unmarked bool // the last round may be taken for unfinished
}

// task is a log that waits for a round, or one whose files were synced.
type task struct {
	log   *partition.Log
	key   wal.Log
	round *partition.Round // under way
	plain bool             // the wal has no room: the files alone have to do
}

func newJournal(w *wal.Journal, maxBytes int64, log *slog.Logger) *journal {
	j := &journal{
		wal: w, log: log, limit: maxBytes / 2, wake: make(chan struct{}, 1), done: make(chan struct{}),
		queued: make(map[*partition.Log]bool),
	}
	j.floor = w.Round()
	j.files = newPool(directSyncs, j.syncFiles)
	go j.run()
	return j
}

// logJournal is the journal of one log.
type logJournal struct {
	*journal
	key wal.Log
}

func (l logJournal) Commit(log *partition.Log) { l.add(&task{log: log, key: l.key}) }

func (l logJournal) Settle(log *partition.Log) error {
	return log.WaitDurable(context.Background(), log.LogEnd())
}

// add queues a task; a log that is queued already is not queued again.
func (j *journal) add(t *task) {
	j.mu.Lock()
	if t.round != nil || !j.queued[t.log] {
		if t.round == nil {
			j.queued[t.log] = true
		}
		j.queue = append(j.queue, t)
	}
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *journal) take() (tasks []*task, stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	tasks, j.queue = j.queue, nil
	clear(j.queued)
	return tasks, j.stopped
}

func (j *journal) run() {
	defer close(j.done)
	idle := time.NewTimer(markDelay)
	defer idle.Stop()
	for {
		tasks, stopped := j.take()
		switch {
		case len(tasks) > 0:
			j.turn(tasks)
			idle.Reset(markDelay)
			continue
		case stopped:
			return
		}
		select {
		case <-j.wake:
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
	select {
	case j.wake <- struct{}{}:
	default:
	}
	<-j.done
}

// mark writes the closing mark: the last round was on stable storage.
func (j *journal) mark() {
	if !j.unmarked {
		return
	}
	_, err := j.wal.Write(nil)
	if j.unmarked = errors.Is(err, wal.ErrFull); err != nil && !j.unmarked {
		j.log.Error("journal has failed: publishes of level fsync fail until the engine is opened again", "err", err)
	}
}

// turn makes what the tasks wait for durable, in as few rounds as hold it.
func (j *journal) turn(tasks []*task) {
	g := group{j: j, room: j.wal.MaxRound()}
	for _, t := range tasks {
		if t.round == nil {
			if t.round = t.log.BeginRound(); t.round == nil {
				continue
			}
			if t.round.Bytes() == 0 {
				t.round.End(nil)
				continue
			}
			if size := dataBytes(t.round); t.round.Bytes() > directBytes || size > j.wal.MaxRound() {
				j.files.add(t)
				continue
			}
			g.data(t)
			continue
		}
		g.direct(t)
	}
	g.write()
}

// syncFiles takes a round to the disk by way of its files.
func (j *journal) syncFiles(t *task) {
	if err := t.round.Sync(); err != nil || t.plain {
		t.round.End(err)
		return
	}
	j.add(t)
}

// group is what goes into one round of the wal.
type group struct {
	j      *journal
	room   int64
	frames []wal.Frame
	tasks  []*task
	carry  []*task // those of which the frames have the bytes
}

func dataBytes(r *partition.Round) (n int64) {
	for _, g := range r.Ranges {
		n += wal.FrameBytes(int64(g.To - g.From))
	}
	return n
}

// reserve makes room for a task, if need be by writing what there is.
func (g *group) reserve(size int64) {
	if size > g.room {
		g.write()
	}
	g.room -= size
}

// data enters the bytes of a round.
func (g *group) data(t *task) {
	g.reserve(dataBytes(t.round))
	before := len(g.frames)
	for i := range t.round.Ranges {
		r := &t.round.Ranges[i]
		at := len(g.j.buf)
		g.j.buf = append(g.j.buf, make([]byte, r.To-r.From)...)
		if err := r.Read(g.j.buf[at:]); err != nil { // the files may still take them
			g.frames = g.frames[:before]
			g.j.files.add(t)
			return
		}
		g.frames = append(g.frames, frame(t, i, wal.Data))
		f := &g.frames[len(g.frames)-1]
		f.Payload = g.j.buf[at:]
	}
	g.tasks, g.carry = append(g.tasks, t), append(g.carry, t)
}

// direct enters that the files of a round have taken it to the disk.
func (g *group) direct(t *task) {
	for i := range t.round.Ranges { // as many as there are segments: more than one round, maybe
		g.reserve(wal.FrameBytes(wal.DirectPayload))
		g.frames = append(g.frames, frame(t, i, wal.Direct))
	}
	g.tasks = append(g.tasks, t)
}

// frame is that of one range of a round. Of those in front of the last the offsets
// end where the next segment begins.
func frame(t *task, i int, kind wal.Kind) wal.Frame {
	ranges := t.round.Ranges
	r, next := ranges[i], t.round.Next
	if i+1 < len(ranges) {
		next = ranges[i+1].Base
	}
	return wal.Frame{Kind: kind, Log: t.key, Base: r.Base, Pos: r.From, Next: next, Length: int64(r.To - r.From)}
}

// write writes the round and ends those of the logs.
func (g *group) write() {
	if len(g.frames) > 0 {
		_, err := g.j.wal.Write(g.frames)
		g.j.unmarked = g.j.unmarked || err == nil
		if errors.Is(err, wal.ErrFull) {
			for _, t := range g.carry {
				t.plain = true
				g.j.files.add(t)
			}
			g.tasks, err = without(g.tasks, g.carry), nil
		}
		for _, t := range g.tasks {
			t.round.End(err)
		}
	}
	g.j.buf = g.j.buf[:0]
	if cap(g.j.buf) > 4<<20 {
		g.j.buf = nil
	}
	g.room, g.frames, g.tasks, g.carry = g.j.wal.MaxRound(), g.frames[:0], nil, nil
}

// without are the tasks of all that are not among some, in order.
func without(all, some []*task) (rest []*task) {
	for _, t := range all {
		if len(some) > 0 && some[0] == t {
			some = some[1:]
			continue
		}
		rest = append(rest, t)
	}
	return rest
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
