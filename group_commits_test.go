package varve_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// commit sets the place of a group without members.
func (r *rig) commit(groupID, topic string, part int32, off varve.Offset) {
	r.t.Helper()
	c := varve.Commit{Topic: topic, Partition: part, Offset: off}
	if err := r.engine.CommitOffsets(context.Background(), groupID, c); err != nil {
		r.t.Fatal(err)
	}
}

// committed is the place of a group, -1 where it has none.
func (r *rig) committed(groupID, topic string, part int32) varve.Offset {
	r.t.Helper()
	list, err := r.engine.Commits(groupID)
	if err != nil && !errors.Is(err, varve.ErrNoGroup) {
		r.t.Fatal(err)
	}
	for _, c := range list {
		if c.Topic == topic && c.Partition == part {
			return c.Offset
		}
	}
	return -1
}

// wantCommitted fails unless the place of a group is so.
func (r *rig) wantCommitted(groupID, topic string, part int32, want varve.Offset) {
	r.t.Helper()
	if got := r.committed(groupID, topic, part); got != want {
		r.t.Errorf("group %s has committed %d in %s/%d, want %d", groupID, got, topic, part, want)
	}
}

// fill publishes n records to a partition.
func (r *rig) fill(p *varve.Partition, n int) {
	r.t.Helper()
	recs := make([]varve.Record, n)
	for i := range recs {
		recs[i] = text("%s-%d", bookName(p), i)
	}
	r.publish(p, recs...)
}

// A commit that returned is there after a clean stop, a kill and a power cut.
func TestCommitsSurvive(t *testing.T) {
	r := newRig(t)
	r.topic("t", 3)
	for i := range 3 {
		r.fill(r.part("t", i), 100)
	}
	want := map[string]varve.Offset{}
	for n, stop := range []func(){r.reopen, r.kill, func() { r.cut(vfs.CrashOptions{}) }, func() { r.cut(vfs.CrashOptions{Seed: 7}) }, r.reopen} {
		for i := range 3 {
			id := fmt.Sprintf("g%d", i)
			want[id] = varve.Offset(10*n + i)
			r.commit(id, "t", int32(i), want[id])
		}
		stop()
		for i := range 3 {
			id := fmt.Sprintf("g%d", i)
			r.wantCommitted(id, "t", int32(i), want[id])
			r.wantCommitted(id, "t", int32(i+1)%3, -1)
		}
	}
}

// A commit says what it was, and a lower one counts: a reset may go back.
func TestCommitIsWhatWasCommitted(t *testing.T) {
	r := newRig(t)
	r.fill(r.one(), 10)
	c := varve.Commit{Topic: "t", Offset: 7, Metadata: "up to seven"}
	if err := r.engine.CommitOffsets(context.Background(), "g", c); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	list, err := r.engine.Commits("g")
	if err != nil || len(list) != 1 {
		t.Fatalf("commits are %v, %v", list, err)
	}
	if got := list[0]; got.Offset != 7 || got.Metadata != "up to seven" || got.LeaderEpoch != -1 || got.Time.UnixMilli() != r.now.Load() {
		t.Errorf("the commit is %+v", got)
	}
	r.commit("g", "t", 0, 2)
	r.kill()
	r.wantCommitted("g", "t", 0, 2)
}

// What cannot be a place is refused, with all that came with it.
func TestCommitsAreChecked(t *testing.T) {
	r := newRig(t)
	r.fill(r.one(), 10)
	good := varve.Commit{Topic: "t", Offset: 5}
	var out *varve.OutOfRangeError
	var long *varve.MetadataError
	var id *varve.GroupIDError
	for name, c := range map[string]struct {
		group string
		bad   varve.Commit
		is    error
		as    any
	}{
		"negative":     {"g", varve.Commit{Topic: "t", Offset: -1}, nil, &out},
		"above end":    {"g", varve.Commit{Topic: "t", Offset: 11}, nil, &out},
		"no topic":     {"g", varve.Commit{Topic: "u"}, varve.ErrNoTopic, nil},
		"no partition": {"g", varve.Commit{Topic: "t", Partition: 1}, varve.ErrNoPartition, nil},
		"metadata":     {"g", varve.Commit{Topic: "t", Metadata: strings.Repeat("x", 4097)}, nil, &long},
		"no id":        {"", varve.Commit{Topic: "t"}, nil, &id},
		"long id":      {strings.Repeat("g", 1<<15), varve.Commit{Topic: "t"}, nil, &id},
	} {
		err := r.engine.CommitOffsets(context.Background(), c.group, good, c.bad)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || c.as != nil && !errors.As(err, c.as) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.wantCommitted("g", "t", 0, -1)
	if err := r.engine.CommitOffsets(context.Background(), "g", varve.Commit{Topic: "t", Offset: 10, Metadata: strings.Repeat("x", 4096)}); err != nil {
		t.Error(err)
	}
	r.wantCommitted("g", "t", 0, 10)
}

// A topic that is made anew under a name has none of the commits of the first
// (KAFKA-2000).
func TestCommitsGoWithTheirTopic(t *testing.T) {
	for name, stop := range map[string]func(*rig){"stop": (*rig).reopen, "kill": (*rig).kill} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.topic("t", 2)
			r.topic("u", 1)
			r.fill(r.part("t", 0), 500)
			r.commit("g", "t", 0, 500)
			r.commit("g", "t", 1, 0)
			r.commit("g", "u", 0, 0)
			remake := func() {
				r.t.Helper()
				if err := r.engine.DeleteTopic("t"); err != nil {
					t.Fatal(err)
				}
				r.forget("t")
				r.topic("t", 2)
				r.wantCommitted("g", "t", 0, -1)
			}
			remake()
			stop(r)
			r.wantCommitted("g", "t", 0, -1)
			r.wantCommitted("g", "u", 0, 0)
			r.fill(r.part("t", 0), 10)
			r.commit("g", "t", 0, 3)
			stop(r)
			r.wantCommitted("g", "t", 0, 3)
			r.wantCommitted("g", "t", 1, -1)
			remake()
			stop(r)
			r.wantCommitted("g", "t", 0, -1)
		})
	}
}

// A power cut between the deletion of a topic and the tombstones leaves commits of
// it: nobody sees them.
func TestCommitsOfATopicThatIsGone(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.fill(r.part("t", 0), 5)
	r.commit("g", "t", 0, 5)
	before := r.disk.Crash(vfs.CrashOptions{})
	r.close()
	r.disk = before
	for _, f := range r.disk.Files() {
		if strings.HasPrefix(f, "topics/t/") {
			if err := r.disk.RemoveAll("topics/t"); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	r.loud = true // a topic is missing
	r.open()
	r.forget("t")
	r.wantCommitted("g", "t", 0, -1)
	r.topic("t", 1)
	r.wantCommitted("g", "t", 0, -1)
	r.reopen()
	r.wantCommitted("g", "t", 0, -1)
	r.commit("g", "t", 0, 0)
	r.reopen()
	r.wantCommitted("g", "t", 0, 0)
}

// A deleted group is gone for good, and its id may be used again (KAFKA-4704).
func TestDeleteGroup(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.fill(r.part("t", 0), 10)
	r.commit("g", "t", 0, 4)
	r.commit("g", "t", 1, 0)
	r.commit("other", "t", 0, 5)
	if err := r.engine.DeleteGroup("g"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.engine.Commits("g"); !errors.Is(err, varve.ErrNoGroup) {
			t.Errorf("commits of a deleted group: %v", err)
		}
		if err := r.engine.DeleteGroup("g"); !errors.Is(err, varve.ErrNoGroup) {
			t.Errorf("deleted twice: %v", err)
		}
		r.kill()
	}
	r.commit("g", "t", 0, 6)
	r.kill()
	r.wantCommitted("g", "t", 0, 6)
	r.wantCommitted("g", "t", 1, -1)
	r.wantCommitted("other", "t", 0, 5)
}

// A group may forget its places in one topic.
func TestDeleteCommits(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.topic("u", 1)
	r.commit("g", "t", 0, 0)
	r.commit("g", "u", 0, 0)
	if err := r.engine.DeleteCommits(context.Background(), "g", "t"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.wantCommitted("g", "t", 0, -1)
		r.wantCommitted("g", "u", 0, 0)
		r.kill()
	}
	if err := r.engine.DeleteCommits(context.Background(), "g", "x"); !errors.Is(err, varve.ErrNoTopic) {
		t.Error(err)
	}
	if err := r.engine.DeleteCommits(context.Background(), "h", "t"); !errors.Is(err, varve.ErrNoGroup) {
		t.Error(err)
	}
}

// What a power cut took from a topic of a weaker level cannot have been processed: the
// group goes on at the end, which is said, and not behind what is published next.
func TestCommitAboveTheEndAfterACrash(t *testing.T) {
	r := newRig(t)
	p := r.one("durability=os")
	r.fill(p, 10)
	if err := p.WaitDurable(context.Background(), 10); err != nil {
		t.Fatal(err)
	}
	for range 9 {
		if _, err := p.Publish(context.Background(), text("lost")); err != nil {
			t.Fatal(err)
		}
	}
	r.commit("g", "t", 0, 19)
	r.commit("low", "t", 0, 4)
	r.loud = true
	r.cut(vfs.CrashOptions{})
	end := r.part("t", 0).End()
	if end != 10 {
		t.Fatalf("the power cut left %d records, want 10", end)
	}
	if r.logged.first("committed more than a crash has left") == "" {
		t.Error("the log has no line of it")
	}
	r.fill(r.part("t", 0), 20)
	r.wantCommitted("g", "t", 0, 10)
	r.wantCommitted("low", "t", 0, 4)
	r.reopen()
	r.wantCommitted("g", "t", 0, 10)
	r.kill()
	r.wantCommitted("g", "t", 0, 10)
}

// A place that nobody has committed for long, in a group without members, is forgotten;
// others stay (KIP-211).
func TestCommitsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.opt.Groups.CommitRetention = time.Hour })
		r.topic("t", 1)
		r.commit("old", "t", 0, 0)
		r.commit("young", "t", 0, 0)
		pass := func(d time.Duration) {
			r.advance(d)
			time.Sleep(d)
		}
		pass(50 * time.Minute)
		r.commit("young", "t", 0, 0)
		r.wantCommitted("old", "t", 0, 0)
		pass(15 * time.Minute)
		r.wantCommitted("old", "t", 0, -1)
		r.wantCommitted("young", "t", 0, 0)
		if _, err := r.engine.Commits("old"); !errors.Is(err, varve.ErrNoGroup) {
			t.Errorf("the group that expired: %v", err)
		}
		r.kill()
		r.wantCommitted("old", "t", 0, -1)
		// A start gives a group the whole time: its members may just be coming back.
		pass(50 * time.Minute)
		r.wantCommitted("young", "t", 0, 0)
		pass(15 * time.Minute)
		r.wantCommitted("young", "t", 0, -1)
	})
}

// A disk that fails what commits need is their error, and no place moves.
func TestCommitThatFails(t *testing.T) {
	full := false
	r := newRig(t, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			if full && op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, "topics/__consumer_offsets") {
				return vfs.Fault{Err: syscall.ENOSPC}
			}
			return vfs.Fault{}
		}
	})
	r.fill(r.one(), 10)
	r.commit("g", "t", 0, 2)
	m := r.join("g", varve.JoinOptions{}, "t")
	r.drain(m)
	full = true
	for range 2 {
		if err := m.Commit(context.Background()); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit on a full disk: %v", err)
		}
	}
	if err := r.engine.DeleteTopic("t"); err != nil {
		t.Errorf("a topic is deleted all the same: %v", err)
	}
	full = false
	r.forget("t")
	r.fill(r.one(), 3)
	if got := r.drain(m)["t/0"]; len(got) != 3 {
		t.Errorf("of the new topic it got %v", got)
	}
	r.commitPolled(m)
	r.kill()
	r.wantCommitted("g", "t", 0, 3)
}

// A context that ends while a commit is under way leaves open what became of it.
func TestCommitGivenUp(t *testing.T) {
	held := newValve(syncsRecords)
	r := newRig(t, func(r *rig) { r.rule = held.rule })
	r.fill(r.one(), 10)
	r.commit("g", "t", 0, 2)
	m := r.join("g", varve.JoinOptions{}, "t")
	r.drain(m)
	ctx, cancel := context.WithCancel(context.Background())
	held.shut.Store(true)
	done := make(chan error)
	go func() { done <- m.Commit(ctx) }()
	<-held.reached
	cancel()
	var maybe *varve.MaybeStoredError
	if err := <-done; !errors.As(err, &maybe) || !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if err := m.Commit(ctx); !errors.Is(err, context.Canceled) || errors.As(err, &maybe) {
		t.Errorf("commit with a context that has ended: %v", err)
	}
	close(held.gate)
	r.commitPolled(m) // it is not known, so it is done again
	r.wantCommitted("g", "t", 0, 10)
}

// What is left of a topic that is gone does not expire together with what is committed
// in a topic that has taken its name: the key of both is the same.
func TestExpiryTellsTopicsOfOneNameApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.opt.Groups.CommitRetention = time.Hour })
		r.fill(r.one(), 5)
		r.commit("g", "t", 0, 5)
		r.close()
		if err := r.disk.RemoveAll("topics/t"); err != nil { // nobody wrote tombstones
			t.Fatal(err)
		}
		r.loud = true // a topic is missing
		r.open()
		r.forget("t")
		r.topic("t", 1)
		for range 2 {
			r.commit("g", "t", 0, 0)
			r.advance(40 * time.Minute)
			time.Sleep(40 * time.Minute)
		}
		r.kill()
		r.wantCommitted("g", "t", 0, 0)
	})
}
