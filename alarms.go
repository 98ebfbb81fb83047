package varve

import (
	"container/heap"
	"sync"
	"time"
)

// alarm is something that is to be done at a time. ring must not block.
type alarm struct {
	ring  func()
	at    time.Time
	place int // in the heap, from 1; 0: it is not set
}

// alarms are all alarms of an engine's subscriptions, on one timer.
//
//	field   guarded by
//	list, timer, at and place of each alarm   mu
type alarms struct {
	mu    sync.Mutex
	list  alarmHeap
	timer *time.Timer
}

// set has an alarm ring once at a time, and not when it was to before.
func (a *alarms) set(al *alarm, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	al.at = at
	if al.place > 0 {
		heap.Fix(&a.list, al.place-1)
	} else {
		heap.Push(&a.list, al)
	}
	if a.list[0] == al {
		a.windLocked()
	}
}

// stop takes an alarm back. It may be ringing.
func (a *alarms) stop(al *alarm) {
	a.mu.Lock()
	if al.place > 0 {
		heap.Remove(&a.list, al.place-1)
	}
	if len(a.list) == 0 && a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
}

func (a *alarms) windLocked() {
	in := time.Until(a.list[0].at)
	if a.timer == nil {
		a.timer = time.AfterFunc(in, a.ring)
		return
	}
	a.timer.Reset(in)
}

// ring rings what is due.
func (a *alarms) ring() {
	var due []*alarm
	a.mu.Lock()
	now := time.Now()
	for len(a.list) > 0 && !a.list[0].at.After(now) {
		due = append(due, heap.Pop(&a.list).(*alarm))
	}
	if len(a.list) > 0 {
		a.windLocked()
	}
	a.mu.Unlock()
	for _, al := range due {
		al.ring()
	}
}

// alarmHeap is a heap of alarms that know their place.
type alarmHeap []*alarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *alarmHeap) Push(x any) {
	al := x.(*alarm)
	*h = append(*h, al)
	al.place = len(*h)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	al := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	al.place = 0
	return al
}
