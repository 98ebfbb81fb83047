package varve

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type taskFunc func()

func (f taskFunc) work() { f() }

// A crew has as many at work as it has slots, and none when there is nothing to do; who is
// back goes ahead of what has not begun.
func TestCrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(1)
		var story string
		c.add(taskFunc(func() {
			story += "a"
			c.leave()
			time.Sleep(time.Second)
			c.enter()
			story += "A"
		}))
		for _, name := range []string{"b", "c"} {
			c.add(taskFunc(func() { time.Sleep(2 * time.Second); story += name }))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if story != "abAc" {
			t.Errorf("story is %q, want abAc", story)
		}
		if c.busy.Load() != 0 || len(c.queue) != 0 {
			t.Errorf("%d slots are taken, %d tasks wait", c.busy.Load(), len(c.queue))
		}
	})
}

// Whatever order a handler, and goroutines that it leaves behind, wait and return in: in
// the end nobody has a slot.
func TestTurnsKeepAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range 200 {
			c := newCrew(1 + seed%2)
			for i := range 4 {
				turn := &turn{Context: context.Background(), crew: c}
				c.add(taskFunc(func() {
					for k := range 3 {
						go func() {
							time.Sleep(time.Duration(seed*(k+1)%7) * time.Second)
							defer lend(turn).back()
							time.Sleep(time.Duration(seed*(i+2)%5) * time.Second)
						}()
					}
					time.Sleep(time.Duration(seed%4) * time.Second)
					turn.end()
				}))
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if c.busy.Load() != 0 || len(c.queue) != 0 || len(c.back) != 0 {
				t.Fatalf("seed %d: %d slots are taken, %d tasks wait, %d are back", seed, c.busy.Load(), len(c.queue), len(c.back))
			}
		}
	})
}

// Alarms ring in order, once, and not where they were set anew or stopped.
func TestAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a alarms
		var mu sync.Mutex
		var story string
		begin := time.Now()
		list := map[string]*alarm{}
		for _, name := range []string{"a", "b", "c", "d"} {
			list[name] = &alarm{ring: func() {
				mu.Lock()
				defer mu.Unlock()
				story += name + time.Since(begin).String() + " "
			}}
		}
		for i, name := range []string{"d", "a", "c", "b"} {
			a.set(list[name], begin.Add(time.Duration(10+i)*time.Second))
		}
		a.set(list["a"], begin.Add(time.Second))
		a.set(list["d"], begin.Add(time.Minute))
		a.stop(list["c"])
		a.stop(list["c"])
		time.Sleep(time.Hour)
		a.set(list["c"], begin) // in the past: at once
		synctest.Wait()
		if want := "a1s b13s d1m0s c1h0m0s "; story != want {
			t.Errorf("story is %q, want %q", story, want)
		}
	})
}
