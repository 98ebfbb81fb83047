package partition

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
	"github.com/varvelog/varve/segment"
)

// Journal makes appends durable, those of all logs of an engine together.
//
// Commit says that l has bytes which somebody waits for. It returns at once; some
// time after it, from a goroutine of the journal, l.BeginRound is called, and End
// of the round. Settle makes everything appended to l so far durable and returns
// when that is done.
type Journal interface {
	Commit(l *Log)
	Settle(l *Log) error
}

// Runner lends a log the goroutines of the engine. Both calls return at once.
type Runner interface {
	Drain(l *Log) // call l.Drain
	Tidy(l *Log)  // call l.Tidy
}

// Env is what all logs of an engine share.
type Env struct {
	FS      vfs.FS
	Files   *segment.Files
	Journal Journal
	Runner  Runner
	Logger  *slog.Logger
	Now     func() int64 // milliseconds of the wall clock
}

// Log is one partition: ordered segments, of which only the last takes appends.
//
// Locking. Take syncMu, tidyMu or trimMu first (never two of them), then
// appendMu, then listMu; appendMu is not held across a sync of this log, but of one
// that takes a failed write back (a roll may wait for that of another's, when the table
// of open files is full). syncMu is held
// for the length of a round, by whoever ends it. queueMu, acks.mu and the mu of both
// sorts of waiters are leaves.
//
//	field              guarded by     written by
//	name, dir, env, epoch, taken, recovered   (immutable)   Open
//	config             atomic         Configure
//	queue, draining, writing   queueMu   enqueue, join, drain
//	keep               trimMu         Hold
//	written            atomic         Hold
//	inHand, crowd      whoever drains   drain, its writer
//	active, noted…, names, unfinished   appendMu   append, roll
//	tail               appendMu       append, Store and others
//	tree               listMu         roll, trim, retention
//	view               atomic         a copy of tree, after each change (under listMu)
//	logEnd, lastTime, tailed   atomic   the appender (under appendMu); Store
//	published, durable atomic, rising the appender, the end of a round
//	durableNames       atomic, rising rounds, Tidy
//	held, round        syncMu         the end of a round; its beginning
//	roundWanted        atomic         BeginRound; beginLocked and endLocked take it back
//	start              atomic, rising Trim, Retain (under trimMu)
//	meta, doomed       trimMu         Trim, Retain
//	seals              tidyMu         Tidy
//	acks, waiters, durables   their own   appender and rounds; readers
//	refused            atomic         dropTail
//	failed             atomic, set once   any failed sync, or failed cut back
//
// A reader loads published first, then view, and returns nothing at or above
// published.
type Log struct {
	name string // "orders/3", for messages
	dir  string
	env  Env
	log  *slog.Logger

	taken     uint8 // see metadataBody
	recovered bool  // it was not left cleanly

	config atomic.Pointer[Config]

	queueMu  sync.Mutex
	queue    []*Append
	inHand   []*Append // what is being written
	crowd    bool      // several callers waited for what was written last
	draining bool
	writing  int       // bytes of what was taken from the queue last
	idle     sync.Cond // signalled when draining ends

	appendMu   sync.Mutex
	active     *segment.Segment
	epoch      record.Epoch
	tail       *tail              // nil: the file of active has it all
	names      int64              // log files that got their first bytes since Open
	unfinished []*segment.Segment // rolled, not yet finished; oldest first
	notedEpoch record.Epoch       // the last one in the file of epochs, once noted
	noted      bool

	listMu sync.Mutex
	tree   *btree.BTreeG[item]
	view   atomic.Pointer[btree.BTreeG[item]]

	lastTime     atomic.Int64 // of the last append, milliseconds
	logEnd       atomic.Int64
	tailed       atomic.Int64 // bytes of the tail
	published    atomic.Int64
	durable      atomic.Int64
	start        atomic.Int64
	durableNames atomic.Int64 // how many of them a power cut cannot unname

	trimMu sync.Mutex
	meta   metadata
	doomed []*segment.Segment   // out of the list, files not yet gone
	keep   func() record.Offset // nil: nothing is held

	tidyMu sync.Mutex
	seals  sealFile

	syncMu      sync.Mutex
	held        place
	round       Round
	roundWanted atomic.Bool // one could not begin
	acks        acks
	waiters     waiters // for the published end
	durables    waiters // for the durable end

	stats     stats
	rates     rates
	lastFlush atomic.Int64 // milliseconds, see FlushDue
	sparse    atomic.Bool  // offsets may have gaps: an imported or compacted log
	clockTold atomic.Bool
	written   atomic.Pointer[func()]
	closed    atomic.Bool
	gone      atomic.Bool           // the topic is deleted: nothing is written any more
	refused   atomic.Pointer[error] // why a tail was taken back last
	failed    atomic.Pointer[error]
}

// Name is topic and number, as in messages.
func (l *Log) Name() string { return l.name }

// Start is the log start offset: the first that can be read.
func (l *Log) Start() record.Offset { return record.Offset(l.start.Load()) }

// End is the published end: the first offset that readers may not see yet.
func (l *Log) End() record.Offset { return record.Offset(l.published.Load()) }

// DurableEnd is the first offset that a power cut could take.
func (l *Log) DurableEnd() record.Offset { return record.Offset(l.durable.Load()) }

// LogEnd is the offset that the next record gets.
func (l *Log) LogEnd() record.Offset { return record.Offset(l.logEnd.Load()) }

// Config is how the log behaves now. It must not be changed.
func (l *Log) Config() *Config { return l.config.Load() }

// Configure changes how the log behaves from now on. A change of level brings the
// published end to where the new level has it: up at once from fsync to a weaker
// one; the other way by a sync, before it returns, so that nothing readers have
// seen can be lost any more.
func (l *Log) Configure(c Config) error {
	l.appendMu.Lock()
	old := l.config.Swap(&c)
	if old.Level == Fsync && c.Level != Fsync {
		l.showAllLocked()
	}
	l.appendMu.Unlock()
	if old.Level != Fsync && c.Level == Fsync {
		return l.SyncRound()
	}
	return nil
}

// showAllLocked has readers see everything appended so far, where it can be in the files.
func (l *Log) showAllLocked() {
	if l.storeLocked() != nil {
		return
	}
	for _, s := range l.unfinished {
		s.Show(s.Size())
	}
	l.active.Show(l.active.Size())
	l.publish(l.LogEnd())
}

// Failed is nil, or the error that every append gets since the disk failed the
// log; it matches ErrReadOnly.
func (l *Log) Failed() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail makes the log read-only. Those who wait for durability are told by a round
// of the journal, because locks may be held here.
func (l *Log) fail(cause error) {
	err := fmt.Errorf("%s: %w: %w", l.name, ErrReadOnly, cause)
	defer l.env.Journal.Commit(l) // also when the Logger panics
	if l.failed.CompareAndSwap(nil, &err) {
		l.log.Error("partition is read-only until the engine is opened again", "partition", l.name, "err", cause)
	}
}

// noteFailure makes the log read-only if the segment is.
func (l *Log) noteFailure(s *segment.Segment) {
	if err := s.Failed(); err != nil {
		l.fail(err)
	}
}

// tickLocked is the time of an append: never before that of an earlier one,
// also when the clock is set back, also after a restart.
func (l *Log) tickLocked() int64 {
	now := l.Now()
	l.lastTime.Store(now)
	return now
}

// Now is the time that an append would have now.
func (l *Log) Now() int64 { return max(l.lastTime.Load(), l.env.Now()) }

// farAhead is from where on times of appends ahead of the clock are told of.
const farAhead = 24 * time.Hour

// noteClock tells once that the times of appends are far ahead of the clock: it was set
// ahead for a while, or is behind now. As long as nobody knows which, nothing is deleted
// for its age.
func (l *Log) noteClock() {
	ahead := time.Duration(l.lastTime.Load()-l.env.Now()) * time.Millisecond
	if ahead > farAhead && l.clockTold.CompareAndSwap(false, true) {
		l.log.Warn("the clock is behind the last append: retention by age waits for it", "partition", l.name,
			"last append", time.UnixMilli(l.lastTime.Load()).UTC(), "ahead", ahead.Round(time.Second))
	}
}

// publish lets readers see everything below end. The bytes have been shown by
// their segments before.
func (l *Log) publish(end record.Offset) {
	if raise(&l.published, int64(end)) {
		l.waiters.wake()
	}
}

// raise sets v to n unless it is there or above; false then.
func raise(v *atomic.Int64, n int64) bool {
	for {
		was := v.Load()
		if was >= n {
			return false
		}
		if v.CompareAndSwap(was, n) {
			return true
		}
	}
}

// activeFacts is what the roll rule has to know of a segment.
func activeFacts(s *segment.Segment) retention.Active {
	return retention.Active{
		Segment:        facts(s),
		FirstTimestamp: noTimestampIfNone(s.FirstTimestamp()),
		FirstAppend:    s.FirstAppend(),
	}
}

func facts(s *segment.Segment) retention.Segment {
	return retention.Segment{
		Base: s.Base(), Next: s.Next(), Bytes: int64(s.Size()),
		MaxTimestamp: noTimestampIfNone(s.MaxTimestamp()), LastAppend: s.LastAppend(),
	}
}

func noTimestampIfNone(ts int64) int64 {
	if ts == segment.NoMaxTimestamp {
		return record.NoTimestamp
	}
	return ts
}

// Recovered says that the log was not as a clean stop had left it, so that its leader
// epoch has risen.
func (l *Log) Recovered() bool { return l.recovered }

// Closed says that the log was closed, or its topic deleted.
func (l *Log) Closed() bool { return l.closed.Load() }
