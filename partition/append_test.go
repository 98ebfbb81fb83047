package partition_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// batchOf is a finished batch with a record for each value.
func batchOf(codec record.Codec, vals ...string) *record.Batch {
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{Codec: codec})
	for i, v := range vals {
		b.Add(int64(1000+i), nil, []byte(v), nil)
	}
	batch, err := record.Parse(b.Finish())
	if err != nil {
		panic(err)
	}
	return &batch
}

// finished turns a request into one of a finished batch.
func finished(a *partition.Append) {
	vals := make([]string, len(a.Records))
	for i := range a.Records {
		vals[i] = string(a.Records[i].Value)
	}
	a.Batch, a.Records = batchOf(record.None, vals...), nil
}

func expecting(next offset) func(*partition.Append) {
	return func(a *partition.Append) { a.Expect = next }
}

// TestFailedAppendLeavesNothing fails a write after every number of bytes, for one
// request, for several that share a write, for finished batches, and for those that
// roll: nothing of what failed is there, now or after a start, the next record gets
// the offset that it would have had, and what was written before stays.
func TestFailedAppendLeavesNothing(t *testing.T) {
	shapes := map[string]func(r *rig) []*sent{
		"one":      func(r *rig) []*sent { return []*sent{r.enqueue(2)} },
		"several":  func(r *rig) []*sent { return []*sent{r.enqueue(1), r.enqueue(1), r.enqueue(2)} },
		"finished": func(r *rig) []*sent { return []*sent{r.enqueue(1, finished), r.enqueue(2), r.enqueue(2, finished)} },
		"codecs": func(r *rig) []*sent {
			zstd := func(a *partition.Append) { a.Codec = record.Zstd }
			return []*sent{r.enqueue(1), r.enqueue(3, zstd), r.enqueue(1)}
		},
	}
	for name, shape := range shapes {
		for _, level := range []partition.Level{partition.Fsync, partition.OS} {
			t.Run(fmt.Sprintf("%s at %s", name, level), func(t *testing.T) {
				for short := 0; ; short++ {
					failed, wrote := failAppend(t, shape, level, short)
					if t.Failed() || (!failed && short > wrote) {
						break
					}
				}
			})
		}
	}
}

func failAppend(t *testing.T, shape func(*rig) []*sent, level partition.Level, short int) (failed bool, wrote int) {
	armed := false
	r := newRig(t, small(level), func(r *rig) {
		r.cfg.SegmentBytes = 1000
		r.rule = func(op vfs.Op) vfs.Fault {
			if !armed || op.Kind != vfs.OpWrite || !strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{}
			}
			armed = false
			if wrote = op.Len; short >= op.Len {
				return vfs.Fault{}
			}
			return vfs.Fault{Err: syscall.ENOSPC, Short: short}
		}
	})
	r.publish(3)
	armed, r.full = true, true
	reqs := shape(r)
	r.drain()
	r.step()
	for _, s := range reqs {
		if !s.told {
			t.Fatalf("%d bytes: a request was never told", short)
		}
		if s.Err != nil {
			failed = true
			if !errors.Is(s.Err, syscall.ENOSPC) || errors.Is(s.Err, partition.ErrReadOnly) {
				t.Fatalf("%d bytes: error is %v", short, s.Err)
			}
		} else if failed {
			t.Fatalf("%d bytes: a request was stored behind one that was not", short)
		}
	}
	if failed != (short < wrote) {
		t.Fatalf("%d of %d bytes were written and failed is %t", short, wrote, failed)
	}
	r.verify()
	want := r.high
	if s := r.publish(1); s.Err != nil || s.Base != want {
		t.Fatalf("%d bytes: the next record got offset %d (%v), expected %d", short, s.Base, s.Err, want)
	}
	r.verify()
	for _, disk := range []*vfs.Mem{r.disk.Clone(), r.disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})} {
		left := r.after(disk, nil)
		left.verify()
		if left.log.End() != r.high {
			t.Fatalf("%d bytes: after a start the end is %d, expected %d", short, left.log.End(), r.high)
		}
		if lines := left.logged.with("level"); len(lines) > 0 {
			t.Fatalf("%d bytes: the start found something to say: %v", short, lines)
		}
	}
	return failed, wrote
}

// A write that fails and cannot be cut back ends the appends: what was published
// stays readable, and the next start finds it and nothing else.
func TestFailedCutBackIsFinal(t *testing.T) {
	armed := false
	r := newRig(t, small(partition.Fsync), func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if !armed || !strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{}
			}
			switch op.Kind {
			case vfs.OpWrite:
				return vfs.Fault{Err: syscall.EIO, Short: op.Len / 2}
			case vfs.OpTruncate:
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	r.publish(2)
	armed = true
	if s := r.publish(1); !errors.Is(s.Err, syscall.EIO) || !maybeStored(s.Err) {
		t.Errorf("error is %v", s.Err)
	}
	armed = false
	for range 2 {
		s := r.publish(1)
		if !errors.Is(s.Err, partition.ErrReadOnly) || !errors.Is(s.Err, syscall.EIO) || maybeStored(s.Err) {
			t.Errorf("a later append gets %v", s.Err)
		}
	}
	if !errors.Is(r.log.Failed(), partition.ErrReadOnly) {
		t.Errorf("the log says %v", r.log.Failed())
	}
	r.verify()
	left := r.after(r.disk.Clone(), nil)
	left.verify()
	if left.log.End() != 2 {
		t.Errorf("the end is %d", left.log.End())
	}
	if s := left.publish(1); s.Err != nil || s.Base != 2 {
		t.Errorf("the next start appends at %d: %v", s.Base, s.Err)
	}
}

func maybeStored(err error) bool {
	var m *partition.MaybeStoredError
	return errors.As(err, &m)
}

// A batch that a failing disk took whole, and could not be cut back, is there after
// the next start: whoever appended it was told that it may be.
func TestAppendLeftBehindMayBeStored(t *testing.T) {
	armed := false
	r := newRig(t, small(partition.Fsync), func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if !armed || !strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{}
			}
			switch op.Kind {
			case vfs.OpWrite:
				return vfs.Fault{Err: syscall.EIO, Short: op.Len}
			case vfs.OpTruncate:
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	r.publish(2)
	armed = true
	if s := r.publish(1); !maybeStored(s.Err) {
		t.Errorf("error is %v", s.Err)
	}
	armed = false
	if left := r.after(r.disk.Clone(), nil); left.log.End() != 3 {
		t.Errorf("the end is %d, of 3 records in the file", left.log.End())
	}
}

// A condition is held against the offset that the record would get, whatever
// becomes of the requests that share the write.
func TestConditionIsOnTheTrueOffset(t *testing.T) {
	large := func(a *partition.Append) {
		a.Records = recordsOf([]string{strings.Repeat("x", 2000)})
		a.Size = 3000
	}
	zstd := func(a *partition.Append) { a.Codec = record.Zstd }
	for name, c := range map[string]struct {
		second func(*partition.Append)
		expect offset
		fits   bool
	}{
		"records, true":                  {func(*partition.Append) {}, 1, true},
		"records, as if it were stored":  {func(*partition.Append) {}, 2, false},
		"another codec, true":            {zstd, 1, true},
		"another codec, as if":           {zstd, 2, false},
		"a finished batch, true":         {finished, 1, true},
		"a finished batch, as if":        {finished, 2, false},
		"records, behind the end":        {func(*partition.Append) {}, 7, false},
		"a finished batch, before":       {finished, 0, false},
		"records, the very first offset": {func(*partition.Append) {}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, small(partition.Fsync), func(r *rig) { r.cfg.MaxBatchBytes = 1000 })
			r.publish(1)
			refused := r.enqueue(1, large)
			second := r.enqueue(1, c.second, expecting(c.expect))
			r.drain()
			r.step()
			var tooLarge *partition.TooLargeError
			if !errors.As(refused.Err, &tooLarge) || tooLarge.Limit != 1000 {
				t.Errorf("the large one is %v", refused.Err)
			}
			var conflict *partition.ConflictError
			switch {
			case c.fits && (second.Err != nil || second.Base != c.expect):
				t.Errorf("got offset %d (%v), expected %d", second.Base, second.Err, c.expect)
			case !c.fits && (!errors.As(second.Err, &conflict) || conflict.Expected != c.expect || conflict.Next != 1):
				t.Errorf("got offset %d and error %v", second.Base, second.Err)
			}
			r.verify()
		})
	}
}

// Of several conditional requests in one write one wins, and the losers are told
// the next offset.
func TestOneConditionWins(t *testing.T) {
	r := newRig(t, small(partition.Fsync))
	var reqs []*sent
	for range 5 {
		reqs = append(reqs, r.enqueue(1, expecting(0)))
	}
	r.drain()
	r.step()
	won := 0
	for _, s := range reqs {
		var conflict *partition.ConflictError
		switch {
		case s.Err == nil && s.Base == 0:
			won++
		case !errors.As(s.Err, &conflict) || conflict.Next != 1:
			t.Errorf("a loser is told %v", s.Err)
		}
	}
	if won != 1 {
		t.Errorf("%d won", won)
	}
	r.verify()
}

// TestOffsetsAreNeverReused takes the records away in every way there is and
// appends again: no offset that was acknowledged is given to another record.
func TestOffsetsAreNeverReused(t *testing.T) {
	newest := func(r *rig) string {
		var logs []string
		for _, f := range r.disk.Files() {
			if data, err := r.disk.ReadFile(f); err == nil && strings.HasSuffix(f, ".log") && len(data) > 0 {
				logs = append(logs, f)
			}
		}
		return slices.Max(logs)
	}
	ways := map[string]func(r *rig){
		"nothing happens":  func(r *rig) {},
		"trimmed away":     func(r *rig) { r.trim(r.log.End()) },
		"expired":          func(r *rig) { expire(r) },
		"newest removed":   func(r *rig) { check(r.t, r.disk.Remove(newest(r))) },
		"newest emptied":   func(r *rig) { check(r.t, r.disk.Truncate(newest(r), 0)) },
		"newest cut":       func(r *rig) { check(r.t, r.disk.Truncate(newest(r), 100)) },
		"newest zeroed":    func(r *rig) { f := newest(r); check(r.t, r.disk.WriteFile(f, make([]byte, 160))) },
		"all removed":      func(r *rig) { removeAll(r) },
		"directory gone":   func(r *rig) { check(r.t, r.disk.RemoveAll(dir)) },
		"newest lost bits": func(r *rig) { check(r.t, r.disk.FlipBit(newest(r), 8*70)) },
	}
	for name, way := range ways {
		for _, stop := range []string{"clean", "killed", "cut", "killed, no checkpoint"} {
			for _, records := range []int{2, 3, 8, 9} { // the active segment empty, new, older
				t.Run(fmt.Sprintf("%s, %s, %d records", name, stop, records), func(t *testing.T) {
					r := newRig(t, small(partition.Fsync))
					for range records {
						r.publish(1)
					}
					if records == 3 {
						rollByAge(r)
					}
					if name == "trimmed away" || name == "expired" {
						way(r)
					}
					cp := r.snapshot()
					end := r.log.End()
					if stop == "clean" {
						last, err := r.log.Close()
						check(t, err)
						cp = &last
					}
					if name != "trimmed away" && name != "expired" {
						way(r)
					}
					if stop == "killed, no checkpoint" {
						if records != 3 || name == "directory gone" {
							return // the seals say how far a log went, where all of it is sealed
						}
						cp = nil
					}
					disk := r.disk.Clone()
					if stop == "cut" {
						disk = r.disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
					}
					left := &rig{book: r.book, t: t, disk: disk, cfg: r.cfg, now: r.now, eager: true}
					left.open(cp, stop == "clean")
					if left.log.End() < end || left.log.LogEnd() < end {
						t.Errorf("the end is %d, it was %d", left.log.End(), end)
					}
					for i := range 4 {
						if s := left.publish(1); s.Err != nil || s.Base != end+offset(i) {
							t.Errorf("got offset %d (%v), expected %d", s.Base, s.Err, end+offset(i))
						}
					}
					got, err := read(left.log, end)
					if err != nil || len(got) != 4 {
						t.Errorf("reading from %d gives %v (%v)", end, got, err)
					}
				})
			}
		}
	}
}

func removeAll(r *rig) {
	for _, f := range r.disk.Files() {
		if strings.HasSuffix(f, ".log") {
			check(r.t, r.disk.Remove(f))
		}
	}
}

func check(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
