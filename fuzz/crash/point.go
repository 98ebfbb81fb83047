package crash

import (
	"math/rand/v2"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
)

// point is one crash: the disk that it leaves, and what was promised until then. It is
// taken in front of a call, while the engine goes on: what the disk is at that moment
// is what a crash there leaves.
type point struct {
	history     *history
	told, tried int // lengths of it, before and after the disk was copied
	disk        *vfs.Mem
	after       ending
	program     Program // all up to the crash, crashes before it included
	depth       int     // how many crashes that are
	seed        uint64  // of what comes after it
}

// maxDepth bounds how many crashes follow on each other.
const maxDepth = 4

// crashLocked takes a point here.
func (l *life) crashLocked(how *Crash) {
	p := &point{history: l.h, after: powerCut, depth: l.depth + 1, seed: mix(l.seed, uint64(l.calls))}
	if how.Kill {
		p.after = l.before
	}
	p.told = l.h.len()
	p.disk = how.leaves(l.disk)
	p.tried = l.h.len()
	p.disk.Limit(-1)
	p.program = slices.Concat(l.past, l.steps)
	p.program[len(p.program)-1].Crash = how
	l.points = append(l.points, p)
}

// draw is the crash of a point that the program does not name.
func (l *life) drawLocked() *Crash {
	return anyCrash(rand.New(rand.NewPCG(l.seed, uint64(l.calls))), l.stepCalls)
}

// mix makes a seed of two.
func mix(a, b uint64) uint64 { return rand.NewPCG(a, b).Uint64() }

// survey is what became of a life.
type survey struct {
	program Program
	wrong   []string
	log     []string
	points  []*point
	starts  int
	faults  int64
}

// live opens an engine, on what a crash has left where there is one and holds that
// against what was promised, has it run a program, and stops it.
func (l *life) live(from *point, program func() Program) (s survey) {
	s.starts++
	if l.open() {
		if from == nil || l.check(from, &s) {
			l.opened()
			l.run(append(program(), Step{Verb: "stop"}))
		}
		l.close()
	}
	s.wrong = append(s.wrong, l.verdict()...)
	s.program, s.points, s.log, s.faults = slices.Concat(l.past, l.steps), l.points, l.log.all(), l.faults.Load()
	return s
}

// check begins a new history, of what is found after a crash.
func (l *life) check(from *point, s *survey) bool {
	c := &check{m: l.h.known(), after: from.after}
	c.run(l.engine, l.log.brought())
	s.wrong = c.wrong
	l.begin(newHistory(c.next), killed)
	return len(c.wrong) == 0
}

// stopped opens what a clean stop has left, which is everything.
func (l *life) stopped(s *survey) {
	c := &check{m: l.h.now(), after: stopped}
	if !l.troubled.Load() {
		c.tidy(l.disk)
	}
	l.disk.Limit(-1)
	again := newLife(l.tally, l.seed, l.depth, l.disk, c.m)
	if s.starts++; again.open() {
		c.run(again.engine, again.log.brought())
		again.close()
	}
	s.wrong = slices.Concat(s.wrong, c.wrong, again.verdict())
	s.log = append(s.log, again.log.all()...)
}

// afterwards is the life that follows a crash.
func (p *point) afterwards(tl *tally) *life {
	l := newLife(tl, p.seed, p.depth, p.disk, nil)
	l.begin(p.history.until(p.told, p.tried), p.after)
	l.past = p.program
	l.during("recover")
	return l
}

// verify opens what a crash has left. With some luck that start is cut as well, or what
// the engine does then, or both.
func (l *life) verify(p *point) survey {
	l.chance(40, 24)
	s := l.live(p, func() Program {
		l.chance(25, 40)
		return generateMore(l.rng, l.engine)
	})
	if len(s.wrong) == 0 && l.rng.IntN(2) == 0 {
		l.stopped(&s)
	}
	return s
}

// chance has a crash point taken at one of the next calls, in so many of a hundred
// lives, and at every call that had none in its kind of step.
func (l *life) chance(percent, calls int64) {
	if l.depth >= maxDepth {
		l.cutAt(nil)
		return
	}
	left := 1 + l.rng.Int64N(calls)
	if l.rng.Int64N(100) >= percent {
		left = 0
	}
	l.cutAt(func(_ int64, fresh bool) bool {
		left--
		return fresh || left == 0
	})
}
