package varve

import (
	"time"

	"github.com/varvelog/varve/internal/vfs"
)

const (
	// slowSync is how long a sync may take before the log has a line of it.
	slowSync = 5 * time.Second
	// mostReserve bounds what is left free where the program does not say how much.
	mostReserve = 64 << 20
)

// DiskStatus says how the disk answers. A sync that does not come back holds up every
// publish that waits for it: Waiting is the figure to alert on.
type DiskStatus struct {
	Free    int64         // bytes that may still be written, the reserve included; -1: not known
	Reserve int64         // bytes that records leave free, see Options.ReserveBytes
	Syncs   int64         // since the engine was opened
	Slow    int64         // of these, longer than 5 s
	Longest time.Duration // the longest of these
	Waiting time.Duration // how long the oldest sync that is under way has taken
}

// Disk says how the disk answers.
func (e *Engine) Disk() DiskStatus {
	free, _, err := e.fs.Space()
	if err != nil {
		free = -1
	}
	s := e.watch.Stats()
	return DiskStatus{Free: free, Reserve: e.reserve, Syncs: s.Syncs, Slow: s.Slow, Longest: s.Longest, Waiting: s.Waiting}
}

// minded is a file system that is watched, and on which records leave a reserve free.
func (e *Engine) minded(inner vfs.FS) (vfs.FS, error) {
	e.watch = vfs.NewWatch(inner, slowSync, func(path string, since time.Duration, over bool) {
		if over {
			e.log.Warn("disk has answered", "path", path, "after", since)
		} else {
			e.log.Error("disk does not answer: a sync is under way for long", "path", path, "since", since)
		}
	})
	if e.reserve = max(e.opt.ReserveBytes, 0); e.opt.ReserveBytes == 0 {
		_, total, err := inner.Space()
		if err != nil {
			return nil, err
		}
		e.reserve = min(total/50, mostReserve)
	}
	if e.reserve == 0 {
		return e.watch, nil
	}
	return vfs.WithReserve(e.watch, e.reserve), nil
}
