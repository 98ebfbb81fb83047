package varve

import (
	"sync"

	"github.com/varvelog/varve/partition"
)

// pool is a fixed number of goroutines that work on logs. A log is queued at
// most once at a time; queueing it again while it is worked on queues it anew.
//
//	field    guarded by
//	queue, queued, stopped   mu
type pool struct {
	work func(*partition.Log)

	mu      sync.Mutex
	wake    sync.Cond
	queue   []*partition.Log
	queued  map[*partition.Log]bool
	stopped bool
	done    sync.WaitGroup
}

// newPool starts n goroutines. stop ends them.
func newPool(n int, work func(*partition.Log)) *pool {
	p := &pool{work: work, queued: make(map[*partition.Log]bool)}
	p.wake.L = &p.mu
	for range n {
		p.done.Go(p.run)
	}
	return p
}

// add queues a log. It never blocks.
func (p *pool) add(l *partition.Log) {
	p.mu.Lock()
	if !p.queued[l] {
		p.queued[l] = true
		p.queue = append(p.queue, l)
		p.wake.Signal()
	}
	p.mu.Unlock()
}

func (p *pool) run() {
	for {
		l := p.next()
		if l == nil {
			return
		}
		p.work(l)
	}
}

// next waits for a log; nil once the pool is stopped and its queue empty.
func (p *pool) next() *partition.Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 {
		if p.stopped {
			return nil
		}
		p.wake.Wait()
	}
	l := p.queue[0]
	p.queue[0] = nil
	p.queue = p.queue[1:]
	delete(p.queued, l)
	return l
}

// stop lets the queue be worked off and waits for the goroutines.
func (p *pool) stop() {
	p.mu.Lock()
	p.stopped = true
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// Sizes of the pools. Syncs wait for the disk, so more of them overlap than there
// are processors; a drain is work for a processor.
const (
	drainers = 2
	syncers  = 8
)

// workers are the goroutines of an engine that work for its logs: it is the
// Journal and the Runner of each.
type workers struct {
	drains, syncs, tidies *pool
}

func newWorkers(e *Engine) *workers {
	return &workers{
		drains: newPool(drainers, (*partition.Log).Drain),
		syncs: newPool(syncers, func(l *partition.Log) {
			l.SyncRound() // a failure is told to who waits, and logged by the log
		}),
		tidies: newPool(1, func(l *partition.Log) {
			if err := l.Tidy(); err != nil {
				e.log.Error("cannot finish a segment, trying again with the next", "partition", l.Name(), "err", err)
			}
		}),
	}
}

func (w *workers) Commit(l *partition.Log) { w.syncs.add(l) }
func (w *workers) Drain(l *partition.Log)  { w.drains.add(l) }
func (w *workers) Tidy(l *partition.Log)   { w.tidies.add(l) }

// stop ends all of them; the logs are closed by then and queue nothing new.
func (w *workers) stop() {
	w.drains.stop()
	w.syncs.stop()
	w.tidies.stop()
}
