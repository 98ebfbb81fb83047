package partition_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

var errPower = errors.New("the power is off")

// story is a program of steps on one log. snapshot and restart leave checkpoints
// behind, any of which may be the one that the next start finds.
type story struct {
	name  string
	level partition.Level
	lazy  bool // journal and runner are worked on by steps alone
	steps []step
}

type step func(r *rig) *partition.Checkpoint

func publish(n int) step {
	return func(r *rig) *partition.Checkpoint { r.publish(n); return nil }
}

func (s step) times(n int) step {
	return func(r *rig) (cp *partition.Checkpoint) {
		for range n {
			if r.dead {
				return cp
			}
			cp = s(r)
		}
		return cp
	}
}

func do(f func(r *rig)) step {
	return func(r *rig) *partition.Checkpoint { f(r); return nil }
}

var (
	syncNow  = do((*rig).sync)
	tidyNow  = do((*rig).tidy)
	snapshot = step((*rig).snapshot)
	restart  = step((*rig).restart)
)

// trimBack trims to n offsets before the end.
func trimBack(n int) step {
	return do(func(r *rig) { r.trim(max(r.log.End()-record.Offset(n), 0)) })
}

// level changes the level. The stronger one of the two is kept on disk when the
// log has kept to it for the last time, or before it does: as the engine does it.
func level(l partition.Level) step {
	return do(func(r *rig) {
		cfg := r.cfg
		cfg.Level = l
		if l < r.cfg.Level {
			r.cfg = cfg
		}
		r.settled = false
		r.settled = r.allow("configure", r.log.Configure(cfg))
		if r.settled {
			r.cfg = cfg
		}
		r.collect(true)
		r.step()
	})
}

// rollByAge lets the active segment become due.
var rollByAge = do(func(r *rig) {
	r.now += 2 * r.cfg.SegmentAge.Milliseconds()
	r.allow("roll", r.log.RollIfDue())
	r.step()
})

// expire lets retention by age take all there is.
var expire = do(func(r *rig) {
	r.cfg.RetentionAge = 0
	r.now += 2 * r.cfg.SegmentAge.Milliseconds()
	r.allow("configure", r.log.Configure(r.cfg))
	r.retain()
	r.cfg.RetentionAge = -1
	r.allow("configure", r.log.Configure(r.cfg))
})

func stories(levels ...partition.Level) (all []story) {
	for _, l := range levels {
		all = append(all,
			story{"one by one", l, false, []step{publish(1).times(8), snapshot, publish(2).times(4)}},
			story{"pipelined", l, true, []step{
				publish(1).times(2), syncNow, publish(2), publish(1).times(4), tidyNow, publish(1).times(3), syncNow,
				publish(1).times(5), snapshot, publish(1).times(4), tidyNow, publish(1), syncNow, publish(1).times(2),
			}},
			story{"queued", l, true, []step{
				do(func(r *rig) {
					for range 6 {
						r.enqueue(2)
					}
					r.drain()
				}), publish(1), tidyNow, syncNow, publish(1).times(3), syncNow, tidyNow,
			}},
			story{"trim", l, false, []step{
				publish(1).times(7), trimBack(3), publish(1).times(3), trimBack(0), publish(2), snapshot, trimBack(1), publish(1).times(3),
			}},
			story{"retain", l, false, []step{
				publish(1).times(7), expire, publish(1).times(4), snapshot, publish(1).times(3), expire, publish(1),
			}},
			story{"roll by age", l, false, []step{
				publish(1), rollByAge, rollByAge, publish(1), rollByAge, snapshot, publish(1), rollByAge, publish(1),
			}},
			story{"clean stops", l, false, []step{
				publish(1).times(4), restart, publish(1).times(2), restart, restart, rollByAge, restart, trimBack(2), restart, publish(1).times(4),
			}},
		)
	}
	return append(all, story{"levels", partition.OS, true, []step{
		publish(1).times(5), level(partition.Fsync), publish(1).times(2), syncNow, tidyNow, publish(2),
		level(partition.OS), publish(1).times(4), snapshot, publish(1).times(4), level(partition.Interval), publish(1),
		level(partition.Fsync), syncNow, publish(1),
	}})
}

// play runs a story until the power goes off at the nth call that changes the
// disk (0: never). It returns the rig and the checkpoints that were durable.
func play(t tb, s story, n int) (*rig, []*partition.Checkpoint, int) {
	calls := 0
	r := newRig(t, small(s.level), func(r *rig) {
		r.eager = !s.lazy
		r.rule = func(op vfs.Op) vfs.Fault {
			if changes(op.Kind) {
				calls++
			}
			if r.dead {
				return vfs.Fault{Err: errPower}
			}
			if r.dead = n > 0 && calls >= n; r.dead { // a write gets half-way
				return vfs.Fault{Err: errPower, Short: op.Len / 2}
			}
			return vfs.Fault{}
		}
	})
	cps := []*partition.Checkpoint{nil}
	for _, f := range s.steps {
		if r.dead {
			break
		}
		cp := f(r)
		if !r.dead && n == 0 {
			r.verify()
		}
		if cp != nil && !r.dead {
			cps = append(cps, cp)
		}
	}
	return r, cps, calls
}

func changes(k vfs.OpKind) bool {
	switch k {
	case vfs.OpOpen, vfs.OpRead, vfs.OpMap, vfs.OpReadDir, vfs.OpClose, vfs.OpStat, vfs.OpLock:
		return false
	}
	return true
}

// cuts are the ways in which a power cut treats what was not synced.
func cuts(seeds int) (all []vfs.CrashOptions) {
	for u := vfs.UnsyncedLost; u <= vfs.UnsyncedKept; u++ {
		for n := vfs.NamesLost; n <= vfs.NamesKept; n++ {
			random := u == vfs.UnsyncedPrefix || u == vfs.UnsyncedSectors || u == vfs.UnsyncedPages ||
				n == vfs.NamesJournaled || n == vfs.NamesRandom
			for seed := range seeds {
				if seed == 0 || random {
					all = append(all, vfs.CrashOptions{Seed: uint64(seed), Unsynced: u, Names: n})
				}
			}
		}
	}
	return all
}

// after is the rig on a disk that a crash left, opened from a checkpoint.
func (r *rig) after(disk *vfs.Mem, cp *partition.Checkpoint) *rig {
	n := &rig{book: r.book, t: r.t, disk: disk, cfg: r.cfg, now: r.now, eager: true}
	n.wrote = maps.Clone(r.wrote)
	n.open(cp, false)
	return n
}

// checkRecovered holds a log that was opened after a power cut against the book.
func (r *rig) checkRecovered(before book) {
	r.t.Helper()
	start, end := r.log.Start(), r.log.End()
	switch {
	case end < before.durable:
		r.t.Errorf("the end is %d, everything below %d was durable", end, before.durable)
	case end > max(before.high, before.start):
		r.t.Errorf("the end is %d, nothing was written from %d on", end, before.high)
	case start < before.start:
		r.t.Errorf("the log start is %d, it was %d", start, before.start)
	case start > before.tried:
		r.t.Errorf("the log start is %d, nothing was asked for above %d", start, before.tried)
	case r.log.LogEnd() != end || r.log.DurableEnd() != end:
		r.t.Errorf("ends differ: published %d, log %d, durable %d", end, r.log.LogEnd(), r.log.DurableEnd())
	}
	if epoch := r.log.Stats().Epoch; epoch <= before.epoch {
		r.t.Errorf("leader epoch is %d after a crash, %d was seen before", epoch, before.epoch)
	}
	for _, line := range r.logged.with("level=ERROR") {
		r.t.Errorf("logged: %s", line)
	}
	r.noOrphans()
	r.verify()
}

// noOrphans sees that every index is that of a log file.
func (r *rig) noOrphans() {
	r.t.Helper()
	for _, f := range r.disk.Files() {
		if ext := path.Ext(f); ext == ".index" || ext == ".timeindex" {
			if _, err := r.disk.Stat(strings.TrimSuffix(f, ext) + ".log"); err != nil {
				r.t.Errorf("%s is left without its log file", f)
			}
		}
	}
}

// goOn publishes after a recovery and has the power fail once more: a start makes
// what it found as durable as what is published behind it.
func (r *rig) goOn() {
	r.t.Helper()
	end := r.log.End()
	r.high, r.told = end, end
	for range 2 {
		s := r.publish(1, func(a *partition.Append) { a.Ack = partition.Fsync })
		if !s.told || s.Err != nil || s.Base != end {
			r.t.Fatalf("first append after recovery: told %t, offset %d, error %v; the end is %d", s.told, s.Base, s.Err, end)
		}
		end++
	}
	r.verify()
	before := r.book
	again := r.after(r.disk.Crash(vfs.CrashOptions{}), nil)
	if again.log.End() < end {
		r.t.Errorf("acknowledged after a recovery up to %d, and lost by the next power cut: the end is %d", end, again.log.End())
	}
	again.checkRecovered(before)
}

// trial names one crash in messages.
type trial struct {
	tb
	what string
}

func (t trial) Errorf(format string, args ...any) {
	t.Helper()
	t.tb.Errorf("%s: %s", t.what, fmt.Sprintf(format, args...))
}

func (t trial) Fatalf(format string, args ...any) {
	t.Helper()
	t.tb.Fatalf("%s: %s", t.what, fmt.Sprintf(format, args...))
}

func (t trial) Logf(string, ...any) {}

// TestAcknowledgedSurvivesEveryCrash cuts the power at every call that changes the
// disk, in every way of losing what was not synced, and opens what is left: what
// was acknowledged or seen is there, nothing else is, and the log goes on.
func TestAcknowledgedSurvivesEveryCrash(t *testing.T) {
	crashEverywhere(t, stories(partition.Fsync))
}

// TestWeakLevelsLoseASuffix does the same where an acknowledgement does not wait
// for the disk: what is lost is a suffix of what was written, never a hole, what
// was synced stays, and the leader epoch tells.
func TestWeakLevelsLoseASuffix(t *testing.T) {
	crashEverywhere(t, stories(partition.OS, partition.Interval))
}

func crashEverywhere(t *testing.T, all []story) {
	seeds := 3
	if thin() > 1 {
		seeds = 1
	}
	for _, s := range all {
		t.Run(fmt.Sprintf("%s at %s", s.name, s.level), func(t *testing.T) {
			_, _, total := play(trial{t, "without a crash"}, s, 0)
			trials := 0
			for n := 1; n <= total; n += thin() {
				r, cps, _ := play(trial{t, fmt.Sprintf("cut at call %d", n)}, s, n)
				for i, how := range cuts(seeds) {
					name := fmt.Sprintf("cut at call %d of %d, %s, names %s, seed %d", n, total, how.Unsynced, how.Names, how.Seed)
					r.t = trial{t, name}
					left := r.after(r.disk.Crash(how), cps[(n+i)%len(cps)])
					left.checkRecovered(r.book)
					left.goOn()
					trials++
					if t.Failed() {
						t.Fatalf("the log said:\n%s", left.logged.String())
					}
				}
			}
			t.Logf("%d crashes", trials)
		})
	}
}
