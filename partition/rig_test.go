package partition_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// thin is how many steps tests that try every one of many cases make at once: the
// race detector finds nothing in one goroutine, and -short is to be short.
func thin() int {
	switch {
	case raceEnabled:
		return 17
	case testing.Short():
		return 5
	}
	return 1
}

const dir = "p" // of the log, in the file system

// rig drives one log on a disk in memory, in one goroutine. What the log asks of
// its journal and its runner is noted and done when the test says so (sync, tidy,
// drain), or after every step where it is eager.
type rig struct {
	book
	t      tb
	disk   *vfs.Mem
	rule   func(vfs.Op) vfs.Fault // nil: no faults
	cfg    partition.Config
	now    int64 // milliseconds
	eager  bool
	log    *partition.Log
	flight []*sent
	logged lines

	commits, drains, tidies int           // asked for and not done
	full                    bool          // the disk may be full: work that is tried again may fail
	settled                 bool          // no change of level is under way
	opened                  record.Offset // log end when it was opened
	dead                    bool          // the power is off: every call to the disk fails
	onCommit                func()        // as soon as a round is asked for
}

// book is what the log must, may and must not hold.
type book struct {
	wrote   map[record.Offset]string // last written there, acknowledged or not
	high    record.Offset            // end of that
	told    record.Offset            // end of what was acknowledged at any level
	durable record.Offset            // end of what is promised to survive a power cut
	start   record.Offset            // acknowledged log start
	tried   record.Offset            // log start that was asked for
	epoch   record.Epoch             // highest that anybody may have seen
	serial  int                      // makes values unique
}

// sent is one request on its way.
type sent struct {
	partition.Append
	vals   []string
	level  partition.Level // at which it is acknowledged
	queued bool            // not drained yet
	told   bool
}

func newRig(t tb, cfg partition.Config, set ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, disk: vfs.NewMem(), cfg: cfg, now: 1_700_000_000_000, eager: true}
	r.wrote = map[record.Offset]string{}
	for _, f := range set {
		f(r)
	}
	if err := errors.Join(partition.Create(r.disk, dir), r.disk.SyncDir(".")); err != nil {
		t.Fatalf("%v", err)
	}
	r.open(&partition.Checkpoint{}, true)
	return r
}

// small is a configuration of about three records a segment.
func small(level partition.Level) partition.Config {
	return partition.Config{
		Level: level, FlushInterval: time.Second, SegmentBytes: 300, SegmentAge: time.Hour,
		RetentionAge: -1, RetentionBytes: -1, MaxBatchBytes: 1 << 20,
	}
}

// open opens the log on the disk as it is. The name of the directory is durable.
func (r *rig) open(cp *partition.Checkpoint, clean bool) {
	r.t.Helper()
	if err := r.tryOpen(cp, clean); err != nil && !r.dead {
		r.t.Fatalf("open: %v\n%s", err, r.logged.String())
	}
}

func (r *rig) tryOpen(cp *partition.Checkpoint, clean bool) error {
	r.flight, r.commits, r.drains, r.tidies = nil, 0, 0, 0
	var fsys vfs.FS = r.disk
	if r.rule != nil {
		fsys = vfs.NewFaulty(r.disk, func(op vfs.Op) vfs.Fault { return r.rule(op) })
	}
	env := partition.Env{
		FS: fsys, Files: segment.NewFiles(64), Journal: (*hand)(r), Runner: (*hand)(r),
		Logger: slog.New(slog.NewTextHandler(&r.logged, nil)), Now: func() int64 { return r.now },
	}
	var claimed *partition.Claimed
	if clean {
		var err error
		if claimed, err = partition.Claim(env, "t/0", dir, cp, partition.Left{Stop: partition.Clean}); err != nil {
			return err
		}
	}
	log, err := partition.Open(env, "t/0", dir, r.cfg, cp, nil, claimed)
	if err != nil {
		return err
	}
	r.log, r.settled, r.opened = log, true, log.LogEnd()
	r.step()
	return nil
}

// hand is the rig as journal and runner.
type hand rig

func (h *hand) Commit(*partition.Log) {
	h.commits++
	if h.onCommit != nil {
		h.onCommit()
	}
}
func (h *hand) Drain(*partition.Log)          { h.drains++ }
func (h *hand) Settle(l *partition.Log) error { return l.SyncRound() }
func (h *hand) Tidy(*partition.Log)           { h.tidies++ }

// step ends every step of a test.
func (r *rig) step() {
	if r.eager {
		r.drain()
		r.sync()
		r.tidy()
	}
	r.observe()
}

func (r *rig) drain() {
	for ; r.drains > 0; r.drains-- {
		r.log.Drain()
	}
	r.collect(true)
}

func (r *rig) sync() {
	if r.commits > 0 {
		r.commits = 0
		err := r.log.SyncRound()
		if refused := r.full && errors.Is(err, syscall.ENOSPC); r.log.Failed() == nil && !refused { // who waits was told
			r.allow("sync", err)
		}
	}
	r.collect(false)
}

func (r *rig) tidy() {
	if r.tidies > 0 {
		r.tidies = 0
		if err := r.log.Tidy(); !r.full || !errors.Is(err, syscall.ENOSPC) {
			r.allow("tidy", err)
		}
	}
}

// allow takes an error for what it should be, the power that is off.
func (r *rig) allow(what string, err error) bool {
	r.t.Helper()
	if err != nil && !r.dead {
		r.t.Errorf("%s: %v", what, err)
	}
	return err == nil
}

// observe notes what a reader could have seen by now.
func (r *rig) observe() {
	if r.log == nil {
		return
	}
	end := r.log.DurableEnd()
	if r.settled && r.log.Config().Level == partition.Fsync {
		end = max(end, r.log.End())
	}
	r.durable = max(r.durable, end)
	if r.log.LogEnd() > r.opened {
		r.epoch = max(r.epoch, r.log.Stats().Epoch)
	}
}

// value is one that no other record has.
func (r *rig) value() string {
	r.serial++
	return fmt.Sprintf("value-%06d", r.serial)
}

func (r *rig) values(n int) []string {
	vals := make([]string, n)
	for i := range vals {
		vals[i] = r.value()
	}
	return vals
}

// send hands n records to the log as one request, changed by set.
func (r *rig) send(n int, set ...func(*partition.Append)) *sent {
	s := &sent{vals: r.values(n), level: r.cfg.Level, queued: true}
	s.Expect = -1
	s.Records, s.Size = recordsOf(s.vals), record.BatchOverhead
	for i := range s.Records {
		s.Size += 64 + len(s.Records[i].Value)
	}
	for _, f := range set {
		f(&s.Append)
	}
	if s.Ack != partition.LevelDefault {
		s.level = s.Ack
	}
	s.Done = func(*partition.Append) {
		if s.told {
			r.t.Errorf("done was called twice")
		}
		s.told = true
	}
	r.flight = append(r.flight, s)
	return s
}

func recordsOf(vals []string) []record.Record {
	recs := make([]record.Record, len(vals))
	for i, v := range vals {
		recs[i] = record.Record{Timestamp: int64(1000 + i), Value: []byte(v)}
	}
	return recs
}

// publish appends n records and works on the queue at once.
func (r *rig) publish(n int, set ...func(*partition.Append)) *sent {
	s := r.send(n, set...)
	r.log.Append(&s.Append)
	r.collect(true)
	r.step()
	return s
}

// enqueue appends n records when the queue is drained.
func (r *rig) enqueue(n int, set ...func(*partition.Append)) *sent {
	s := r.send(n, set...)
	r.log.Enqueue(&s.Append)
	return s
}

// collect enters in the book what became of requests.
func (r *rig) collect(drained bool) {
	rest := r.flight[:0]
	for _, s := range r.flight {
		if drained && r.drains == 0 {
			s.queued = false
		}
		if s.queued && !s.told {
			rest = append(rest, s)
			continue
		}
		if s.Err == nil {
			r.enter(s)
		} else {
			r.strike(s)
		}
		if !s.told {
			rest = append(rest, s)
		}
	}
	r.flight = rest
}

func (r *rig) enter(s *sent) {
	for i, v := range s.vals {
		off := s.Base + record.Offset(i)
		if old, ok := r.wrote[off]; ok && old != v && off < r.told {
			r.t.Errorf("offset %d was given to %s and now to %s", off, old, v)
		}
		r.wrote[off] = v
	}
	end := s.Base + record.Offset(len(s.vals))
	r.high = max(r.high, end)
	if s.told {
		r.told = max(r.told, end)
		if s.level == partition.Fsync {
			r.durable = max(r.durable, end)
		}
	}
}

// strike takes out of the book what was entered and then refused.
func (r *rig) strike(s *sent) {
	for i, v := range s.vals {
		if off := s.Base + record.Offset(i); !maybeStored(s.Err) && r.wrote[off] == v {
			delete(r.wrote, off)
			r.high = min(r.high, s.Base)
		}
	}
}

// trim asks for a log start.
func (r *rig) trim(before record.Offset) {
	r.tried = max(r.tried, before)
	start, err := r.log.Trim(before)
	if r.allow("trim", err) {
		r.start = max(r.start, start)
	}
	r.step()
}

func (r *rig) retain() {
	r.tried = max(r.tried, r.log.End())
	_, err := r.log.Retain()
	r.allow("retain", err)
	r.start = max(r.start, r.log.Start())
	r.step()
}

func (r *rig) snapshot() *partition.Checkpoint {
	cp, err := r.log.Snapshot()
	ok := r.allow("snapshot", err)
	r.collect(false)
	r.step()
	if !ok {
		return nil
	}
	return &cp
}

// restart is a clean stop and a start.
func (r *rig) restart() *partition.Checkpoint {
	r.t.Helper()
	cp, err := r.log.Close()
	r.collect(true)
	r.observe()
	if !r.allow("close", err) {
		return nil
	}
	r.open(&cp, true)
	return &cp
}

// entry is one record that was read.
type entry struct {
	off   record.Offset
	val   string
	epoch record.Epoch
}

// read reads from an offset to the published end.
func read(l *partition.Log, from record.Offset) ([]entry, error) {
	var out []entry
	var c partition.Cursor
	for {
		chunk, err := l.Read(nil, 4096, from, &c)
		if err != nil || len(chunk.Data) == 0 {
			return out, err
		}
		entries, err := decode(chunk.Data)
		if err != nil {
			return out, err
		}
		for _, e := range entries {
			if e.off >= from {
				out = append(out, e)
			}
		}
		from = chunk.Next
	}
}

func decode(data []byte) (out []entry, err error) {
	for len(data) > 0 {
		b, err := record.Parse(data)
		if err != nil {
			return out, err
		}
		payload, err := b.Payload(nil, 0)
		if err != nil {
			return out, err
		}
		it := b.Records(payload)
		for rec := (record.Record{}); it.Next(&rec); {
			out = append(out, entry{rec.Offset, string(rec.Value), b.LeaderEpoch})
		}
		if it.Err() != nil {
			return out, it.Err()
		}
		data = data[b.Size():]
	}
	return out, nil
}

// verify reads everything and holds it against the book.
func (r *rig) verify() {
	r.t.Helper()
	if r.log == nil {
		return
	}
	from, end := r.log.Start(), r.log.End()
	entries, err := read(r.log, from)
	if err != nil {
		r.t.Errorf("read after %d records from %d: %v", len(entries), from, err)
	}
	for _, e := range entries {
		if e.off != from {
			r.t.Errorf("read offset %d, expected %d", e.off, from)
		}
		if want := r.wrote[e.off]; e.val != want {
			r.t.Errorf("offset %d holds %q, %q was written", e.off, e.val, want)
		}
		r.epoch = max(r.epoch, e.epoch)
		from = e.off + 1
	}
	if from != end && err == nil {
		r.t.Errorf("reading ended at %d, the end is %d", from, end)
	}
}

// lines keeps what was logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// with lists the lines that contain all of the words.
func (l *lines) with(words ...string) (found []string) {
next:
	for line := range strings.Lines(l.String()) {
		for _, w := range words {
			if !strings.Contains(line, w) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

type offset = record.Offset
