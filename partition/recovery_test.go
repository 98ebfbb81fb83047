package partition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// TestKillLosesNothing ends the process at every call that changes the disk, the
// last write half done: the operating system has what was written, so that
// nothing acknowledged is lost on any level, and a power cut after the next start
// takes none of what that start showed.
func TestKillLosesNothing(t *testing.T) {
	for _, s := range stories(partition.Fsync, partition.Interval, partition.OS) {
		t.Run(fmt.Sprintf("%s at %s", s.name, s.level), func(t *testing.T) {
			_, _, total := play(trial{t, "without a kill"}, s, 0)
			for n := 1; n <= total; n += thin() {
				r, cps, _ := play(trial{t, fmt.Sprintf("killed at call %d", n)}, s, n)
				for i, cp := range cps {
					r.t = trial{t, fmt.Sprintf("killed at call %d of %d, checkpoint %d", n, total, i)}
					before := r.book
					before.durable = max(before.durable, before.told)
					left := r.after(r.disk.Clone(), cp)
					left.checkRecovered(before)
					shown := left.log.End()
					cut := left.after(left.disk.Crash(vfs.CrashOptions{}), nil)
					if cut.log.End() < shown {
						t.Errorf("the start after the kill showed offsets up to %d, a power cut left %d", shown, cut.log.End())
					}
					left.goOn()
					if t.Failed() {
						t.Fatalf("the log said:\n%s", left.logged.String())
					}
				}
			}
		})
	}
}

// state is what a log answers.
type state struct {
	start, end int64
	entries    []entry
}

func (r *rig) state() state {
	entries, err := read(r.log, r.log.Start())
	if err != nil {
		r.t.Errorf("read: %v", err)
	}
	return state{int64(r.log.Start()), int64(r.log.End()), entries}
}

func (s state) equal(o state) bool {
	return s.start == o.start && s.end == o.end && slices.Equal(s.entries, o.entries)
}

// TestRecoveryMayBeCutAnywhere cuts the power in the middle of a recovery, at
// every call that changes the disk: the next start finds the same.
func TestRecoveryMayBeCutAnywhere(t *testing.T) {
	every := 2*thin() - 1
	for _, s := range stories(partition.Fsync, partition.OS) {
		t.Run(fmt.Sprintf("%s at %s", s.name, s.level), func(t *testing.T) {
			_, _, total := play(trial{t, "without a crash"}, s, 0)
			all := cuts(2)
			for n := 1; n <= total; n += every {
				r, cps, _ := play(trial{t, fmt.Sprintf("cut at call %d", n)}, s, n)
				for i := range 3 {
					how := all[(7*n+11*i)%len(all)]
					cp := cps[(n+i)%len(cps)]
					cutRecovery(t, r, fmt.Sprintf("cut at call %d (%v)", n, how), r.disk.Crash(how), cp)
				}
			}
		})
	}
}

func cutRecovery(t *testing.T, r *rig, name string, disk *vfs.Mem, cp *partition.Checkpoint) {
	want := r.after(disk.Clone(), cp).state()
	for m := 1; ; m++ {
		left := &rig{book: r.book, t: trial{t, name}, disk: disk.Clone(), cfg: r.cfg, now: r.now, eager: true}
		calls := 0
		left.rule = func(op vfs.Op) vfs.Fault {
			if changes(op.Kind) {
				calls++
			}
			if left.dead = calls >= m; left.dead {
				return vfs.Fault{Err: errPower}
			}
			return vfs.Fault{}
		}
		left.wrote = map[offset]string{}
		left.open(cp, false)
		if !left.dead {
			return
		}
		for seed := range uint64(2) {
			how := vfs.CrashOptions{Seed: seed, Unsynced: vfs.Unsynced(m % 5), Names: vfs.Names(m / 5 % 4)}
			again := r.after(left.disk.Crash(how), cp)
			if got := again.state(); !got.equal(want) {
				t.Fatalf("%s, recovery cut at call %d (%v):\n got %v\nwant %v\n%s", name, m, how, got, want, again.logged.String())
			}
		}
	}
}

// TestHundredCrashes has the power fail a hundred times in a row on one disk: the
// directory does not grow, and nothing durable is lost on the way.
func TestHundredCrashes(t *testing.T) {
	for _, level := range []partition.Level{partition.Fsync, partition.OS} {
		t.Run(level.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(level)))
			all := cuts(2)
			r := newRig(t, small(level))
			r.eager = false
			var cp *partition.Checkpoint
			for i := range 100 {
				stop := rng.IntN(60)
				calls := 0
				r.rule = func(op vfs.Op) vfs.Fault {
					if changes(op.Kind) {
						calls++
					}
					if r.dead = r.dead || calls > stop; r.dead {
						return vfs.Fault{Err: errPower}
					}
					return vfs.Fault{}
				}
				r.open(cp, false)
				if taken := r.snapshot(); taken != nil && !r.dead { // as an engine does
					cp = taken
				}
				for range 12 {
					if r.dead {
						break
					}
					switch rng.IntN(8) {
					case 0:
						r.trim(max(r.log.End()-4, 0))
					case 1:
						if taken := r.snapshot(); taken != nil && !r.dead {
							cp = taken
						}
					case 2:
						r.sync()
					case 3:
						r.tidy()
					default:
						r.publish(1 + rng.IntN(3))
					}
				}
				disk := r.disk.Crash(all[rng.IntN(len(all))])
				before := r.book
				r.t = trial{t, fmt.Sprintf("crash %d", i)}
				r = r.after(disk, cp)
				r.checkRecovered(before)
				if t.Failed() {
					t.Fatalf("the log said:\n%s", r.logged.String())
				}
				r.trim(max(r.log.End()-6, 0))
				r.retain()
				r.high, r.told = r.log.End(), r.log.End()
				cp = r.snapshot()
				r.eager = false
			}
			// Six records are three segments at most, and the active one: three files each.
			if files := r.disk.Files(); len(files) > 20 {
				t.Errorf("%d files are there: %s", len(files), strings.Join(files, " "))
			}
			if r.disk.Used() > 20<<10 {
				t.Errorf("%d bytes are used", r.disk.Used())
			}
		})
	}
}
