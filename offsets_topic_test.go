package varve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// The topic of commits is the engine's own.
func TestOffsetsTopicIsNoUsers(t *testing.T) {
	const name = "__consumer_offsets"
	r := newRig(t)
	r.one()
	r.commit("g", "t", 0, 0)
	for range 2 {
		if list := r.engine.Topics(); len(list) != 1 || list[0].Name() != "t" {
			t.Errorf("topics are %v", list)
		}
		var wrong *varve.NameError
		if _, err := r.engine.Topic(name); !errors.Is(err, varve.ErrNoTopic) || !errors.As(err, &wrong) {
			t.Errorf("Topic: %v", err)
		}
		if err := r.engine.DeleteTopic(name); !errors.As(err, &wrong) {
			t.Errorf("DeleteTopic: %v", err)
		}
		for _, n := range []string{name, "__consumer.offsets", "__Consumer_Offsets"} {
			if _, err := r.engine.EnsureTopic(n, varve.TopicConfig{}); !errors.As(err, &wrong) {
				t.Errorf("EnsureTopic %s: %v", n, err)
			}
		}
		r.reopen()
	}
	r.wantCommitted("g", "t", 0, 0)
}

// offsetsBytes is what the files of the topic of commits take.
func (r *rig) offsetsBytes() int64 {
	total := int64(0)
	for _, f := range r.disk.Files() {
		if strings.HasPrefix(f, "topics/__consumer_offsets/") {
			if info, err := r.disk.Stat(f); err == nil {
				total += info.Size()
			}
		}
	}
	return total
}

// However many commits there are, what they take on disk stays the same.
func TestOffsetsTopicStaysBounded(t *testing.T) {
	commits := 100_000
	if testing.Short() || raceDetector {
		commits = 20_000
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.topic("t", 10)
		for i := range 10 {
			r.fill(r.part("t", i), 1000)
		}
		most := int64(0)
		for n := range commits / 100 {
			var list []varve.Commit
			for i := range 10 {
				list = append(list, varve.Commit{Topic: "t", Partition: int32(i), Offset: varve.Offset((n + i) % 1000), Metadata: strings.Repeat("m", 30)})
			}
			for g := range 10 {
				if err := r.engine.CommitOffsets(context.Background(), fmt.Sprintf("group-%d", g), list...); err != nil {
					t.Fatal(err)
				}
			}
			if n%100 == 99 {
				time.Sleep(2 * time.Second)
				most = max(most, r.offsetsBytes())
			}
		}
		if most > 4<<20 {
			t.Errorf("%d commits take %d bytes", commits, most)
		}
		last := commits/100 - 1
		for range 2 {
			for g := range 10 {
				for i := range 10 {
					r.wantCommitted(fmt.Sprintf("group-%d", g), "t", int32(i), varve.Offset((last+i)%1000))
				}
			}
			r.kill()
		}
	})
}

// Damage to the commits is said; a group whose place may be among what is lost does not
// silently begin at the end, and one that begins at the beginning may.
func TestCommitsThatAreDamaged(t *testing.T) {
	r := newRig(t)
	r.fill(r.one(), 10)
	for i, id := range []string{"first", "second", "third"} {
		c := varve.Commit{Topic: "t", Offset: varve.Offset(i + 1), Metadata: "metadata of " + id}
		if err := r.engine.CommitOffsets(context.Background(), id, c); err != nil {
			t.Fatal(err)
		}
	}
	r.close()
	for _, f := range r.disk.Files() {
		if strings.HasPrefix(f, "topics/__consumer_offsets/") && strings.HasSuffix(f, ".log") {
			flipIn(t, r.disk, f, "metadata of second")
		}
	}
	r.loud = true
	r.open()
	r.wantCommitted("first", "t", 0, 1)
	r.wantCommitted("second", "t", 0, -1)
	r.wantCommitted("third", "t", 0, 3)
	if r.logged.first("commits of groups are damaged") == "" {
		t.Error("the log has no line of it")
	}
	late := r.join("second", varve.JoinOptions{From: varve.Latest()}, "t")
	var damage *varve.CorruptError
	if _, _, err := late.TryPoll(context.Background()); !errors.Is(err, varve.ErrNoCommit) || !errors.As(err, &damage) {
		t.Errorf("a group that may have had a place: %v", err)
	}
	r.leave(late)
	r.wantCommitted("second", "t", 0, -1)
	if got := r.drain(r.join("second", varve.JoinOptions{}, "t"))["t/0"]; len(got) != 10 {
		t.Errorf("from the beginning it got %d records", len(got))
	}
}

// Acknowledgements may come in another order than the records stand in the log: the
// last record counts. A start reads them in the order of the log.
func TestManyCommitsAtOnce(t *testing.T) {
	r := newRig(t)
	r.fill(r.one(), 1000)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 50 {
				r.commit("g", "t", 0, varve.Offset(w*100+i))
			}
		})
	}
	all.Wait()
	last := r.committed("g", "t", 0)
	r.kill()
	r.wantCommitted("g", "t", 0, last)
}

// commitMuch commits so much for a group that the offsets topic is to be written anew.
func (r *rig) commitMuch(groupID string) {
	r.t.Helper()
	for i := range 400 {
		c := varve.Commit{Topic: "t", Offset: varve.Offset(i % 10), Metadata: strings.Repeat("m", 4000)}
		if err := r.engine.CommitOffsets(context.Background(), groupID, c); err != nil {
			r.t.Fatal(err)
		}
	}
}

// What is damaged of the commits is not trimmed when the others are written anew: the next
// start tells of it as well.
func TestDamagedCommitsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fill(r.one(), 10)
		for _, id := range []string{"first", "second", "third"} {
			c := varve.Commit{Topic: "t", Offset: 4, Metadata: "metadata of " + id}
			if err := r.engine.CommitOffsets(context.Background(), id, c); err != nil {
				t.Fatal(err)
			}
		}
		r.close()
		flipIn(t, r.disk, "topics/__consumer_offsets/0/00000000000000000000.log", "metadata of second")
		r.loud = true
		for range 2 {
			r.open()
			late := r.join("second", varve.JoinOptions{From: varve.Latest()}, "t")
			if _, _, err := late.TryPoll(context.Background()); !errors.Is(err, varve.ErrNoCommit) {
				t.Errorf("a group that may have had a place: %v", err)
			}
			r.leave(late)
			r.commitMuch("third")
			time.Sleep(5 * time.Second)
			r.close()
		}
	})
}

// Writing the commits anew may fail at any write: no place is lost by it.
func TestCompactionThatFails(t *testing.T) {
	for n := int64(1); n <= 6; n++ {
		synctest.Test(t, func(t *testing.T) {
			var failing atomic.Bool
			var writes atomic.Int64
			r := newRig(t, func(r *rig) {
				r.rule = func(op vfs.Op) vfs.Fault {
					if !failing.Load() || op.Kind != vfs.OpWrite || !strings.HasPrefix(op.Name, "topics/__consumer_offsets") || !strings.HasSuffix(op.Name, ".log") {
						return vfs.Fault{}
					}
					if writes.Add(1) != n {
						return vfs.Fault{}
					}
					return vfs.Fault{Err: syscall.ENOSPC}
				}
			})
			r.fill(r.one(), 10)
			for i := range 6 {
				r.commit(fmt.Sprint("quiet", i), "t", 0, 3)
			}
			r.commitMuch("busy")
			failing.Store(true)
			r.loud = true
			time.Sleep(5 * time.Second)
			if writes.Load() < n {
				t.Fatalf("there were %d writes", writes.Load())
			}
			failing.Store(false)
			r.kill()
			for i := range 6 {
				r.wantCommitted(fmt.Sprint("quiet", i), "t", 0, 3)
			}
		})
	}
}
