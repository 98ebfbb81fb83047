package varve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/varvelog/varve/partition"
)

const (
	// scrubDelay is how long an engine is open before it scrubs: one that is open for
	// a command does not.
	scrubDelay = time.Minute
	// scrubPause lies between two passes: little data is not read over and over.
	scrubPause = time.Hour
	scrubChunk = 256 << 10
	// maxFaults is how many are listed.
	maxFaults = 100
)

// ScrubStatus says what the scrub has found: a reader in the background that checks
// what is at rest, so that damage is known before somebody needs the records.
type ScrubStatus struct {
	Passes   int64     // complete ones
	LastPass time.Time // when the last complete one ended; zero: none did
	Bytes    int64     // read since the engine was opened
	// Faults are the ranges that were damaged in the last complete pass, and those
	// that the one under way has found: at most a hundred.
	Faults []CorruptError
}

// scrubber reads all logs, one after the other, at a bounded pace.
//
//	field               guarded by   written by
//	e, rate, done       (immutable)  newScrubber
//	status, pass        mu           run
type scrubber struct {
	e    *Engine
	rate int64 // bytes a second
	done chan struct{}

	mu     sync.Mutex
	status ScrubStatus
	pass   []CorruptError // found by the pass under way
}

// newScrubber starts a scrubber that ends with ctx; nil where it is off.
func newScrubber(ctx context.Context, e *Engine) *scrubber {
	if e.opt.ScrubRate < 0 {
		return nil
	}
	s := &scrubber{e: e, rate: e.opt.ScrubRate, done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// wait returns when the scrubber has ended.
func (s *scrubber) wait() {
	if s != nil {
		<-s.done
	}
}

func (s *scrubber) run(ctx context.Context) {
	defer close(s.done)
	for pause := scrubDelay; sleep(ctx, pause); pause = scrubPause {
		for _, l := range s.e.logs() {
			if !s.log(ctx, l) {
				return
			}
		}
		s.passed()
	}
}

// log reads one log from start to end; false when ctx has ended.
func (s *scrubber) log(ctx context.Context, l *partition.Log) bool {
	var c partition.Cursor
	var buf []byte
	for from := l.Start(); ; {
		chunk, err := l.Check(buf, scrubChunk, from, &c)
		var damage *CorruptError
		var gone *OutOfRangeError
		switch {
		case errors.As(err, &damage):
			s.found(l, damage)
			from = damage.To
			continue
		case errors.As(err, &gone) && from < gone.Start: // retention is faster
			from = gone.Start
			continue
		case err != nil: // it is closed, or cannot be read now: whoever reads it is told
			return ctx.Err() == nil
		case len(chunk.Data) == 0:
			return true
		}
		from, buf = chunk.Next, chunk.Data[:0]
		s.mu.Lock()
		s.status.Bytes += int64(len(chunk.Data))
		s.mu.Unlock()
		if !sleep(ctx, time.Duration(int64(len(chunk.Data))*int64(time.Second)/s.rate)) {
			return false
		}
	}
}

func (s *scrubber) found(l *partition.Log, damage *CorruptError) {
	s.e.log.Error("scrub found damage", "partition", l.Name(), "err", damage)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass = addFault(s.pass, damage)
	s.status.Faults = addFault(s.status.Faults, damage)
}

// addFault adds a fault that is not in the list, if there is room.
func addFault(list []CorruptError, damage *CorruptError) []CorruptError {
	if len(list) == maxFaults || slices.Contains(list, *damage) {
		return list
	}
	return append(list, *damage)
}

// passed ends a complete pass.
func (s *scrubber) passed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Passes++
	s.status.LastPass = s.e.opt.Clock()
	s.status.Faults, s.pass = s.pass, nil
}

// Scrub says what the scrub has found so far. It is all zeros where it is off.
func (e *Engine) Scrub() ScrubStatus {
	s := e.scrubber
	if s == nil {
		return ScrubStatus{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Faults = slices.Clone(status.Faults)
	return status
}

// sleep waits; false when ctx ends meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
