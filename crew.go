package varve

import (
	"sync"
	"sync/atomic"
)

// task is something that a crew does. Its time is the crew's: it returns rather than
// wait.
type task interface{ work() }

// crew is a bounded number of goroutines that do tasks in the order in which they come.
// One is there only while there is something for it to do, so that a crew without tasks
// costs nothing.
//
// Whoever does a task has a slot, of which there are size. A task that must wait for the
// engine gives its slot back meanwhile (leave), for another to be done, and takes one
// again before it goes on (enter), ahead of those that have not begun.
//
//	field   guarded by   written by
//	size    (immutable)  newCrew
//	queue, back   mu     add, next, leave, enter
//	busy    atomic       they (under mu)
type crew struct {
	size int

	mu    sync.Mutex
	queue []task
	busy  atomic.Int64    // slots taken
	back  []chan struct{} // of those who wait in enter
}

func newCrew(size int) *crew { return &crew{size: size} }

// add queues a task. It never blocks, and may be called with any lock held.
func (c *crew) add(t task) {
	c.mu.Lock()
	c.queue = append(c.queue, t)
	start := c.freeLocked()
	if start {
		c.busy.Add(1)
	}
	c.mu.Unlock()
	if start {
		go c.run()
	}
}

func (c *crew) freeLocked() bool { return c.busy.Load() < int64(c.size) }

// run does tasks with a slot, until there are none.
func (c *crew) run() {
	whole := false
	defer func() {
		if !whole { // the task has ended its goroutine: the slot is another's
			go c.run()
		}
	}()
	for {
		t, ok := c.next()
		if !ok {
			whole = true
			return
		}
		t.work()
	}
}

// next takes the first task; false, and the slot is gone, where there is none or
// somebody is back.
func (c *crew) next() (t task, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.back) > 0 || len(c.queue) == 0 {
		c.passLocked()
		return nil, false
	}
	t = c.queue[0]
	clear(c.queue[:1])
	c.queue = c.queue[1:]
	return t, true
}

// passLocked gives a slot to who is back, or to nobody.
func (c *crew) passLocked() {
	if len(c.back) == 0 {
		c.busy.Add(-1)
		return
	}
	close(c.back[0])
	clear(c.back[:1])
	c.back = c.back[1:]
}

// leave gives the slot of the caller back.
func (c *crew) leave() {
	c.mu.Lock()
	start := len(c.back) == 0 && len(c.queue) > 0
	if !start {
		c.passLocked()
	}
	c.mu.Unlock()
	if start {
		go c.run()
	}
}

// enter waits for a slot.
func (c *crew) enter() {
	c.mu.Lock()
	if c.freeLocked() {
		c.busy.Add(1)
		c.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	c.back = append(c.back, mine)
	c.mu.Unlock()
	<-mine
}
