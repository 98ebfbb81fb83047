package varve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"log/slog"

	"github.com/google/uuid"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

var errPower = errors.New("the power is off")

// world is an engine on a disk in memory whose power can go off, and what the
// engine has promised. It lives in a synctest bubble: the janitor works when the
// test sleeps.
type world struct {
	t      testing.TB
	name   string // of the trial, for messages
	disk   *vfs.Mem
	engine *varve.Engine
	logged *logLines

	calls atomic.Int64 // that changed the disk
	limit atomic.Int64 // the power goes off at this one; 0: never
	dead  atomic.Bool
	cut   func(vfs.Op) (short int, cut bool) // or at one of these, of which so many bytes are written; nil: none

	mu     sync.Mutex
	topics map[string]*topicFacts // by name, those that are there
	gone   map[uuid.UUID]string   // ids of deleted topics
	doubt  string                 // name of the topic that was being made, changed or deleted when the power went off
	serial atomic.Int64
}

// topicFacts is what is known of a topic.
type topicFacts struct {
	id         uuid.UUID
	partitions int // acknowledged
	tried      int // asked for
	configs    []map[string]string
	level      varve.Durability
	parts      map[int]*partFacts
}

// partFacts is what is known of a partition.
type partFacts struct {
	wrote   map[varve.Offset]string // acknowledged at any level
	tries   map[string]bool         // values that were asked to be stored
	told    varve.Offset            // end of what was acknowledged
	durable varve.Offset            // end of what a power cut must not take
	start   varve.Offset            // acknowledged log start
	aimed   varve.Offset            // log start asked for
	epoch   int32                   // highest that a reader can have seen
}

func (f *topicFacts) part(i int) *partFacts {
	if f.parts[i] == nil {
		f.parts[i] = &partFacts{wrote: map[varve.Offset]string{}, tries: map[string]bool{}}
	}
	return f.parts[i]
}

func newWorld(t testing.TB, name string) *world {
	return &world{t: t, name: name, disk: vfs.NewMem(), logged: new(logLines), topics: map[string]*topicFacts{}, gone: map[uuid.UUID]string{}}
}

// on is the same world after a crash that left disk.
func (w *world) on(name string, disk *vfs.Mem) *world {
	n := newWorld(w.t, name)
	n.disk, n.doubt = disk, w.doubt
	n.serial.Store(w.serial.Load() + 1000)
	n.gone = maps.Clone(w.gone)
	for name, f := range w.topics {
		c := *f
		c.parts = map[int]*partFacts{}
		for i, p := range f.parts {
			q := *p
			q.wrote, q.tries = maps.Clone(p.wrote), maps.Clone(p.tries)
			c.parts[i] = &q
		}
		n.topics[name] = &c
	}
	return n
}

func (w *world) errorf(format string, args ...any) {
	w.t.Helper()
	w.t.Errorf("%s: %s", w.name, fmt.Sprintf(format, args...))
}

// rule cuts the power at a call.
func (w *world) rule(op vfs.Op) vfs.Fault {
	if changesDisk(op.Kind) {
		calls, limit := w.calls.Add(1), w.limit.Load()
		if limit > 0 && calls >= limit {
			w.dead.Store(true)
		}
	}
	if w.dead.Load() {
		return vfs.Fault{Err: errPower}
	}
	if w.cut != nil {
		if short, cut := w.cut(op); cut {
			w.dead.Store(true)
			return vfs.Fault{Err: errPower, Short: short}
		}
	}
	return vfs.Fault{}
}

func changesDisk(k vfs.OpKind) bool {
	switch k {
	case vfs.OpOpen, vfs.OpRead, vfs.OpMap, vfs.OpReadDir, vfs.OpClose, vfs.OpStat, vfs.OpLock:
		return false
	}
	return true
}

func (w *world) open() bool {
	e, err := varve.OpenFS(vfs.NewFaulty(w.disk, w.rule), varve.Options{
		Logger: slog.New(slog.NewTextHandler(w.logged, nil)), CacheBytes: -1, RetentionInterval: 1000 * time.Hour, JournalBytes: smallJournal,
	})
	if !w.ok("open", err) {
		return false
	}
	w.engine = e
	return true
}

// ok says whether a call did what it should. An error is right only when the
// power is off.
func (w *world) ok(what string, err error) bool {
	w.t.Helper()
	if err != nil && !w.dead.Load() {
		w.errorf("%s: %v", what, err)
	}
	return err == nil
}

func (w *world) close() bool {
	if w.engine == nil {
		return false
	}
	err := w.engine.Close()
	w.engine = nil
	return w.ok("close", err)
}

// act is one step of a story; what comes after the power cut is left out.
type act func(w *world)

func create(name string, partitions int, settings ...string) act {
	return func(w *world) {
		set := config(settings...)
		f := &topicFacts{partitions: partitions, tried: partitions, configs: []map[string]string{set}, parts: map[int]*partFacts{}, level: levelOf(set)}
		t, err := w.engine.CreateTopic(name, varve.TopicConfig{Partitions: partitions, Config: set})
		if w.doubt = name; w.ok("create", err) {
			f.id = t.ID()
			w.topics[name], w.doubt = f, ""
		}
	}
}

func levelOf(set map[string]string) varve.Durability {
	level, err := varve.ParseDurability(set["durability"])
	if err != nil {
		return varve.Fsync
	}
	return level
}

func remove(name string) act {
	return func(w *world) {
		id := w.topics[name].id
		err := w.engine.DeleteTopic(name)
		if w.doubt = name; w.ok("delete", err) {
			w.doubt = ""
			w.gone[id] = name
			delete(w.topics, name)
		}
	}
}

func alter(name string, settings ...string) act {
	return func(w *world) {
		f := w.topics[name]
		set := maps.Clone(f.configs[len(f.configs)-1])
		maps.Copy(set, config(settings...))
		f.configs = append(f.configs, set)
		level := levelOf(set)
		if f.level = min(f.level, level); !w.ok("alter", w.topic(name).Alter(config(settings...))) {
			w.doubt = name
			return
		}
		f.configs, f.level = []map[string]string{set}, level
	}
}

func addPartitions(name string, total int) act {
	return func(w *world) {
		f := w.topics[name]
		f.tried = total
		if w.ok("add partitions", w.topic(name).AddPartitions(total)) {
			f.partitions = total
		}
	}
}

// publishOne appends a record to each of the partitions and waits for it.
func publishOne(name string, times int) act {
	return func(w *world) {
		for range times {
			for i := range w.topics[name].partitions {
				w.publish(name, i, 1)
			}
		}
	}
}

// publishMany appends records without waiting, then waits for all.
func publishMany(name string, n int) act {
	return func(w *world) {
		f, topic := w.topics[name], w.topic(name)
		p := topic.Publisher(varve.PublisherOptions{Partitioner: func(key []byte, n int) int {
			i, _ := strconv.Atoi(string(key))
			return i % n
		}})
		for i := range n {
			val := w.value()
			part := f.part(i % f.partitions)
			w.mu.Lock()
			part.tries[val] = true
			w.mu.Unlock()
			rec := text("%s", val)
			rec.Key = strconv.AppendInt(nil, int64(i%f.partitions), 10)
			err := p.PublishAsync(context.Background(), rec, func(at varve.Place, err error) {
				if err == nil {
					w.entered(part, f.level, at.Offset, val)
				}
			})
			w.ok("publish", err)
		}
		w.ok("flush", p.Flush(context.Background()))
	}
}

func (w *world) value() string { return fmt.Sprintf("value-%06d", w.serial.Add(1)) }

func (w *world) publish(name string, part, n int) {
	f := w.topics[name]
	pf := f.part(part)
	var recs []varve.Record
	var vals []string
	for range n {
		val := w.value()
		vals = append(vals, val)
		recs = append(recs, text("%s", val))
		w.mu.Lock()
		pf.tries[val] = true
		w.mu.Unlock()
	}
	off, err := w.part(name, part).Publish(context.Background(), recs...)
	if w.ok("publish to "+name, err) {
		w.entered(pf, f.level, off, vals...)
	}
}

func (w *world) entered(p *partFacts, level varve.Durability, off varve.Offset, vals ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, val := range vals {
		at := off + varve.Offset(i)
		if old, ok := p.wrote[at]; ok && at < p.durable {
			w.errorf("offset %d was given to %s and to %s", at, old, val)
		}
		p.wrote[at] = val
	}
	end := off + varve.Offset(len(vals))
	if p.told = max(p.told, end); level == varve.Fsync {
		p.durable = max(p.durable, end)
	}
}

func trimTo(name string, part int, back varve.Offset) act {
	return func(w *world) {
		p, f := w.part(name, part), w.topics[name].part(part)
		to := max(p.End()-back, 0)
		f.aimed = max(f.aimed, to)
		start, err := p.Trim(to)
		if w.ok("trim", err) {
			f.start = max(f.start, start)
		}
	}
}

func runRetention(w *world) {
	for name, f := range w.topics {
		for i := range f.partitions {
			f.part(i).aimed = max(f.part(i).aimed, w.part(name, i).LogEnd())
		}
	}
	w.ok("retention", w.engine.RunRetention())
	for name, f := range w.topics {
		for i := range f.partitions {
			f.part(i).start = max(f.part(i).start, w.part(name, i).Start())
		}
	}
}

func restart(w *world) {
	if w.close() {
		w.open()
	}
}

// idle lets the janitor work, with its checkpoint.
func idle(w *world) { time.Sleep(6 * time.Second) }

func (w *world) topic(name string) *varve.Topic {
	t, err := w.engine.Topic(name)
	if err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	}
	return t
}

func (w *world) part(name string, i int) *varve.Partition {
	p, err := w.topic(name).Partition(i)
	if err != nil {
		w.t.Fatalf("%s: %v", w.name, err)
	}
	return p
}

// look notes what a reader could see by now.
func (w *world) look() {
	if w.engine == nil {
		return
	}
	for name, f := range w.topics {
		if name == w.doubt {
			continue
		}
		for i := range f.partitions {
			p, pf := w.part(name, i), f.part(i)
			if p.Err() != nil {
				continue
			}
			w.mu.Lock()
			end := p.DurableEnd()
			if f.level == varve.Fsync {
				end = max(end, p.End())
			}
			pf.durable = max(pf.durable, end)
			if st := p.Stats(); st.LogEnd > st.Start {
				pf.epoch = max(pf.epoch, int32(st.Epoch))
			}
			w.mu.Unlock()
		}
	}
}

// play runs a story, up to the power cut.
func (w *world) play(acts []act) {
	if !w.open() {
		return
	}
	for _, a := range acts {
		if w.dead.Load() {
			return
		}
		a(w)
		w.look()
	}
}

// stop ends an engine whose power is off, so that its goroutines end.
func (w *world) stop() {
	if w.engine != nil {
		w.engine.Close()
		w.engine = nil
	}
}

// check holds an engine that was opened after a crash against the facts.
func (w *world) check() {
	w.t.Helper()
	there := map[string]bool{}
	for _, t := range w.engine.Topics() {
		there[t.Name()] = true
		if name, ok := w.gone[t.ID()]; ok {
			w.errorf("topic %s was deleted and is back", name)
		}
		f := w.topics[t.Name()]
		switch {
		case f == nil && t.Name() == w.doubt:
			w.topics[t.Name()] = &topicFacts{id: t.ID(), partitions: t.Partitions(), tried: t.Partitions(), parts: map[int]*partFacts{}, level: levelNow(t)}
		case f == nil:
			w.errorf("topic %s is there and was never made", t.Name())
		default:
			w.checkTopic(t, f)
		}
	}
	for name := range w.topics {
		if !there[name] {
			if name != w.doubt {
				w.errorf("topic %s is gone", name)
			}
			delete(w.topics, name)
		}
	}
	w.doubt = ""
	if line := w.logged.first("level=ERROR"); line != "" {
		w.errorf("logged: %s", line)
	}
}

func levelNow(t *varve.Topic) varve.Durability {
	for _, c := range t.Config() {
		if c.Key == "durability" {
			level, _ := varve.ParseDurability(c.Value)
			return level
		}
	}
	return varve.Fsync
}

func (w *world) checkTopic(t *varve.Topic, f *topicFacts) {
	w.t.Helper()
	if t.ID() != f.id {
		w.errorf("topic %s has another id", t.Name())
	}
	if n := t.Partitions(); n < f.partitions || n > f.tried {
		w.errorf("topic %s has %d partitions, it had %d and was to have %d", t.Name(), n, f.partitions, f.tried)
	}
	f.partitions, f.tried = t.Partitions(), t.Partitions()
	set := map[string]string{}
	for _, c := range t.Config() {
		if !c.Default {
			set[c.Key] = c.Value
		}
	}
	if len(f.configs) > 0 && !slices.ContainsFunc(f.configs, func(c map[string]string) bool { return maps.Equal(c, set) }) {
		w.errorf("topic %s has configs %v, it was given %v", t.Name(), set, f.configs)
	}
	f.configs, f.level = []map[string]string{set}, levelNow(t)
	for i := range f.partitions {
		w.checkPartition(w.part(t.Name(), i), f.part(i))
	}
}

func (w *world) checkPartition(p *varve.Partition, f *partFacts) {
	w.t.Helper()
	name := bookName(p)
	if p.Err() != nil {
		w.errorf("%s: %v", name, p.Err())
		return
	}
	start, end := p.Start(), p.End()
	if start < f.start || start > max(f.aimed, f.start) {
		w.errorf("%s: the log start is %d, acknowledged was %d and asked for %d", name, start, f.start, f.aimed)
	}
	if end < f.durable {
		w.errorf("%s: the end is %d, everything below %d was durable", name, end, f.durable)
	}
	if p.DurableEnd() != end || p.LogEnd() != end {
		w.errorf("%s: ends differ: published %d, durable %d, log %d", name, end, p.DurableEnd(), p.LogEnd())
	}
	next := start
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			w.errorf("%s: read at %d: %v", name, next, err)
			return
		}
		val := string(rec.Value)
		if rec.Offset != next {
			w.errorf("%s: read offset %d, expected %d", name, rec.Offset, next)
		}
		if want, ok := f.wrote[rec.Offset]; val != want && (ok || !f.tries[val]) {
			w.errorf("%s: offset %d holds %s, %s was acknowledged", name, rec.Offset, val, want)
		}
		f.wrote[rec.Offset] = val
		next = rec.Offset + 1
	}
	if next != end {
		w.errorf("%s: reading ended at %d, the end is %d", name, next, end)
	}
	if epoch := int32(p.Stats().Epoch); end < f.told && epoch <= f.epoch {
		w.errorf("%s: records from %d up to %d of leader epoch %d are lost, and the epoch is %d", name, end, f.told, f.epoch, epoch)
	}
	maps.DeleteFunc(f.wrote, func(off varve.Offset, _ string) bool { return off >= end })
	f.told, f.durable = end, max(f.durable, end)
}
