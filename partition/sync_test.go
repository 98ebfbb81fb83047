package partition_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// TestFailedSyncIsFinal fails one sync: of the active segment, of a rolled one, of
// the directory. Everybody who waits and everybody who comes later is told
// ErrReadOnly with the cause, though the disk says yes to every later sync; what was
// published stays readable; and what was acknowledged before is there after the next
// start, and after a power cut that follows that start.
func TestFailedSyncIsFinal(t *testing.T) {
	isLog := func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") }
	isDir := func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir && op.Name == dir }
	for name, c := range map[string]struct {
		hit  func(vfs.Op) bool
		drop bool // the pages that were not written are taken for clean
		do   func(r *rig)
	}{
		"active":                 {isLog, false, func(r *rig) { r.sync() }},
		"active, pages dropped":  {isLog, true, func(r *rig) { r.sync() }},
		"rolled":                 {isLog, false, func(r *rig) { rollByAge(r); r.tidy(); r.sync() }},
		"rolled, pages dropped":  {isLog, true, func(r *rig) { rollByAge(r); r.tidy(); r.sync() }},
		"before a new segment":   {isLog, true, func(r *rig) { rollByAge(r); r.publish(1); r.sync() }},
		"directory":              {isDir, false, func(r *rig) { rollByAge(r); r.publish(1); r.sync() }},
		"directory, by the tidy": {isDir, false, func(r *rig) { rollByAge(r); r.publish(1); r.tidy(); r.sync() }},
		"checkpoint":             {isLog, true, func(r *rig) { r.log.Snapshot(); r.sync() }},
		"clean stop":             {isLog, true, func(r *rig) { r.log.Close(); r.collect(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			armed, failed := false, 0
			r := newRig(t, small(partition.Fsync), func(r *rig) {
				r.eager = false
				r.rule = func(op vfs.Op) vfs.Fault {
					if !armed || !c.hit(op) || failed > 0 {
						return vfs.Fault{}
					}
					failed++
					return vfs.Fault{Err: syscall.EIO, DropOnSyncFail: c.drop}
				}
			})
			r.t = silentErrors{t}
			for range 4 {
				r.publish(1)
				r.sync()
			}
			r.tidy()
			end := r.log.End()
			waiting := []*sent{r.publish(1), r.publish(1)}
			armed = true
			c.do(r)
			if failed != 1 {
				t.Fatal("the sync that was to fail was not made")
			}
			told := 0
			for _, s := range waiting {
				switch {
				case !s.told:
					t.Error("who waited was never told")
				case s.Err == nil: // the round covered what was not hit
					told++
				case !errors.Is(s.Err, partition.ErrReadOnly) || !errors.Is(s.Err, syscall.EIO) || !maybeStored(s.Err):
					t.Errorf("who waited is told %v", s.Err)
				}
			}
			if name != "clean stop" {
				for range 3 {
					s := r.publish(1)
					r.sync()
					if !errors.Is(s.Err, partition.ErrReadOnly) || !errors.Is(s.Err, syscall.EIO) {
						t.Errorf("who comes later is told %v", s.Err)
					}
				}
				if err := r.log.SyncRound(); !errors.Is(err, partition.ErrReadOnly) {
					t.Errorf("a later sync says %v", err)
				}
				if _, err := r.log.Snapshot(); !errors.Is(err, partition.ErrReadOnly) && !errors.Is(err, syscall.EIO) {
					t.Errorf("a checkpoint says %v", err)
				}
				if got, err := read(r.log, 0); err != nil || len(got) != int(r.log.End()) {
					t.Errorf("reading gives %d records (%v), the end is %d", len(got), err, r.log.End())
				}
				if r.log.End() < end || told == 0 && name != "directory" && r.log.End() != end {
					t.Errorf("the end is %d, it was %d when the sync failed", r.log.End(), end)
				}
			}
			if lines := r.logged.with("level=ERROR", "read-only"); len(lines) != 1 {
				t.Errorf("the log says %s", r.logged.String())
			}
			before := r.book
			left := r.after(r.disk.Clone(), nil) // the process starts again on the same machine
			left.t = t
			left.checkRecovered(before)
			shown := left.log.End()
			cut := left.after(left.disk.Crash(vfs.CrashOptions{}), nil)
			if cut.log.End() < shown {
				t.Errorf("the start showed offsets up to %d, a power cut after it left %d", shown, cut.log.End())
			}
			cut.checkRecovered(left.book)
			left.goOn()
		})
	}
}

// silentErrors takes what a rig complains of for what a test is about.
type silentErrors struct{ tb }

func (t silentErrors) Errorf(format string, args ...any) { t.Logf(format, args...) }

// Nobody is told that a record is durable before the name of its file is: also when
// somebody else is just about to make it so. The sync of a directory by the tidying
// goroutine is held up, and an append to the new file waits for its own.
func TestAcknowledgedMeansTheNameToo(t *testing.T) {
	gate := make(chan struct{})
	held := make(chan struct{})
	var armed atomic.Bool
	var names atomic.Int64
	r := newRig(t, small(partition.Fsync), func(r *rig) {
		r.eager = false
		r.rule = func(op vfs.Op) vfs.Fault {
			if op.Kind != vfs.OpSyncDir || op.Name != dir {
				return vfs.Fault{}
			}
			names.Add(1)
			if armed.CompareAndSwap(true, false) {
				close(held)
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}
	})
	r.publish(1)
	r.sync()
	rollByAge(r)
	first := r.publish(1) // into a file whose name nobody has synced
	armed.Store(true)
	done := make(chan error)
	go func() { done <- r.log.Tidy() }()
	select {
	case <-held:
	case err := <-done:
		t.Fatalf("the tidying goroutine synced no name: %v", err)
	}
	r.sync()
	if first.told {
		lost := r.after(r.disk.Crash(vfs.CrashOptions{}), nil)
		if lost.log.End() < 2 {
			t.Errorf("acknowledged up to 2, and a power cut leaves %d", lost.log.End())
		}
	}
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestReadersSeeOnlyDurableRecords looks at a log of level fsync in every way while
// records are written and not synced: nobody sees them, not by reading, not by the
// ends, not by time, not by being woken; the level at which the publisher is told
// changes nothing of that. After the sync everybody does.
func TestReadersSeeOnlyDurableRecords(t *testing.T) {
	for _, ack := range []partition.Level{partition.LevelDefault, partition.OS, partition.Interval, partition.Fsync} {
		t.Run(fmt.Sprint(ack), func(t *testing.T) {
			cfg := small(partition.Fsync)
			cfg.SegmentBytes = 1 << 20
			r := newRig(t, cfg, func(r *rig) { r.eager = false })
			r.publish(2)
			r.sync()
			w := partition.NewWaiter()
			if !r.log.Park(w, 2) {
				t.Fatal("there is something behind the end")
			}
			var c partition.Cursor
			if chunk, err := r.log.Read(nil, 1<<20, 0, &c); err != nil || chunk.Next != 2 {
				t.Fatalf("reading gives up to %d (%v)", chunk.Next, err)
			}
			hidden := func() {
				t.Helper()
				if r.log.End() != 2 || r.log.DurableEnd() != 2 {
					t.Errorf("the ends are %d and %d", r.log.End(), r.log.DurableEnd())
				}
				for _, cur := range []partition.Cursor{{}, c} { // afresh, and from where a reader stands
					if chunk, err := r.log.Read(nil, 1<<20, 2, &cur); err != nil || len(chunk.Data) != 0 {
						t.Errorf("reading at the end gives %d bytes (%v)", len(chunk.Data), err)
					}
				}
				cur := partition.Cursor{}
				if chunk, err := r.log.Read(nil, 1<<20, 0, &cur); err != nil || chunk.Next != 2 {
					t.Errorf("reading from the start goes up to %d (%v)", chunk.Next, err)
				}
				var out *partition.OutOfRangeError
				if _, err := r.log.Read(nil, 1<<20, 3, &cur); !errors.As(err, &out) || out.End != 2 {
					t.Errorf("reading behind the end gives %v", err)
				}
				if off, found, err := r.log.FindTime(1002, 0); err != nil || found {
					t.Errorf("the time of a record that is not durable is found at %d (%v)", off, err)
				}
				if _, err := r.log.Trim(3); !errors.As(err, &out) {
					t.Errorf("trimming behind the end gives %v", err)
				}
				if st := r.log.Stats(); st.End != 2 || st.DurableEnd != 2 {
					t.Errorf("stats say %+v", st)
				}
				select {
				case <-w.C:
					t.Error("a reader at the tail was woken")
				default:
				}
			}
			var reqs []*sent
			for range 5 {
				s := r.publish(3, func(a *partition.Append) { a.Ack = ack })
				reqs = append(reqs, s)
				if told := s.told && s.Err == nil; told != (ack == partition.OS || ack == partition.Interval) {
					t.Errorf("told is %t", told)
				}
				hidden()
			}
			rollByAge(r)
			r.tidy() // makes a rolled segment durable, and publishes nothing
			hidden()
			r.sync()
			for _, s := range reqs {
				if !s.told || s.Err != nil {
					t.Errorf("after the sync told is %t: %v", s.told, s.Err)
				}
			}
			select {
			case <-w.C:
			default:
				t.Error("a reader at the tail was not woken")
			}
			if r.log.End() != 17 || r.log.DurableEnd() != 17 {
				t.Errorf("the ends are %d and %d", r.log.End(), r.log.DurableEnd())
			}
			r.verify()
			if off, found, err := r.log.FindTime(1002, 0); err != nil || !found || off != 4 {
				t.Errorf("the time is found at %d, %t, %v", off, found, err)
			}
		})
	}
}

// A change of level brings the published end to where the new level has it, and a
// change to fsync that fails makes nobody believe in it.
func TestChangeOfLevelMovesTheEnd(t *testing.T) {
	r := newRig(t, small(partition.Fsync), func(r *rig) { r.eager = false })
	for range 2 {
		r.publish(1)
	}
	if r.log.End() != 0 {
		t.Fatalf("the end is %d", r.log.End())
	}
	weak := r.cfg
	weak.Level = partition.OS
	check(t, r.log.Configure(weak))
	if r.log.End() != r.log.LogEnd() || r.log.DurableEnd() == r.log.LogEnd() {
		t.Errorf("at os the ends are %d, %d, %d", r.log.End(), r.log.LogEnd(), r.log.DurableEnd())
	}
	r.verify()
	check(t, r.log.Configure(r.cfg))
	r.collect(false)
	if end := r.log.LogEnd(); r.log.End() != end || r.log.DurableEnd() != end {
		t.Errorf("at fsync the ends are %d, %d, %d", r.log.End(), end, r.log.DurableEnd())
	}
	left := r.after(r.disk.Crash(vfs.CrashOptions{}), nil)
	if left.log.End() != r.log.End() {
		t.Errorf("a power cut leaves %d", left.log.End())
	}
}

// A level that changes while an append waits for the sync of the segment in front
// counts for that append: what readers may see, they can read.
func TestLevelMayChangeInTheMiddleOfAnAppend(t *testing.T) {
	for _, to := range []partition.Level{partition.OS, partition.Interval} {
		var armed func()
		cfg := small(partition.Fsync)
		cfg.SegmentBytes = 64
		r := newRig(t, cfg, func(r *rig) {
			r.eager = false
			r.rule = func(op vfs.Op) vfs.Fault {
				if armed != nil && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
					f := armed
					armed = nil
					f()
				}
				return vfs.Fault{}
			}
		})
		weak := r.cfg
		weak.Level = to
		r.publish(1)
		r.publish(1)
		armed = func() { check(t, r.log.Configure(weak)) }
		r.publish(1) // in a new segment
		if armed != nil {
			t.Fatal("the append waited for no sync")
		}
		for range 3 {
			r.publish(1)
			if r.log.End() != r.log.LogEnd() {
				t.Errorf("%s: the ends are %d and %d", to, r.log.End(), r.log.LogEnd())
			}
			if entries, err := read(r.log, 0); err != nil || len(entries) != int(r.log.End()) {
				t.Errorf("%s: %d records of %d (%v)", to, len(entries), r.log.End(), err)
			}
		}
	}
}

// A wait for the disk that fails gives the reason, whoever came first: the wait or the
// failure.
func TestWaitThatFailsGivesTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		r := newRig(t, small(partition.Fsync), func(r *rig) {
			r.eager = false
			r.rule = func(op vfs.Op) vfs.Fault {
				if failing && op.Kind == vfs.OpSync {
					return vfs.Fault{Err: syscall.EIO}
				}
				return vfs.Fault{}
			}
		})
		r.publish(1)
		r.sync()
		r.publish(1)
		early := make(chan error, 1)
		go func() { early <- r.log.WaitDurable(context.Background(), 2) }()
		synctest.Wait()
		failing = true
		r.sync()
		for who, err := range map[string]error{"came before": <-early, "comes after": r.log.WaitDurable(context.Background(), 2)} {
			if !errors.Is(err, partition.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
				t.Errorf("who %s the failure is told %v", who, err)
			}
		}
		if err := r.log.WaitDurable(context.Background(), 1); err != nil {
			t.Errorf("what was durable before is waited for: %v", err)
		}
	})
}

// The clock may go back, and what waits for the next flush of level interval does not
// wait until it is there again.
func TestFlushComesThoughTheClockWentBack(t *testing.T) {
	r := newRig(t, small(partition.Interval), func(r *rig) { r.eager = false })
	for i, step := range []time.Duration{time.Second, -time.Hour, -time.Millisecond, time.Second} {
		r.now += step.Milliseconds()
		r.publish(1)
		r.log.FlushIfDue()
		r.sync()
		if end := r.log.DurableEnd(); end != offset(i+1) {
			t.Errorf("after a step of %s everything below %d is durable, of %d", step, end, i+1)
		}
	}
	r.publish(1)
	if r.log.FlushIfDue(); r.commits > 0 {
		t.Error("a flush comes in the millisecond of the last one")
	}
}

// Retention takes nothing that a publisher still waits for: not of the active segment,
// not of one that was rolled. What was synced since goes at the next pass.
func TestRetentionSparesWhatWaits(t *testing.T) {
	for name, meanwhile := range map[string]step{"active": do(func(*rig) {}), "rolled": rollByAge} {
		cfg := small(partition.Fsync)
		cfg.RetentionAge = 0
		r := newRig(t, cfg, func(r *rig) { r.eager = false })
		r.publish(2)
		r.sync()
		r.now += time.Hour.Milliseconds()
		s := r.publish(3)
		meanwhile(r)
		r.now += time.Hour.Milliseconds()
		r.retain()
		if r.collect(false); r.log.Start() > 2 || r.log.DurableEnd() != 2 || s.told {
			t.Errorf("%s: a pass leaves [%d, %d), durable up to %d, and told is %t", name, r.log.Start(), r.log.LogEnd(), r.log.DurableEnd(), s.told)
		}
		r.sync()
		r.retain()
		if r.log.Start() != 5 || !s.told || s.Err != nil {
			t.Errorf("%s: the next one leaves [%d, %d), and told is %t: %v", name, r.log.Start(), r.log.LogEnd(), s.told, s.Err)
		}
	}
}

// A waiter that calls is called once for each time that it was parked, when the end has
// moved, and not where it was taken back.
func TestWakeFunc(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	woken := 0
	w := partition.WakeFunc(func() { woken++ })
	for _, want := range []int{1, 1, 2} {
		if want > woken && !r.log.Park(w, r.log.End()) {
			t.Fatal("there is something behind the end")
		}
		r.publish(1)
		if woken != want {
			t.Errorf("woken %d times, want %d", woken, want)
		}
	}
	r.log.Park(w, r.log.End())
	r.log.Unpark(w)
	r.publish(1)
	if woken != 2 {
		t.Error("woken after it was taken back")
	}
}
