package varve_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// rig is an engine on a disk in memory, with a clock that the test sets and a
// book of what was acknowledged. When the test ends the engine is closed and
// opened once more, and everything that can be read is held against the book.
type rig struct {
	t      testing.TB
	disk   *vfs.Mem
	rule   func(vfs.Op) vfs.Fault // of the next open; nil: no faults
	faulty *vfs.Faulty
	opt    varve.Options
	engine *varve.Engine
	now    atomic.Int64 // milliseconds
	logged logLines

	mu    sync.Mutex
	acked map[string]map[varve.Offset]varve.Record // by "topic/partition"
	loud  bool                                     // errors in the log are what the test is about
}

// newRig opens an engine on an empty disk.
func newRig(t testing.TB, set ...func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, disk: vfs.NewMem(), acked: map[string]map[varve.Offset]varve.Record{}}
	r.now.Store(time.Now().UnixMilli())
	for _, f := range set {
		f(r)
	}
	r.opt.JournalBytes = smallJournal
	r.opt.Logger = slog.New(slog.NewTextHandler(&r.logged, nil))
	r.opt.Clock = func() time.Time { return time.UnixMilli(r.now.Load()) }
	r.open()
	t.Cleanup(r.verify)
	return r
}

// smallJournal is of four small files: they are written whole before they are used.
const smallJournal = 256 << 10

// syncsRecords says that an operation is the sync that records wait for.
func syncsRecords(op vfs.Op) bool {
	return op.Kind == vfs.OpSync && (strings.HasSuffix(op.Name, ".log") || strings.HasSuffix(op.Name, ".wal"))
}

// background gives background work (not checkpoints) no reason to run by itself.
func background(r *rig) { r.opt.RetentionInterval = 1000 * time.Hour }

func (r *rig) open() {
	r.t.Helper()
	r.faulty = vfs.NewFaulty(r.disk, r.rule)
	e, err := varve.OpenFS(r.faulty, r.opt)
	if err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.engine = e
}

func (r *rig) close() {
	r.t.Helper()
	if r.engine == nil {
		return
	}
	if err := r.engine.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	r.engine = nil
}

// reopen is a clean stop and a start.
func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

// kill ends the engine as SIGKILL does, and starts another on what it left.
func (r *rig) kill() {
	r.t.Helper()
	left := r.disk.Clone()
	r.close()
	r.disk = left
	r.open()
}

// cut ends the engine by a power cut, and starts another on what it left.
func (r *rig) cut(o vfs.CrashOptions) {
	r.t.Helper()
	left := r.disk.Crash(o)
	r.close()
	r.disk = left
	r.open()
}

func (r *rig) advance(d time.Duration) { r.now.Add(d.Milliseconds()) }

func (r *rig) retain() {
	r.t.Helper()
	if err := r.engine.RunRetention(); err != nil {
		r.t.Errorf("retention: %v", err)
	}
}

// topic returns a topic, which is made with settings of the form key=value
// where there is none.
func (r *rig) topic(name string, partitions int, settings ...string) *varve.Topic {
	r.t.Helper()
	topic, err := r.engine.EnsureTopic(name, varve.TopicConfig{Partitions: partitions, Config: config(settings...)})
	if err != nil {
		r.t.Fatal(err)
	}
	return topic
}

func config(settings ...string) map[string]string {
	m := map[string]string{}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		m[key] = value
	}
	return m
}

// part is a partition of a topic that is there.
func (r *rig) part(topic string, i int) *varve.Partition {
	r.t.Helper()
	tp, err := r.engine.Topic(topic)
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := tp.Partition(i)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// one makes a topic of one partition.
func (r *rig) one(settings ...string) *varve.Partition {
	r.t.Helper()
	r.topic("t", 1, settings...)
	return r.part("t", 0)
}

func bookName(p *varve.Partition) string { return fmt.Sprintf("%s/%d", p.Topic().Name(), p.Index()) }

// publish publishes one batch and enters it in the book.
func (r *rig) publish(p *varve.Partition, recs ...varve.Record) varve.Offset {
	r.t.Helper()
	off, err := p.Publish(context.Background(), recs...)
	if err != nil {
		r.t.Fatalf("publish: %v", err)
	}
	r.note(p, off, recs...)
	return off
}

// note enters records that were acknowledged with the first offset off. An offset
// that was acknowledged before is an error here.
func (r *rig) note(p *varve.Partition, off varve.Offset, recs ...varve.Record) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	book := r.acked[bookName(p)]
	if book == nil {
		book = map[varve.Offset]varve.Record{}
		r.acked[bookName(p)] = book
	}
	for i, rec := range recs {
		at := off + varve.Offset(i)
		if old, ok := book[at]; ok {
			r.t.Errorf("%s: offset %d was given to %.20q and to %.20q", bookName(p), at, old.Value, rec.Value)
		}
		rec.Offset, rec.Partition = at, p.Index()
		book[at] = rec
	}
}

// forget takes a topic that was deleted out of the book.
func (r *rig) forget(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.acked, func(name string, _ map[varve.Offset]varve.Record) bool {
		return strings.HasPrefix(name, topic+"/")
	})
}

// verify opens the engine once more and reads everything. Close it, if the test
// broke it on purpose, before the end.
func (r *rig) verify() {
	if r.t.Failed() {
		if r.engine != nil {
			go r.engine.Close() // it may be what hangs
		}
		return
	}
	r.rule = nil
	r.close()
	r.open()
	for _, topic := range r.engine.Topics() {
		for i := range topic.Partitions() {
			r.verifyPartition(r.part(topic.Name(), i))
		}
	}
	for name := range r.acked {
		topic, _, _ := strings.Cut(name, "/")
		if _, err := r.engine.Topic(topic); err != nil {
			r.t.Errorf("records were acknowledged in %s: %v", name, err)
		}
	}
	r.close()
	r.verifyFiles()
	if line := r.logged.first("level=ERROR"); line != "" && !r.loud {
		r.t.Errorf("logged: %s", line)
	}
}

// verifyFiles looks for what was left behind: indexes without a log, files that
// were to be renamed, topics half made or half deleted.
func (r *rig) verifyFiles() {
	files := r.disk.Files()
	for _, name := range files {
		base := strings.TrimSuffix(strings.TrimSuffix(name, ".timeindex"), ".index")
		if base != name && !slices.Contains(files, base+".log") {
			r.t.Errorf("%s is left without a log", name)
		}
		if strings.HasSuffix(name, ".tmp") || strings.Contains(name, "~") {
			r.t.Errorf("%s is left over", name)
		}
	}
}

func (r *rig) verifyPartition(p *varve.Partition) {
	book := r.acked[bookName(p)]
	start, end, next := p.Start(), p.End(), p.Start()
	for rec, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			if !r.loud {
				r.t.Errorf("%s: read at %d: %v", bookName(p), next, err)
			}
			return
		}
		if rec.Offset != next {
			r.t.Errorf("%s: read offset %d, expected %d", bookName(p), rec.Offset, next)
		}
		next = rec.Offset + 1
		if want, ok := book[rec.Offset]; ok {
			sameRecord(r.t, rec, want)
		} else {
			r.t.Errorf("%s: offset %d holds %.20q, which was never acknowledged", bookName(p), rec.Offset, rec.Value)
		}
	}
	if next != end {
		r.t.Errorf("%s: reading ended at %d, the end is %d", bookName(p), next, end)
	}
	for off := range book {
		if off >= end {
			r.t.Errorf("%s: offset %d was acknowledged and the end is %d (start %d)", bookName(p), off, end, start)
			return
		}
	}
}

// sameRecord compares all that a publisher gave. A timestamp of 0 was left to
// the log.
func sameRecord(t testing.TB, got, want varve.Record) {
	t.Helper()
	if want.Timestamp == 0 {
		want.Timestamp = got.Timestamp
	}
	if !equalRecords(got, want) {
		t.Errorf("offset %d of partition %d: read %s, published %s", got.Offset, got.Partition, recordText(got), recordText(want))
	}
}

func equalRecords(a, b varve.Record) bool {
	return a.Partition == b.Partition && a.Offset == b.Offset && a.Timestamp == b.Timestamp &&
		equalBytes(a.Key, b.Key) && equalBytes(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y varve.Header) bool {
			return x.Key == y.Key && equalBytes(x.Value, y.Value)
		})
}

// equalBytes tells null from empty.
func equalBytes(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func recordText(r varve.Record) string {
	return fmt.Sprintf("{offset %d time %d key %.30q (nil %t) value %.30q of %d (nil %t) headers %d}",
		r.Offset, r.Timestamp, r.Key, r.Key == nil, r.Value, len(r.Value), r.Value == nil, len(r.Headers))
}

// collect reads an iteration that should meet no error.
func collect(t testing.TB, seq func(func(varve.Record, error) bool)) []varve.Record {
	t.Helper()
	var recs []varve.Record
	for rec, err := range seq {
		if err != nil {
			t.Fatalf("after %d records: %v", len(recs), err)
		}
		recs = append(recs, rec)
	}
	return recs
}

// text is a record with a value and no timestamp of its own.
func text(format string, args ...any) varve.Record {
	return varve.Record{Value: fmt.Appendf(nil, format, args...)}
}

// dated is a record with a timestamp, in milliseconds.
func dated(ts int64, format string, args ...any) varve.Record {
	rec := text(format, args...)
	rec.Timestamp = ts
	return rec
}

// noise is bytes that do not compress, the same for the same seed.
func noise(seed, n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// logLines keeps what was logged.
type logLines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// first is the first line that contains s.
func (l *logLines) first(s string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, s) {
			return line
		}
	}
	return ""
}

// silent is a logger for what is not looked at.
func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
