package crash

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/internal/vfs"
)

// Campaign runs programs and crashes them until there were enough crash points, or
// one broke a promise.
//
//	field                  guarded by    written by
//	Seed, Points, Workers, Bubble, Out   (immutable)   the caller
//	next, programs, points, starts, nested, faults   atomic   workers
//	failed                 atomic, set once   the first worker that finds something
type Campaign struct {
	Seed    uint64
	Points  int64
	Workers int
	Bubble  func(f func()) // runs f in a bubble of testing/synctest, until all its goroutines have ended
	Out     io.Writer

	tally  *tally
	next   atomic.Int64 // number of the next program
	failed atomic.Pointer[Failure]

	programs, points, starts, nested, faults atomic.Int64
}

// Failure is a program that broke a promise.
type Failure struct {
	Program Program
	Seed    uint64
	Wrong   []string
	Log     []string // what the engine said after the last crash
}

func (f *Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "program: %s\nseed:    %d\n", f.Program, f.Seed)
	for _, line := range f.Wrong {
		b.WriteString("broken:  " + line + "\n")
	}
	for _, line := range f.Log {
		b.WriteString("logged:  " + line + "\n")
	}
	return b.String()
}

// Run returns what failed first, in as short a program as was found; nil when all was
// well.
func (c *Campaign) Run() *Failure {
	c.tally = newTally()
	done := make(chan struct{})
	go c.report(done)
	var all sync.WaitGroup
	for range c.Workers {
		all.Go(c.work)
	}
	all.Wait()
	close(done)
	if f := c.failed.Load(); f != nil {
		return c.shorten(f)
	}
	return nil
}

// Repeat runs one program until it had Points crash points, each time with other
// crashes at each of the calls of its last life. What fails is not shortened: it is
// what it was asked for.
func (c *Campaign) Repeat(p Program) *Failure {
	c.tally = newTally()
	for i := uint64(0); c.points.Load() < c.Points; i++ {
		before := c.points.Load()
		if f := c.try(p, mix(c.Seed, i), 1); f != nil {
			return f
		}
		if c.points.Load() == before { // it does nothing that could be cut
			return nil
		}
	}
	return nil
}

func (c *Campaign) work() {
	for c.points.Load() < c.Points && c.failed.Load() == nil {
		n := uint64(c.next.Add(1))
		seed := mix(c.Seed, n)
		large := n%8 == 0
		p := generate(rand.New(rand.NewPCG(seed, 0)), large)
		every := uint64(1)
		if large {
			every = 10
		}
		if f := c.try(p, seed, every); f != nil {
			c.failed.CompareAndSwap(nil, f)
		}
	}
}

// try runs a program with a crash at every so-many-th call of its last life, and, for
// all of them, with those that it names.
func (c *Campaign) try(p Program, seed, every uint64) *Failure {
	c.programs.Add(1)
	var from *point
	lives := p.lives()
	for i, steps := range lives {
		l := c.life(from, seed)
		last := i == len(lives)-1
		if last {
			l.cutAt(func(call int64, fresh bool) bool { return fresh || mix(seed, uint64(call))%every == 0 })
		}
		if len(steps) > 0 && steps[0].Verb == "start" {
			l.mark, steps = steps[0].Crash, steps[1:]
		}
		s, f := c.survey(l, func() (s survey) {
			s = l.live(from, func() Program { l.end(); return slices.Clone(steps) })
			if len(s.wrong) == 0 && last {
				l.stopped(&s)
			}
			return s
		})
		switch {
		case f != nil:
			return f
		case last:
			return c.crashes(s.points)
		case len(s.points) == 0: // it could not be opened
			return nil
		}
		from = s.points[0]
	}
	return nil
}

func (c *Campaign) life(from *point, seed uint64) *life {
	if from == nil {
		return newLife(c.tally, seed, 0, vfs.NewMem(), newModel())
	}
	return from.afterwards(c.tally)
}

// survey runs a life in a bubble.
func (c *Campaign) survey(l *life, f func() survey) (s survey, failed *Failure) {
	why := c.bubble(func() { s = f() })
	if why != "" {
		s.program, s.wrong = slices.Concat(l.past, l.steps), append(s.wrong, why)
	}
	c.starts.Add(int64(s.starts))
	c.faults.Add(s.faults)
	if len(s.wrong) > 0 {
		return s, &Failure{Program: s.program, Seed: l.seed, Wrong: s.wrong, Log: s.log}
	}
	return s, nil
}

// crashes verifies points, and those that come of them.
func (c *Campaign) crashes(points []*point) *Failure {
	for len(points) > 0 {
		p := points[len(points)-1]
		points[len(points)-1] = nil
		points = points[:len(points)-1]
		c.points.Add(1)
		if p.depth > 1 {
			c.nested.Add(1)
		}
		l := p.afterwards(c.tally)
		s, f := c.survey(l, func() survey { return l.verify(p) })
		if f != nil {
			return f
		}
		points = append(points, s.points...)
	}
	return nil
}

// bubble says why the bubble did not end as it should.
func (c *Campaign) bubble(f func()) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = fmt.Sprintf("it hangs: %v", r)
		}
	}()
	c.Bubble(f)
	return ""
}

// report tells how far it is, every ten seconds.
func (c *Campaign) report(done chan struct{}) {
	start := time.Now()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			fmt.Fprintf(c.Out, "%s: %s\n", time.Since(start).Round(time.Second), c.figures(time.Since(start)))
		}
	}
}

func (c *Campaign) figures(took time.Duration) string {
	return fmt.Sprintf("%d programs, %d crash points (%d of them after another), %d starts, %d faults, %.0f crash points a second",
		c.programs.Load(), c.points.Load(), c.nested.Load(), c.starts.Load(), c.faults.Load(),
		float64(c.points.Load())/took.Seconds())
}
