package vfs

import (
	"sync"
	"time"
)

// Watch is a file system that times every sync, so that a disk which has stopped
// answering is seen while callers wait for it.
//
//	field       guarded by    written by
//	FS, limit, told   (immutable)   NewWatch
//	under, stats      mu            begin, end
type Watch struct {
	FS
	limit time.Duration
	told  func(path string, since time.Duration, over bool)

	mu    sync.Mutex
	under map[*watched]struct{}
	stats WatchStats
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
	return &Watch{FS: inner, limit: limit, told: told, under: make(map[*watched]struct{})}
}

// Stats is what was seen so far.
func (w *Watch) Stats() WatchStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	for call := range w.under {
		s.Waiting = max(s.Waiting, time.Since(call.start))
	}
	return s
}

func (w *Watch) begin(name string) *watched {
	call := &watched{path: w.Path(name), start: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under[call] = struct{}{}
	call.timer = time.AfterFunc(w.limit, func() { w.told(call.path, w.limit, false) })
	return call
}

func (w *Watch) end(call *watched) {
	took := time.Since(call.start)
	slow := !call.timer.Stop()
	w.mu.Lock()
	delete(w.under, call)
	w.stats.Syncs++
	w.stats.Longest = max(w.stats.Longest, took)
	if slow {
		w.stats.Slow++
	}
	w.mu.Unlock()
	if slow {
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
