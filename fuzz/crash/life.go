package crash

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

// life is one engine on one disk, from its first opening on: what is asked of it, what
// it has answered, and the crash points that are taken on the way. It belongs to one
// bubble of testing/synctest, so that what the engine does by itself, it does when the
// program lets time pass.
//
//	field                 guarded by             written by
//	tally, seed, disk, fs, log, depth   (immutable)   newLife
//	engine, rng, readers  (one goroutine)        the program's
//	serial, kind, faulted, isFull, troubled, armed, faults   atomic
//	h, before, wants      mu                     begin, cutAt: written by the program alone
//	past                  (immutable)            afterwards
//	steps, mark           mu                     run alone
//	calls, stepCalls, points   mu                rule
//	wrong                 mu                     broken
type life struct {
	tally *tally
	seed  uint64
	depth int
	rng   *rand.Rand
	disk  *vfs.Mem
	fs    *vfs.Faulty
	log   *logged

	engine  *varve.Engine
	readers *readers

	serial   atomic.Int64
	kind     atomic.Pointer[string] // of the step
	faulted  atomic.Bool            // the disk has failed this engine a call: errors are no surprise
	isFull   atomic.Bool
	troubled atomic.Bool // one of them was so
	armed    atomic.Pointer[fault]
	faults   atomic.Int64

	mu        sync.Mutex
	h         *history
	before    ending                            // what a kill now is like, given how the engine before has ended
	wants     func(call int64, fresh bool) bool // whether to take a crash point at a call
	past      Program                           // what came before, up to the crash
	steps     Program                           // of this life so far, the one under way included
	mark      *Crash                            // how that one ends
	calls     int64                             // that change the disk
	stepCalls int64                             // of the step under way
	points    []*point
	wrong     []string
}

// fault is what the next matching call gets.
type fault struct {
	op   string // name of the operation
	name string // part of the file's name
	how  string
}

func newLife(tl *tally, seed uint64, depth int, disk *vfs.Mem, base *model) *life {
	l := &life{
		tally: tl, seed: seed, depth: depth, rng: rand.New(rand.NewPCG(seed, uint64(depth))),
		disk: disk, log: new(logged), h: newHistory(base), before: killed,
	}
	l.fs = vfs.NewFaulty(disk, l.rule)
	l.log.lower = func(c clamp) { l.h.attempt(c.asked) }
	l.during("start")
	l.at(Step{Verb: "start"})
	return l
}

// begin has a new history begin, of an engine that was found to be as known.
func (l *life) begin(h *history, before ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.h, l.before = h, before
}

// cutAt sets at which of the calls to come crash points are taken; nil for none.
func (l *life) cutAt(wants func(call int64, fresh bool) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = wants
}

func (l *life) during(kind string) { l.kind.Store(&kind) }

// at begins a step.
func (l *life) at(s Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark, s.Crash, l.stepCalls = s.Crash, nil, 0
	l.steps = append(l.steps, s)
}

// end ends a step: a crash that has found no call comes now.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mark != nil {
		l.crashLocked(l.mark)
		l.mark = nil
	}
}

// rule is asked about each call: it counts, takes crash points, and fails what is to
// fail.
func (l *life) rule(op vfs.Op) vfs.Fault {
	if !changesDisk(op.Kind) {
		return vfs.Fault{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.stepCalls++
	if l.mark == nil && l.wants == nil { // the last of many crashes, or none: nothing is taken, nothing counted
		return l.faultFor(op)
	}
	c, fresh := l.tally.call(op.Kind, *l.kind.Load())
	switch {
	case l.mark != nil && l.mark.Call == l.stepCalls:
		l.tally.crash(c)
		l.crashLocked(l.mark)
		l.mark = nil
	case l.wants != nil && l.wants(l.calls, fresh):
		l.tally.crash(c)
		l.crashLocked(l.drawLocked())
	}
	return l.faultFor(op)
}

func changesDisk(k vfs.OpKind) bool {
	switch k {
	case vfs.OpOpen, vfs.OpRead, vfs.OpMap, vfs.OpReadDir, vfs.OpClose, vfs.OpStat:
		return false
	}
	return true
}

func (l *life) faultFor(op vfs.Op) vfs.Fault {
	f := l.armed.Load()
	if f == nil || f.op != op.Kind.String() || !strings.Contains(op.Name, f.name) {
		return vfs.Fault{}
	}
	l.armed.Store(nil)
	l.faulted.Store(true)
	l.troubled.Store(true)
	l.faults.Add(1)
	fault := vfs.Fault{Err: syscall.EIO}
	switch f.how {
	case "short":
		fault.Short = op.Len / 2
	case "done":
		fault.Done = true
	case "drop":
		fault.DropOnSyncFail = true
	}
	return fault
}

// open opens the engine; false where that fails.
func (l *life) open() bool {
	e, err := varve.OpenFS(l.fs, varve.Options{
		Logger: slog.New(l.log), RetentionInterval: 1000 * time.Hour, JournalBytes: wal.MinBytes, CacheBytes: -1,
		OpenFiles: 3 + int(l.seed%2)*100,
	})
	if !l.ok("open", err) {
		return false
	}
	l.engine = e
	l.readers = newReaders(l)
	return true
}

// opened notes what holds when an engine is open.
func (l *life) opened() {
	l.h.answer(func(m *model) { m.rest = false })
	for _, t := range l.engine.Topics() {
		l.taken(t)
	}
}

// taken notes the leader epochs of a topic that was opened, and has it read from now
// on.
func (l *life) taken(t *varve.Topic) {
	name, id := t.Name(), t.ID()
	for i := range t.Partitions() {
		p, _ := t.Partition(i)
		epoch := int(p.Stats().Epoch)
		l.h.answer(func(m *model) {
			if t := m.byID(name, id); t != nil {
				t.part(i).epoch = max(t.part(i).epoch, epoch)
			}
		})
	}
	l.readers.follow(t)
}

// run runs a program, as far as the engine can be opened.
func (l *life) run(p Program) {
	for _, s := range p {
		if l.engine == nil {
			return
		}
		l.during(kindOf(s.Verb))
		l.at(s)
		verbs[s.Verb].do(l, s)
		l.look()
		l.end()
	}
}

func kindOf(verb string) string {
	switch verb {
	case "reopen":
		return "stop"
	case "full", "room", "fail":
		return "idle"
	}
	return verb
}

func (l *life) stop(Step) { l.close() }

// close stops the engine; what was told is still there afterwards, failed or not.
func (l *life) close() {
	if l.engine == nil {
		return
	}
	l.during("stop")
	l.h.attempt(func(m *model) { m.rest = true })
	l.ok("close", l.engine.Close())
	l.readers.wait()
	l.engine = nil
}

// look notes what is durable by now.
func (l *life) look() {
	if l.engine == nil {
		return
	}
	for _, t := range l.engine.Topics() {
		name, id := t.Name(), t.ID()
		for i := range t.Partitions() {
			p, _ := t.Partition(i)
			if p.Err() != nil {
				continue
			}
			end := p.DurableEnd()
			l.h.answer(func(m *model) {
				if t := m.byID(name, id); t != nil {
					t.part(i).durable = max(t.part(i).durable, end)
				}
			})
		}
	}
}

// ok says whether a call did what it should. An error is right only when the disk
// failed before it, or is full.
func (l *life) ok(what string, err error) bool {
	if err != nil && !l.faulted.Load() && !l.isFull.Load() {
		l.broken("promise 9: %s fails without a reason: %v", what, err)
	}
	return err == nil
}

func (l *life) broken(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// verdict is all that was wrong in the life itself.
func (l *life) verdict() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	wrong := append(l.wrong, l.h.now().wrong...)
	if line := l.log.firstError(); line != "" && !l.troubled.Load() {
		wrong = append(wrong, "promise 6: an error is logged: "+line)
	}
	return wrong
}

// readers follow all topics, and note what they are shown.
type readers struct {
	l    *life
	done sync.WaitGroup
}

func newReaders(l *life) *readers { return &readers{l: l} }

func (r *readers) wait() { r.done.Wait() }

// follow reads a topic until it, or the engine, is closed.
func (r *readers) follow(t *varve.Topic) {
	rd, err := t.Reader(varve.Earliest())
	if !r.l.ok("reader", err) {
		return
	}
	name, id := t.Name(), t.ID()
	r.done.Go(func() {
		for {
			rec, err := rd.Next(context.Background())
			var gone *varve.OutOfRangeError
			switch {
			case errors.As(err, &gone):
				continue
			case errors.Is(err, varve.ErrClosed):
				return
			case err != nil:
				r.l.broken("promise 8: a reader of %s gets %v", name, err)
				return
			}
			i, off, value := int(rec.Partition), rec.Offset, string(rec.Value)
			r.l.h.answer(func(m *model) {
				t := m.byID(name, id)
				if t == nil {
					return
				}
				p := t.part(i)
				m.place(name, i, p, off, value)
				if t.level() == varve.Fsync { // promise 2
					p.durable = max(p.durable, off+1)
				}
			})
		}
	})
}
