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
	"github.com/varvelog/varve/record"
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

// cutShort ends a round of which the journal has what the file refused, as far as that the
// journal is to take it back.
func cutShort(t *testing.T, r *rig, round *partition.Round, next record.Offset) {
	t.Helper()
	if round.End(nil) {
		t.Fatal("the round is over, and what the file refused is in the journal")
	}
	size := record.Pos(logLen(r))
	if len(round.Ranges) != 1 || round.Ranges[0].From != size || round.Ranges[0].To != size || round.Next != next {
		t.Errorf("the log is to end at %+v, offset %d; the file has %d bytes", round.Ranges, round.Next, size)
	}
}

// refused says that a request was told that nothing of it is stored.
func refused(t *testing.T, what string, s *sent) {
	t.Helper()
	if !s.told || !errors.Is(s.Err, syscall.EIO) || maybeStored(s.Err) || errors.Is(s.Err, partition.ErrReadOnly) {
		t.Errorf("%s: told %v: %v", what, s.told, s.Err)
	}
}

// A file refuses what the journal has, and the journal takes it back: nobody is told before
// that, nothing is appended or rolled and a checkpoint ends in front of it; then all are told that
// nothing is stored, and the next publish has the offset.
func TestTailThatIsRefused(t *testing.T) {
	r, refuse := tailRig(t)
	before := logLen(r)
	had := r.publish(2)
	round := journaled(t, r)
	beside := r.publish(3)
	*refuse = true
	cutShort(t, r, round, 1)
	*refuse = false
	if had.told || beside.told || r.log.LogEnd() != 6 {
		t.Errorf("told %v and %v, and the log ends at %d, before the journal has taken it back", had.told, beside.told, r.log.LogEnd())
	}
	meanwhile := r.publish(1)
	refused(t, "a publish meanwhile", meanwhile)
	weak := r.publish(1, func(a *partition.Append) { a.Ack = partition.OS })
	refused(t, "one that waits for no journal", weak)
	if cp, err := r.log.Snapshot(); err != nil || cp.Active.Next != 1 {
		t.Errorf("a checkpoint ends at %d (%v)", cp.Active.Next, err)
	}
	aged := r.cfg
	aged.SegmentAge = time.Second
	check(t, r.log.Configure(aged))
	r.now += 1e6
	if err := r.log.RollIfDue(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a roll: %v", err)
	}
	check(t, r.log.Configure(r.cfg))
	waited := make(chan error)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.onCommit = func() {
		r.onCommit = cancel // it waits on, for nothing
		waited <- nil
	}
	go func() { waited <- r.log.WaitDurable(ctx, 3) }()
	<-waited
	if !round.End(nil) {
		t.Error("the round goes on behind what was taken back")
	}
	if err := <-waited; !errors.Is(err, syscall.EIO) {
		t.Errorf("a wait for it: %v", err)
	}
	r.onCommit = nil
	r.collect(false)
	refused(t, "who waited", had)
	refused(t, "who came beside the round", beside)
	if r.log.LogEnd() != 1 || r.log.End() != 1 || r.log.DurableEnd() != 1 || logLen(r) != before {
		t.Errorf("the log ends at %d, for readers at %d, and has %d bytes, had %d", r.log.LogEnd(), r.log.End(), logLen(r), before)
	}
	again := r.publish(1)
	journaled(t, r).End(nil)
	r.collect(false)
	if !again.told || again.Err != nil || again.Base != 1 {
		t.Errorf("a publish behind it: told %v, offset %d (%v)", again.told, again.Base, again.Err)
	}
	r.verify()
	r.after(r.disk.Clone(), nil).verify()
}

// As long as the disk refuses, each publish fails; then the next one has the offset.
func TestTailThatIsRefusedForLong(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *rig){
		"the journal": func(t *testing.T, r *rig) {
			round := journaled(t, r)
			cutShort(t, r, round, 1)
			round.End(nil)
		},
		"the files": func(t *testing.T, r *rig) {
			if err := r.log.SyncRound(); !errors.Is(err, syscall.EIO) {
				t.Errorf("a round of files: %v", err)
			}
		},
		"a write ahead": func(t *testing.T, r *rig) {
			round := journaled(t, r)
			if err := r.log.Store(); !errors.Is(err, syscall.EIO) {
				t.Errorf("a write ahead: %v", err)
			}
			cutShort(t, r, round, 1)
			round.End(nil)
		},
		"a checkpoint in front of the round": func(t *testing.T, r *rig) {
			if cp, err := r.log.Snapshot(); err != nil || cp.Active.Next != 1 {
				t.Errorf("a checkpoint ends at %d (%v)", cp.Active.Next, err)
			}
			if r.log.BeginRound() != nil {
				t.Error("a round has what was refused before")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, refuse := tailRig(t)
			*refuse = true
			for range 5 {
				s := r.publish(2)
				end(t, r)
				r.collect(false)
				refused(t, "a publish", s)
			}
			*refuse = false
			s := r.publish(1)
			check(t, r.log.SyncRound())
			r.collect(false)
			if s.Err != nil || s.Base != 1 {
				t.Errorf("a publish when the file takes it: offset %d (%v)", s.Base, s.Err)
			}
			r.verify()
			r.after(r.disk.Clone(), nil).verify()
		})
	}
}

// One write that fails is a publish that fails: it is not tried again.
func TestTailThatIsRefusedOnce(t *testing.T) {
	r, refuse := tailRig(t)
	s := r.publish(2)
	round := journaled(t, r)
	*refuse = true
	if r.log.Store() == nil {
		t.Error("the file takes it")
	}
	*refuse = false
	cutShort(t, r, round, 1)
	round.End(nil)
	r.collect(false)
	refused(t, "the publish", s)
}

// What the file has in front of what it refuses is not taken back with it.
func TestTailBehindWhatIsInTheFile(t *testing.T) {
	for name, files := range map[string]bool{"the journal": false, "the files": true} {
		t.Run(name, func(t *testing.T) {
			r, refuse := tailRig(t)
			weak := r.publish(2, func(a *partition.Append) { a.Ack = partition.OS })
			strong := r.publish(1)
			check(t, r.log.Store()) // no round has it
			r.commits = 0
			*refuse = true
			if files {
				if err := r.log.SyncRound(); !errors.Is(err, syscall.EIO) {
					t.Errorf("a round of files: %v", err)
				}
				if *refuse = false; r.commits == 0 {
					t.Error("nobody is asked for the round of what is in front")
				}
				check(t, r.log.SyncRound())
			} else {
				round := journaled(t, r)
				cutShort(t, r, round, 3)
				round.End(nil)
			}
			r.collect(false)
			refused(t, "the tail", strong)
			if weak.Err != nil || r.log.DurableEnd() != 3 || r.log.End() != 3 {
				t.Errorf("in front of it: %v, durable up to %d, published up to %d", weak.Err, r.log.DurableEnd(), r.log.End())
			}
		})
	}
}

// The journal cannot take it back: it may be stored, and nothing more is appended.
func TestTailThatStaysInTheJournal(t *testing.T) {
	r, refuse := tailRig(t)
	s := r.publish(2)
	round := journaled(t, r)
	*refuse = true
	cutShort(t, r, round, 1)
	*refuse = false
	if !round.End(errors.New("the journal has failed")) {
		t.Error("the round goes on")
	}
	if !s.told || !maybeStored(s.Err) || !errors.Is(s.Err, partition.ErrReadOnly) {
		t.Errorf("told %v: %v", s.told, s.Err)
	}
	if s := r.publish(1); !errors.Is(s.Err, partition.ErrReadOnly) {
		t.Errorf("a publish behind it: %v", s.Err)
	}
	if _, err := r.log.Close(); !errors.Is(err, partition.ErrReadOnly) {
		t.Errorf("a stop: %v", err)
	}
}

// A topic that is deleted while its tail is refused tells who waits, and writes nothing more.
func TestTailThatIsRefusedByADeletion(t *testing.T) {
	r, refuse := tailRig(t)
	s := r.publish(2)
	round := journaled(t, r)
	*refuse = true
	cutShort(t, r, round, 1)
	gone := make(chan struct{})
	go func() { defer close(gone); r.log.Abandon() }()
	round.End(nil)
	<-gone
	if !s.told || s.Err == nil {
		t.Errorf("who waited was told %v: %v", s.told, s.Err)
	}
}

// A stop that cannot store the tail takes it back, and is a clean one.
func TestTailThatIsRefusedAtTheStop(t *testing.T) {
	r, refuse := tailRig(t)
	weak := r.publish(1, func(a *partition.Append) { a.Ack = partition.OS })
	s := r.publish(2)
	*refuse = true
	cp, err := r.log.Close()
	if check(t, err); cp.Active.Next != 2 || weak.Err != nil {
		t.Errorf("the checkpoint of the stop ends at %d (%v)", cp.Active.Next, weak.Err)
	}
	refused(t, "who waited", s)
}
