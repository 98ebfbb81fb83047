package varve

import "sync/atomic"

// HandlerStats are the workers that call the handlers of all subscriptions.
type HandlerStats struct {
	Workers int // there are at most, see GroupOptions.Workers
	// Busy is how many have something to do: call a handler, or read ahead for one. Where
	// it stays at Workers, handlers wait for each other.
	Busy int
	// Running is how many handlers have been called and have not returned. It may be more
	// than Workers: those that wait for the engine have none.
	Running int64
}

func (c *consumers) stats() HandlerStats {
	return HandlerStats{Workers: c.workers.size, Busy: int(c.workers.busy.Load()), Running: c.running.Load()}
}

// HandledStats are what handlers have done for a group.
type HandledStats struct {
	Records     int64 // were processed
	Errors      int64 // attempts that failed: by an error, a panic, or Done with an error
	Retries     int64 // attempts at records that had failed before
	Skipped     int64 // records that failed for good, by SkipRecord
	DeadLetters int64 // and those that DeadLetter published
	Stopped     int64 // partitions that stand still now, by StopPartition or for want of a dead letter
}

// handledSeen counts them.
type handledSeen struct{ records, errors, retries, skipped, deadLetters, stopped atomic.Int64 }

func (s *handledSeen) read() HandledStats {
	return HandledStats{
		Records: s.records.Load(), Errors: s.errors.Load(), Retries: s.retries.Load(),
		Skipped: s.skipped.Load(), DeadLetters: s.deadLetters.Load(), Stopped: s.stopped.Load(),
	}
}
