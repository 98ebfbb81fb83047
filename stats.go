package varve

import (
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/partition"
)

// EngineStats is an engine taken stock of, but for its disk ([Engine.Disk]), its scrub
// ([Engine.Scrub]) and its groups ([Engine.GroupStats]). Counters count since it was opened.
type EngineStats struct {
	Closed bool
	Topics []*Topic // by name
	// Deleted is what the partitions of topics had counted that were deleted since: with it
	// sums over all topics never fall.
	Deleted  Counters
	Unopened int   // topics that cannot be opened
	Commits  int64 // bytes of the topic that has the commits of groups

	Journal     JournalStats
	Checkpoints JobStats
	Retention   JobStats
	Handlers    HandlerStats
}

// Counters count what partitions do.
type Counters = partition.Counters

// JournalStats are what makes the appends of all partitions durable.
type JournalStats struct {
	Bytes   int64 // of files that a start after a crash would need
	Limit   int64 // of these, see Options.JournalBytes
	Written int64 // bytes
	// Rounds is how long a write and sync of the journal took, which are one for all
	// partitions that wait, and Files the syncs of a partition's own files that take its
	// place where there are many bytes.
	Rounds, Files Durations
	Failed        int64 // of both
}

// JobStats are something that the engine does again and again.
type JobStats struct {
	Done, Failed int64
	Last         time.Time // when it was done last; zero: it was not
}

// jobStats count a job. The zero value has counted nothing.
type jobStats struct{ done, failed, last atomic.Int64 } // last: nanoseconds since 1970

// ended counts a job that has ended, at a time of the engine's clock.
func (j *jobStats) ended(at time.Time, err error) {
	if err != nil {
		j.failed.Add(1)
		return
	}
	j.last.Store(at.UnixNano())
	j.done.Add(1)
}

func (j *jobStats) read() JobStats {
	s := JobStats{Done: j.done.Load(), Failed: j.failed.Load()}
	if s.Done > 0 {
		s.Last = time.Unix(0, j.last.Load())
	}
	return s
}

// Stats takes stock. It takes no lock that a publish or a sync waits for, nor one that is
// held while the disk is at work, and also answers when the engine is closed.
func (e *Engine) Stats() EngineStats {
	s := EngineStats{Checkpoints: e.checkpoints.read(), Retention: e.retentions.read(), Journal: e.journal.stats()}
	e.mu.RLock()
	s.Closed, s.Deleted, s.Unopened = e.closed, e.gone, len(e.broken)
	all := e.topicsLocked()
	e.mu.RUnlock()
	s.Handlers = e.consumers.stats()
	s.Topics = all[:0]
	for _, t := range all {
		if !t.internal() {
			s.Topics = append(s.Topics, t)
			continue
		}
		for _, p := range t.parts() {
			s.Commits += p.Summary().Bytes
		}
	}
	return s
}

func (j *journal) stats() JournalStats {
	return JournalStats{
		Bytes: j.wal.Bytes(), Limit: 2 * j.limit, Written: j.wal.Written(),
		Rounds: j.rounds.read(), Files: j.fileSyncs.read(), Failed: j.failures.Load(),
	}
}
