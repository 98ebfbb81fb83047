package partition_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// tailRig is a log of level fsync with one batch in its segment, the rounds of which the
// test makes. refuse has writes of segments fail.
func tailRig(t *testing.T) (r *rig, refuse *bool) {
	refuse = new(bool)
	r = newRig(t, small(partition.Fsync), func(r *rig) {
		r.cfg.SegmentBytes = 1 << 20
		r.rule = func(op vfs.Op) vfs.Fault {
			if *refuse && op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{Err: syscall.EIO, Short: 7}
			}
			return vfs.Fault{}
		}
	})
	r.publish(1)
	r.eager = false
	return r, refuse
}

// logLen is how long the log files are.
func logLen(r *rig) (n int) {
	for _, name := range r.disk.Files() {
		if data, err := r.disk.ReadFile(name); err == nil && strings.HasSuffix(name, ".log") {
			n += len(data)
		}
	}
	return n
}

// journaled begins a round as the journal does: it has the bytes.
func journaled(t *testing.T, r *rig) *partition.Round {
	t.Helper()
	round := r.log.BeginRound()
	for i := range round.Ranges {
		g := &round.Ranges[i]
		check(t, g.Read(make([]byte, g.To-g.From)))
	}
	return round
}

// What waits for a round is in no file before, whoever needs the files whole has it there,
// and nobody is told or shown anything that is not.
func TestTailIsStored(t *testing.T) {
	ways := map[string]func(*rig){
		"the end of a round": func(r *rig) { r.log.BeginRound().End(nil) },
		"beside a round":     func(r *rig) { round := r.log.BeginRound(); check(t, r.log.Store()); round.End(nil) },
		"a round of files":   func(r *rig) { check(t, r.log.SyncRound()) },
		"a roll": func(r *rig) {
			r.cfg.SegmentAge, r.now = time.Second, r.now+1e6
			check(t, r.log.Configure(r.cfg))
			check(t, r.log.RollIfDue())
		},
		"a checkpoint":   func(r *rig) { r.snapshot() },
		"a weaker level": func(r *rig) { check(t, r.log.Configure(small(partition.OS))) },
		"a weaker ack":   func(r *rig) { r.publish(1, func(a *partition.Append) { a.Ack = partition.OS }) },
		"much":           func(r *rig) { r.publish(1, func(a *partition.Append) { a.Records[0].Value = make([]byte, 100<<10) }) },
		"a stop":         func(r *rig) { _, err := r.log.Close(); check(t, err) },
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			r, _ := tailRig(t)
			before := logLen(r)
			s := r.publish(3)
			if have := logLen(r); have != before || s.told || r.log.End() != 1 {
				t.Fatalf("the files have %d bytes, had %d; told: %v; the end is %d", have, before, s.told, r.log.End())
			}
			way(r)
			have := logLen(r)
			if have <= before {
				t.Errorf("the files have %d bytes, as before", have)
			}
			if left := r.after(r.disk.Clone(), nil); left.log.LogEnd() < 4 {
				t.Errorf("after a kill the log ends at %d", left.log.LogEnd())
			}
		})
	}
}

// A file refuses what the journal has: who waited is told that it may have been stored,
// who came beside the round that nothing was, nothing is appended until the file takes it,
// and then it is there.
func TestTailThatIsRefused(t *testing.T) {
	r, refuse := tailRig(t)
	before := logLen(r)
	had := r.publish(2)
	round := journaled(t, r)
	beside := r.publish(3)
	*refuse = true
	round.End(nil)
	r.collect(false)
	if !had.told || !errors.Is(had.Err, syscall.EIO) || !maybeStored(had.Err) || errors.Is(had.Err, partition.ErrReadOnly) {
		t.Errorf("who waited was told %v: %v", had.told, had.Err)
	}
	if !beside.told || !errors.Is(beside.Err, syscall.EIO) || maybeStored(beside.Err) {
		t.Errorf("who came beside the round was told %v: %v", beside.told, beside.Err)
	}
	if r.log.LogEnd() != 3 || r.log.End() != 1 || logLen(r) != before {
		t.Errorf("the log ends at %d, for readers at %d, and has %d bytes, had %d", r.log.LogEnd(), r.log.End(), logLen(r), before)
	}
	if s := r.publish(1); !s.told || !errors.Is(s.Err, syscall.EIO) || maybeStored(s.Err) || r.log.LogEnd() != 3 {
		t.Errorf("a publish behind it: %v, the log ends at %d", s.Err, r.log.LogEnd())
	}
	ctx, cancel := context.WithCancel(context.Background())
	rounds := make(chan struct{})
	go func() {
		defer close(rounds)
		for n := 0; ctx.Err() == nil; n++ {
			if r.log.BeginRound().End(nil); n == 10000 {
				cancel() // it waits for nothing
			}
		}
	}()
	if err := r.log.WaitDurable(ctx, 3); !errors.Is(err, syscall.EIO) {
		t.Errorf("a wait for it: %v", err)
	}
	cancel()
	<-rounds
	if _, err := r.log.Snapshot(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a checkpoint: %v", err)
	}
	*refuse = false
	r.enter(had)
	if s := r.publish(1); s.Err != nil || s.Base != 3 {
		t.Errorf("a publish when the file takes it: offset %d (%v)", s.Base, s.Err)
	}
	check(t, r.log.SyncRound())
	check(t, r.log.WaitDurable(context.Background(), 4))
	r.collect(false)
	r.verify()
}

// A stop that cannot store what the journal has needs the journal at the next start.
func TestTailThatIsRefusedUntilTheStop(t *testing.T) {
	r, refuse := tailRig(t)
	r.publish(2)
	*refuse = true
	journaled(t, r).End(nil)
	if _, err := r.log.Close(); !errors.Is(err, partition.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
		t.Errorf("a stop: %v", err)
	}
}
