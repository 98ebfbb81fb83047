package vfs

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch is a file system that times every sync, so that a disk which has stopped
// answering is seen while callers wait for it.
//
// Stats holds up no sync: it takes no lock.
//
//	field       guarded by    written by
//	FS, limit, told   (immutable)   NewWatch
//	under             its own       begin, end
//	syncs, slow, longest   atomic   end
type Watch struct {
	FS
	limit time.Duration
	told  func(path string, since time.Duration, over bool)

	under   sync.Map // *watched: those that are under way
	syncs   atomic.Int64
	slow    atomic.Int64
	longest atomic.Int64 // nanoseconds
}

// WatchStats is what a Watch has seen.
type WatchStats struct {
	Syncs   int64
	Slow    int64         // of those that ended, that took longer than the limit
	Longest time.Duration // of those that ended
	Waiting time.Duration // how long the oldest one that is under way has taken
}

// watched is a sync that is under way.
type watched struct {
	path  string
	start time.Time
	timer *time.Timer
}

// NewWatch watches inner. told is called when a sync has taken as long as the limit, and
// again when it is over; it must not wait for a sync.
func NewWatch(inner FS, limit time.Duration, told func(path string, since time.Duration, over bool)) *Watch {
	return &Watch{FS: inner, limit: limit, told: told}
}

// Stats is what was seen so far.
func (w *Watch) Stats() WatchStats {
	s := WatchStats{Syncs: w.syncs.Load(), Slow: w.slow.Load(), Longest: time.Duration(w.longest.Load())}
	for call := range w.under.Range {
		s.Waiting = max(s.Waiting, time.Since(call.(*watched).start))
	}
	return s
}

func (w *Watch) begin(name string) *watched {
	call := &watched{path: w.Path(name), start: time.Now()}
	w.under.Store(call, nil)
	call.timer = time.AfterFunc(w.limit, func() { w.told(call.path, w.limit, false) })
	return call
}

func (w *Watch) end(call *watched) {
	took := time.Since(call.start)
	slow := !call.timer.Stop()
	w.under.Delete(call)
	w.syncs.Add(1)
	for was := w.longest.Load(); int64(took) > was && !w.longest.CompareAndSwap(was, int64(took)); {
		was = w.longest.Load()
	}
	if slow {
		w.slow.Add(1)
		w.told(call.path, took, true)
	}
}

func (w *Watch) OpenFile(name string, flag int) (File, error) {
	f, err := w.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w}, nil
}

func (w *Watch) SyncDir(name string) error {
	defer w.end(w.begin(name))
	return w.FS.SyncDir(name)
}

type watchedFile struct {
	File
	watch *Watch
}

func (f *watchedFile) Sync() error {
	defer f.watch.end(f.watch.begin(f.Name()))
	return f.File.Sync()
}
