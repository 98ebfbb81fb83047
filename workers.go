package varve

import (
	"sync"

	"github.com/varvelog/varve/partition"
)

// pool is a fixed number of goroutines that work on logs, or other things. A log is
// queued at most once at a time; queueing it again while it is worked on queues it
// anew.
//
//	field    guarded by
//	queue, queued, stopped   mu
type pool[T comparable] struct {
	work func(T)

	mu      sync.Mutex
	wake    sync.Cond
	queue   []T
	queued  map[T]bool
	stopped bool
	done    sync.WaitGroup
}

// newPool starts n goroutines. stop ends them.
func newPool[T comparable](n int, work func(T)) *pool[T] {
	p := &pool[T]{work: work, queued: make(map[T]bool)}
	p.wake.L = &p.mu
	for range n {
		p.done.Go(p.run)
	}
	return p
}

// add queues a log. It never blocks.
func (p *pool[T]) add(l T) {
	p.mu.Lock()
	if !p.queued[l] {
		p.queued[l] = true
		p.queue = append(p.queue, l)
		p.wake.Signal()
	}
	p.mu.Unlock()
}

func (p *pool[T]) run() {
	for {
		l, ok := p.next()
		if !ok {
			return
		}
		p.work(l)
	}
}

// next waits for something to do; false once the pool is stopped and its queue empty.
func (p *pool[T]) next() (l T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 {
		if p.stopped {
			return l, false
		}
		p.wake.Wait()
	}
	l = p.queue[0]
	clear(p.queue[:1])
	p.queue = p.queue[1:]
	delete(p.queued, l)
	return l, true
}

// stop lets the queue be worked off and waits for the goroutines.
func (p *pool[T]) stop() {
	p.mu.Lock()
	p.stopped = true
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// drainers is how many goroutines work on queues of appends, where no publisher does.
const drainers = 2

// workers are the goroutines of an engine that work for its logs: it is the Runner
// of each.
type workers struct {
	drains, tidies *pool[*partition.Log]
}

func newWorkers(e *Engine) *workers {
	return &workers{
		drains: newPool(drainers, (*partition.Log).Drain),
		tidies: newPool(1, func(l *partition.Log) {
			if err := l.Tidy(); err != nil {
				e.log.Error("cannot finish a segment, trying again with the next", "partition", l.Name(), "err", err)
			}
		}),
	}
}

func (w *workers) Drain(l *partition.Log) { w.drains.add(l) }
func (w *workers) Tidy(l *partition.Log)  { w.tidies.add(l) }

// stop ends all of them; the logs are closed by then and queue nothing new.
func (w *workers) stop() {
	w.drains.stop()
	w.tidies.stop()
}
