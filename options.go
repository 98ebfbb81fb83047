package varve

import (
	"log/slog"
	"runtime"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/wal"
)

// Options are how an engine behaves. The zero value is right for production.
type Options struct {
	// Logger gets what happens beside the calls: recovery, retention, damage.
	// Nil: slog.Default().
	Logger *slog.Logger
	// RetentionInterval is how often old segments are looked for. 0: 30 s.
	RetentionInterval time.Duration
	// MaxBytes is a budget for the log files of all topics together: above it the
	// oldest segments of any topic go, as by retention. 0: none. Active segments
	// never go for it, so it is kept to within segment.bytes a partition.
	MaxBytes int64
	// JournalBytes bounds the journal, which makes publishes to all partitions durable
	// together. It is not reached while checkpoints keep up; where they do not, each
	// partition syncs its own files. 0: 256 MiB; at least 256 KiB.
	JournalBytes int64
	// ReserveBytes of the file system are left free by records and the journal, so that
	// what keeps them is always at work: publishes then fail with an error that matches
	// syscall.ENOSPC, and go on by themselves when there is more. 0: a fiftieth of the
	// file system, at most 64 MiB; negative: none.
	ReserveBytes int64
	// OpenFiles bounds how many segments hold a file open. A segment takes one
	// descriptor and up to two mappings. 0: half of the process's limit of descriptors,
	// at most 16384. Fewer cost an open for a read of a cold segment; fewer than
	// there are partitions that take records cost an open for an append, and a sync of
	// the file that makes room.
	OpenFiles int
	// CacheBytes bounds the decompressed batches that readers share. 0: 64 MiB,
	// negative: none, so that every reader decompresses for itself.
	CacheBytes int64
	// ScrubRate is how many bytes a second are read in the background to check what is
	// stored, see Engine.Scrub. 0: 2 MiB; negative: none.
	ScrubRate int64
	// Groups is how consumer groups behave.
	Groups GroupOptions
	// Clock is the wall clock, for timestamps and retention. Nil: time.Now. It may
	// be set back: times of appends never are.
	Clock func() time.Time
}

// GroupOptions are how the consumer groups of an engine behave. The zero value is right
// for production.
type GroupOptions struct {
	// CommitRetention is how long a group's place in a partition is kept that nobody
	// commits and no member subscribes to, counted from the last commit, from when the
	// group became empty, or from the start of the engine, whichever is last. 0: 7 days;
	// negative: for ever.
	CommitRetention time.Duration
	// MaxMembers is how many members a group may have. 0: any number.
	MaxMembers int
	// Assignor decides which member is to have which partition. Nil: group.Uniform,
	// which is balanced and moves as little as it can.
	Assignor group.Assignor
	// Workers is how many handlers of subscriptions are at work at a time, of all groups
	// together. Those that wait for the engine are not counted. 0: 16 a processor.
	Workers int
	// LossWarning is the part of a topic's retention.ms and retention.bytes, and of MaxBytes,
	// within which a group that has not come to the oldest records is told of, in the log and
	// to OnNearLoss, before they go: once, and anew when it was further away in between. It
	// is looked for before each pass of retention. 0: 0.1; negative: never.
	LossWarning float64
	// OnNearLoss is told of groups that are about to lose records. It must not block, nor
	// call RunRetention, which waits for it.
	OnNearLoss func(NearLoss)
	// StopTimeout is how long Close waits for handlers to finish, and a subscription whose
	// context has ended. 0: 10 s.
	StopTimeout time.Duration
}

const (
	defaultRetentionInterval = 30 * time.Second
	defaultCacheBytes        = 64 << 20
	defaultJournalBytes      = 256 << 20
	defaultScrubRate         = 2 << 20
	defaultCommitRetention   = 7 * 24 * time.Hour
	defaultStopTimeout       = 10 * time.Second
	defaultLossWarning       = 0.1
	workersPerProcessor      = 16
	maxOpenFiles             = 16384
)

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = defaultRetentionInterval
	}
	if o.JournalBytes <= 0 {
		o.JournalBytes = defaultJournalBytes
	}
	o.JournalBytes = max(o.JournalBytes, wal.MinBytes)
	if o.OpenFiles <= 0 {
		o.OpenFiles = min(fileLimit()/2, maxOpenFiles)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.ScrubRate == 0 {
		o.ScrubRate = defaultScrubRate
	}
	if o.Groups.CommitRetention == 0 {
		o.Groups.CommitRetention = defaultCommitRetention
	}
	if o.Groups.Workers <= 0 {
		o.Groups.Workers = workersPerProcessor * runtime.GOMAXPROCS(0)
	}
	if o.Groups.LossWarning == 0 {
		o.Groups.LossWarning = defaultLossWarning
	}
	o.Groups.LossWarning = min(o.Groups.LossWarning, 1)
	if o.Groups.StopTimeout <= 0 {
		o.Groups.StopTimeout = defaultStopTimeout
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}
