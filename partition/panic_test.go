package partition_test

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// fragile is a log of which the callbacks panic when a test wants it. All of it runs in
// one goroutine: what a panic leaves locked is met as a deadlock.
type fragile struct {
	*partition.Log
	t      *testing.T
	drains int // asked for and not done

	clock bool   // panics
	line  string // the Logger panics over, "" for none
}

// staff is its journal and its runner.
type staff struct{ *fragile }

func (s staff) Commit(*partition.Log)         {}
func (s staff) Settle(l *partition.Log) error { return l.SyncRound() }
func (s staff) Drain(*partition.Log)          { s.drains++ }
func (s staff) Tidy(*partition.Log)           {}

func (f *fragile) Write(line []byte) (int, error) {
	if f.line != "" && strings.Contains(string(line), f.line) {
		panic("logger")
	}
	return len(line), nil
}

func newFragile(t *testing.T, fsys vfs.FS, level partition.Level) *fragile {
	f := &fragile{t: t}
	check(t, partition.Create(fsys, dir))
	log, err := partition.Open(partition.Env{
		FS: fsys, Files: segment.NewFiles(8), Journal: staff{f}, Runner: staff{f},
		Logger: slog.New(slog.NewTextHandler(f, nil)),
		Now: func() int64 {
			if f.clock {
				panic("clock")
			}
			return 1_700_000_000_000
		},
	}, "t/0", dir, small(level), &partition.Checkpoint{}, nil, new(partition.Claimed))
	check(t, err)
	f.Log = log
	return f
}

// told is a request, and how often it was told.
type told struct {
	partition.Append
	times int
}

func (f *fragile) request(done func()) *told {
	a := &told{}
	a.Records, a.Size, a.Expect = recordsOf([]string{"value"}), record.BatchOverhead+100, -1
	a.Done = func(*partition.Append) {
		a.times++
		if done != nil {
			done()
		}
	}
	return a
}

// recovered is what a call panics with.
func recovered(call func()) (v any) {
	defer func() { v = recover() }()
	call()
	return nil
}

// serves finds out that appends are taken, and get the next offset.
func (f *fragile) serves(want record.Offset) {
	f.t.Helper()
	f.drain()
	a := f.request(nil)
	f.Append(&a.Append)
	check(f.t, f.SyncRound())
	if a.times != 1 || a.Err != nil || a.Base != want {
		f.t.Errorf("an append after it was told %d times: offset %d, %v", a.times, a.Base, a.Err)
	}
	if _, err := f.Close(); err != nil {
		f.t.Error(err)
	}
}

func (f *fragile) drain() {
	for ; f.drains > 0; f.drains-- {
		f.Drain()
	}
}

// A Done that panics goes on to who works on the queue; the others are told, what
// comes meanwhile is served, and a log that is closed ends.
func TestPanicOfDoneStopsNobody(t *testing.T) {
	for _, level := range []partition.Level{partition.OS, partition.Fsync} {
		f := newFragile(t, vfs.NewMem(), level)
		var list []*told
		late := f.request(nil)
		for i := range 4 {
			a := f.request(nil)
			if i%2 == 1 {
				a = f.request(func() {
					if i == 1 {
						f.Enqueue(&late.Append)
					}
					panic("done")
				})
			}
			f.Enqueue(&a.Append)
			list = append(list, a)
		}
		f.drains = 0
		got := recovered(f.Drain)
		if level == partition.Fsync {
			got = recovered(func() { f.SyncRound() })
		}
		if got != "done" {
			t.Errorf("%s: it recovered %v", level, got)
		}
		for i, a := range list {
			if a.times != 1 || a.Err != nil || a.Base != record.Offset(i) {
				t.Errorf("%s: request %d was told %d times: offset %d, %v", level, i, a.times, a.Base, a.Err)
			}
		}
		f.serves(5)
		if late.times != 1 || late.Err != nil {
			t.Errorf("%s: one that came meanwhile was told %d times: %v", level, late.times, late.Err)
		}
	}
}

// Where the clock panics, nothing is stored of what waits, and that is said.
func TestPanicOfTheClockStoresNothing(t *testing.T) {
	f := newFragile(t, vfs.NewMem(), partition.OS)
	a, b := f.request(nil), f.request(nil)
	f.Enqueue(&a.Append)
	f.Enqueue(&b.Append)
	f.clock, f.drains = true, 0
	if got := recovered(f.Drain); got != "clock" {
		t.Errorf("it recovered %v", got)
	}
	f.clock = false
	for _, r := range []*told{a, b} {
		maybe := new(partition.MaybeStoredError)
		if r.times != 1 || !errors.Is(r.Err, partition.ErrPanicked) || errors.As(r.Err, &maybe) {
			t.Errorf("told %d times: %v", r.times, r.Err)
		}
	}
	f.serves(0)
}

// A Logger that panics, whatever the line, leaves nothing locked and nobody waiting.
func TestPanicOfTheLoggerHangsNobody(t *testing.T) {
	t.Run("leader epochs", func(t *testing.T) {
		f := newFragile(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpCreate && strings.Contains(op.Name, "leader-epoch") {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}), partition.OS)
		f.line = "cannot write the leader epochs"
		a := f.request(nil)
		if got := recovered(func() { f.Append(&a.Append) }); got != "logger" {
			t.Errorf("it recovered %v", got)
		}
		if a.times != 1 || a.Err != nil || f.End() != 1 {
			t.Errorf("told %d times: %v; the end is %d", a.times, a.Err, f.End())
		}
		f.line = ""
		f.serves(1)
	})
	for _, kind := range []vfs.OpKind{vfs.OpSync, vfs.OpTruncate} {
		t.Run(kind.String(), func(t *testing.T) {
			failing := false
			f := newFragile(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
				if failing && (op.Kind == kind || kind == vfs.OpTruncate && op.Kind == vfs.OpWrite) && strings.HasSuffix(op.Name, ".log") {
					return vfs.Fault{Err: syscall.EIO, Short: 10}
				}
				return vfs.Fault{}
			}), partition.Fsync)
			f.line, failing = "read-only", true
			a, b := f.request(nil), f.request(nil)
			f.Enqueue(&a.Append)
			f.Enqueue(&b.Append)
			f.drains = 0
			got := recovered(f.Drain)
			if kind == vfs.OpSync {
				got = recovered(func() { f.SyncRound() })
			}
			if got != "logger" {
				t.Errorf("it recovered %v", got)
			}
			for _, r := range []*told{a, b} {
				maybe := new(partition.MaybeStoredError)
				if r.times != 1 || !errors.As(r.Err, &maybe) {
					t.Errorf("told %d times: %v", r.times, r.Err)
				}
			}
			c := f.request(nil)
			f.drain()
			f.Append(&c.Append)
			if c.times != 1 || !errors.Is(c.Err, partition.ErrReadOnly) {
				t.Errorf("an append after it was told %d times: %v", c.times, c.Err)
			}
			if _, err := f.Close(); !errors.Is(err, partition.ErrReadOnly) {
				t.Errorf("close: %v", err)
			}
		})
	}
}
