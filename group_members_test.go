package varve_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
)

// A poll at the end waits for what is published.
func TestPollWaits(t *testing.T) {
	bubble(t, func(r *rig) {
		p := r.one()
		m := r.join("g", varve.JoinOptions{}, "t")
		got := make(chan varve.Polled)
		go func() {
			polled, err := m.Poll(context.Background())
			if err != nil {
				r.t.Error(err)
			}
			got <- polled
		}()
		time.Sleep(time.Hour) // a parked member stays one
		r.fill(p, 1)
		if polled := <-got; len(polled.Records) != 1 {
			r.t.Errorf("polled %+v", polled)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := m.Poll(ctx); !errors.Is(err, context.DeadlineExceeded) {
			r.t.Errorf("poll without records: %v", err)
		}
	})
}

// Partitions move by agreement: the owner finishes and commits first, keeps what it
// keeps, and the new one goes on behind.
func TestRevokedBeforeAssigned(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 6)
		r.fill(r.part("t", 1), 6)
		var story []string
		var a *varve.Member
		a = r.join("g", varve.JoinOptions{
			MaxRecords: 3,
			OnAssigned: func(_ context.Context, got []varve.TopicPartition) {
				story = append(story, fmt.Sprint("a assigned ", len(got)))
			},
			OnRevoked: func(ctx context.Context, going []varve.TopicPartition) {
				if end, ok := ctx.Deadline(); !ok || time.Until(end) != 5*time.Minute {
					r.t.Errorf("the deadline is in %v", time.Until(end))
				}
				story = append(story, fmt.Sprint("a revoked ", len(going)))
				if err := a.Commit(ctx); err != nil {
					r.t.Error(err)
				}
			},
		}, "t")
		for range 2 {
			if _, err := a.Poll(context.Background()); err != nil {
				r.t.Fatal(err)
			}
		}
		b := r.join("g", varve.JoinOptions{OnAssigned: func(context.Context, []varve.TopicPartition) { story = append(story, "b assigned") }}, "t")
		r.idlePoll(b)
		if owned(b) != "" {
			r.t.Errorf("b owns %s before a let go of it", owned(b))
		}
		if _, err := a.Poll(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		got := r.drain(b)
		if len(got) != 1 {
			r.t.Fatalf("b got %v", got)
		}
		for name, values := range got {
			if len(values) != 3 || values[0] != name+"-3" {
				r.t.Errorf("b got %v of %s, want what a had not committed", values, name)
			}
			if strings.Contains(owned(a), name) {
				r.t.Errorf("both own %s", name)
			}
		}
		if want := []string{"a assigned 2", "a revoked 1", "b assigned"}; !slices.Equal(story, want) {
			r.t.Errorf("story is %q, want %q", story, want)
		}
		r.leave(b)
		r.drain(a)
		if owned(a) != "t/0 t/1" {
			r.t.Errorf("after b left a owns %s", owned(a))
		}
	})
}

// A member that does not poll is put out when its time is over, not before; others get
// its partitions; whatever it does later is refused.
func TestStalledMemberIsFenced(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 10)
		var lost []varve.TopicPartition
		zombie := r.join("g", varve.JoinOptions{MaxPollInterval: time.Minute, MaxRecords: 2,
			OnLost: func(l []varve.TopicPartition) { lost = l }}, "t")
		if _, err := zombie.Poll(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		heir := r.join("g", varve.JoinOptions{}, "t")
		time.Sleep(time.Minute)
		r.idlePoll(heir)
		r.commitPolled(zombie) // it is late, but nobody else has the partition
		r.wantCommitted("g", "t", 0, 2)
		time.Sleep(time.Minute / 4)
		got := r.drain(heir)["t/0"]
		if len(got) != 8 || got[0] != "t/0-2" {
			r.t.Errorf("the heir got %v", got)
		}
		r.commitPolled(heir)
		var fenced *varve.FencedError
		for what, err := range map[string]error{
			"commit":         zombie.Commit(context.Background()),
			"commit offsets": zombie.CommitOffsets(context.Background(), varve.Commit{Topic: "t", Offset: 1}),
			"seek":           zombie.Seek(context.Background(), "t", 0, varve.Earliest()),
			"pause":          zombie.Pause(varve.TopicPartition{Topic: "t"}),
		} {
			if !errors.As(err, &fenced) || fenced.Reason != "session timeout" || fenced.Member != zombie.ID() {
				r.t.Errorf("%s of a member that was put out: %v", what, err)
			}
		}
		for range 2 {
			if _, err := zombie.Poll(context.Background()); !errors.As(err, &fenced) {
				r.t.Errorf("poll of a member that was put out: %v", err)
			}
		}
		if err := zombie.Leave(context.Background()); !errors.As(err, &fenced) {
			r.t.Errorf("leave of a member that was put out: %v", err)
		}
		if len(lost) != 1 || owned(zombie) != "" {
			r.t.Errorf("it was told to have lost %v, and owns %q", lost, owned(zombie))
		}
		r.wantCommitted("g", "t", 0, 10)
	})
}

// A member that does not let go of a partition in time is put out.
func TestRevocationHasADeadline(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		revoked := 0
		slow := r.join("g", varve.JoinOptions{RevokeTimeout: 10 * time.Second, OnRevoked: func(ctx context.Context, _ []varve.TopicPartition) {
			revoked++
			<-ctx.Done()
			time.Sleep(time.Second)
		}}, "t")
		r.idlePoll(slow)
		b := r.join("g", varve.JoinOptions{}, "t")
		var fenced *varve.FencedError
		if _, _, err := slow.TryPoll(context.Background()); !errors.As(err, &fenced) || fenced.Reason != "rebalance timeout" {
			r.t.Errorf("poll: %v", err)
		}
		r.idlePoll(b)
		if owned(b) != "t/0 t/1" || revoked != 1 {
			r.t.Errorf("b owns %s", owned(b))
		}
	})
}

// Only the owner commits a partition.
func TestCommitNeedsOwnership(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 5)
		r.fill(r.part("t", 1), 5)
		a := r.join("g", varve.JoinOptions{}, "t")
		r.drain(a)
		b := r.join("g", varve.JoinOptions{}, "t")
		r.idlePoll(a)
		r.drain(b)
		if owned(a) == owned(b) || len(a.Owned()) != 1 || len(b.Owned()) != 1 {
			r.t.Fatalf("a owns %s, b %s", owned(a), owned(b))
		}
		ours, theirs := a.Owned()[0], b.Owned()[0]
		at := func(p varve.TopicPartition, off varve.Offset) varve.Commit {
			return varve.Commit{Topic: p.Topic, Partition: p.Partition, Offset: off}
		}
		var which *varve.PartitionError
		err := a.CommitOffsets(context.Background(), at(ours, 3), at(theirs, 3))
		if !errors.Is(err, varve.ErrNotOwner) || !errors.As(err, &which) || which.Partition != theirs.Partition {
			r.t.Errorf("commit of another's partition: %v", err)
		}
		r.wantCommitted("g", "t", ours.Partition, -1)
		if err := a.Seek(context.Background(), "t", theirs.Partition, varve.Earliest()); !errors.Is(err, varve.ErrNotOwner) {
			r.t.Errorf("seek: %v", err)
		}
		if err := r.engine.CommitOffsets(context.Background(), "g", at(ours, 1)); !errors.Is(err, varve.ErrGroupNotEmpty) {
			r.t.Errorf("commit from outside: %v", err)
		}
		if err := r.engine.DeleteGroup("g"); !errors.Is(err, varve.ErrGroupNotEmpty) {
			r.t.Errorf("delete: %v", err)
		}
		if err := a.CommitOffsets(context.Background(), at(ours, 3)); err != nil {
			r.t.Error(err)
		}
		r.wantCommitted("g", "t", ours.Partition, 3)
		r.leave(a)
		if err := a.Commit(context.Background()); !errors.Is(err, varve.ErrLeft) {
			r.t.Errorf("commit after leaving: %v", err)
		}
	})
}

// A static member that comes back in time finds its partitions; while it is alive
// nobody takes its name.
func TestStaticMember(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 4)
		static := varve.JoinOptions{Instance: "one", MaxPollInterval: time.Minute}
		a := r.join("g", static, "t")
		b := r.join("g", varve.JoinOptions{}, "t")
		for range 2 {
			r.idlePoll(a)
			r.idlePoll(b)
		}
		had, others := owned(a), owned(b)
		var instance *varve.InstanceError
		if _, err := r.engine.Join(context.Background(), "g", []string{"t"}, static); !errors.As(err, &instance) {
			r.t.Errorf("join with the name of a live member: %v", err)
		}
		r.leave(a)
		r.idlePoll(b)
		if owned(b) != others {
			r.t.Errorf("while a is away b owns %s, had %s", owned(b), others)
		}
		a = r.join("g", static, "t")
		r.idlePoll(a)
		if owned(a) != had {
			r.t.Errorf("a is back and owns %s, had %s", owned(a), had)
		}
		r.leave(a)
		time.Sleep(time.Minute + time.Minute/4)
		r.idlePoll(b)
		if len(b.Owned()) != 4 {
			r.t.Errorf("a stayed away and b owns %s", owned(b))
		}
		a = r.join("g", static, "t")
		r.idlePoll(b)
		r.idlePoll(a)
		if err := a.LeaveForGood(context.Background()); err != nil {
			r.t.Error(err)
		}
		r.idlePoll(b)
		if len(b.Owned()) != 4 {
			r.t.Errorf("a left for good and b owns %s", owned(b))
		}
	})
}

// Groups follow the topics: new partitions are given out, those of a topic that is
// deleted are taken back, and a new one of the name begins at its beginning.
func TestGroupFollowsItsTopics(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		var revoked int
		m := r.join("g", varve.JoinOptions{OnRevoked: func(_ context.Context, going []varve.TopicPartition) { revoked += len(going) }}, "t")
		r.drain(m)
		r.commitPolled(m)
		topic, _ := r.engine.Topic("t")
		if err := topic.AddPartitions(3); err != nil {
			r.t.Fatal(err)
		}
		r.fill(r.part("t", 2), 2)
		if got := r.drain(m); len(got["t/2"]) != 2 || len(m.Owned()) != 3 {
			r.t.Errorf("of the new partitions: %v, owned %s", got, owned(m))
		}
		if err := r.engine.DeleteTopic("t"); err != nil {
			r.t.Fatal(err)
		}
		r.forget("t")
		r.commitPolled(m) // there is nothing left to commit
		r.idlePoll(m)
		if owned(m) != "" || revoked != 3 {
			r.t.Errorf("after the deletion it owns %q, and %d were revoked", owned(m), revoked)
		}
		r.fill(r.one(), 2)
		if got := r.drain(m)["t/0"]; len(got) != 2 {
			r.t.Errorf("of the new topic: %v", got)
		}
		if _, err := r.engine.Join(context.Background(), "g", []string{"t", "u"}, varve.JoinOptions{}); !errors.Is(err, varve.ErrNoTopic) {
			r.t.Errorf("join of a topic that does not exist: %v", err)
		}
	})
}

func TestGroupMaxMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(r *rig) { r.opt.Groups.MaxMembers = 2 })
		r.one()
		r.join("g", varve.JoinOptions{}, "t")
		b := r.join("g", varve.JoinOptions{}, "t")
		var full *varve.GroupFullError
		if _, err := r.engine.Join(context.Background(), "g", []string{"t"}, varve.JoinOptions{}); !errors.As(err, &full) {
			t.Errorf("a third member: %v", err)
		}
		r.leave(b)
		r.join("g", varve.JoinOptions{}, "t")
	})
}

// Close wakes whoever polls, and what was committed before stays so.
func TestCloseEndsMembers(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 3)
		m := r.join("g", varve.JoinOptions{}, "t")
		r.drain(m)
		r.commitPolled(m)
		var done sync.WaitGroup
		done.Go(func() {
			if _, err := m.Poll(context.Background()); !errors.Is(err, varve.ErrClosed) {
				r.t.Errorf("poll: %v", err)
			}
		})
		synctest.Wait()
		r.reopen()
		done.Wait()
		for what, err := range map[string]error{
			"commit": m.Commit(context.Background()), "leave": m.Leave(context.Background()),
			"seek": m.Seek(context.Background(), "t", 0, varve.Earliest()),
		} {
			if !errors.Is(err, varve.ErrClosed) {
				r.t.Errorf("%s: %v", what, err)
			}
		}
		r.wantCommitted("g", "t", 0, 3)
	})
}

// A member that is put out before it is told what it was given is told nothing of it,
// neither that it has it nor that it has lost it; and so is one that leaves.
func TestCallbacksGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := newValve(syncsRecords)
		r := newRig(t, func(r *rig) { r.rule = held.rule })
		r.one()
		r.commit("other", "t", 0, 0) // the topic of commits is there
		a := r.join("g", varve.JoinOptions{}, "t")
		var story []string
		note := func(what string) func(context.Context, []varve.TopicPartition) {
			return func(_ context.Context, p []varve.TopicPartition) { story = append(story, fmt.Sprint(what, p)) }
		}
		o := varve.JoinOptions{
			From: varve.Latest(), MaxPollInterval: time.Second,
			OnAssigned: note("assigned"), OnRevoked: note("revoked"),
			OnLost: func(p []varve.TopicPartition) { note("lost")(nil, p) },
		}
		b := r.join("g", o, "t")
		r.leave(a)
		held.shut.Store(true)
		end := make(chan error)
		go func() {
			_, err := b.Poll(context.Background()) // where it begins is committed first
			end <- err
		}()
		<-held.reached
		time.Sleep(3 * time.Second)
		close(held.gate)
		if err := <-end; !errors.As(err, new(*varve.FencedError)) {
			t.Errorf("poll: %v", err)
		}
		r.leave(r.join("g", o, "t"))
		if len(story) > 0 {
			t.Errorf("the callbacks were told %q", story)
		}
	})
}

// Leave has a Poll that is under way return, and then calls OnRevoked.
func TestLeaveWhilePolling(t *testing.T) {
	bubble(t, func(r *rig) {
		r.one()
		var polling sync.WaitGroup
		revoked := 0
		m := r.join("g", varve.JoinOptions{OnRevoked: func(context.Context, []varve.TopicPartition) { revoked++ }}, "t")
		polling.Go(func() {
			if _, err := m.Poll(context.Background()); !errors.Is(err, varve.ErrLeft) {
				r.t.Errorf("poll: %v", err)
			}
		})
		synctest.Wait()
		r.leave(m)
		polling.Wait()
		if revoked != 1 {
			r.t.Errorf("OnRevoked was called %d times", revoked)
		}
		if err := m.Leave(context.Background()); !errors.Is(err, varve.ErrLeft) {
			r.t.Errorf("leaving twice: %v", err)
		}
	})
}

// A callback that panics is its caller's business: the member goes on afterwards.
func TestCallbackThatPanics(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		calls := 0
		a := r.join("g", varve.JoinOptions{OnRevoked: func(context.Context, []varve.TopicPartition) {
			if calls++; calls == 1 {
				panic("oh")
			}
		}}, "t")
		r.idlePoll(a)
		b := r.join("g", varve.JoinOptions{}, "t")
		func() {
			defer func() {
				if recover() == nil {
					r.t.Error("the panic is gone")
				}
			}()
			a.TryPoll(context.Background())
		}()
		r.idlePoll(b)
		if owned(b) != "" {
			r.t.Errorf("b owns %s, which a was not done with", owned(b))
		}
		r.idlePoll(a)
		r.idlePoll(b)
		if calls != 2 || len(a.Owned()) != 1 || len(b.Owned()) != 1 {
			r.t.Errorf("%d calls; a owns %s, b %s", calls, owned(a), owned(b))
		}
	})
}

// Members that wait are woken when the group wants something of them: none has to
// come by for others to go on.
func TestParkedMembersAreWoken(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 4)
		a := r.join("g", varve.JoinOptions{}, "t")
		r.polling(a)
		b := r.join("g", varve.JoinOptions{MaxPollInterval: time.Minute}, "t")
		r.polling(b)
		if len(a.Owned()) != 2 || len(b.Owned()) != 2 {
			r.t.Errorf("a owns %s, b %s", owned(a), owned(b))
		}
		dead := r.join("g", varve.JoinOptions{MaxPollInterval: time.Minute}, "t")
		synctest.Wait()
		if _, _, err := dead.TryPoll(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		if len(dead.Owned()) != 1 {
			r.t.Errorf("the third owns %s", owned(dead))
		}
		time.Sleep(time.Minute + time.Minute/4)
		if n := len(a.Owned()) + len(b.Owned()); n != 4 {
			r.t.Errorf("after the third is gone a owns %s, b %s", owned(a), owned(b))
		}
		if err := r.engine.DeleteTopic("t"); err != nil {
			r.t.Fatal(err)
		}
		r.topic("t", 2)
		synctest.Wait()
		if len(a.Owned()) != 1 || len(b.Owned()) != 1 {
			r.t.Errorf("of the new topic a owns %s, b %s", owned(a), owned(b))
		}
		r.leave(b)
		synctest.Wait()
		if len(a.Owned()) != 2 {
			r.t.Errorf("after b left a owns %s", owned(a))
		}
	})
}

// A member that has always something to read is alive as well.
func TestBusyMemberStays(t *testing.T) {
	bubble(t, func(r *rig) {
		r.fill(r.one(), 1000)
		m := r.join("g", varve.JoinOptions{MaxPollInterval: time.Minute, MaxRecords: 1}, "t")
		for range 20 {
			if _, err := m.Poll(context.Background()); err != nil {
				r.t.Fatal(err)
			}
			time.Sleep(59 * time.Second)
		}
		for range 200 {
			if _, err := m.Poll(context.Background()); err != nil {
				r.t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		time.Sleep(59 * time.Second)
		r.commitPolled(m)
		if _, err := m.Poll(context.Background()); err != nil {
			r.t.Error(err)
		}
		r.wantCommitted("g", "t", 0, 220)
	})
}

// Groups and members cost no goroutine.
func TestGroupsHaveNoGoroutines(t *testing.T) {
	r := newRig(t)
	r.topic("t", 10)
	before := runtime.NumGoroutine()
	for i := range 1000 {
		r.join(fmt.Sprintf("g%d", i%100), varve.JoinOptions{}, "t")
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("%d goroutines, %d before a thousand members joined", n, before)
	}
}

// Whoever gets a partition begins behind every commit of its last owner, also one that
// was under way when the owner left.
func TestNewOwnerWaitsForCommits(t *testing.T) {
	held := newValve(syncsRecords)
	r := newRig(t, func(r *rig) { r.rule = held.rule })
	r.fill(r.one(), 10)
	r.commit("other", "t", 0, 0) // the topic of commits is there
	a := r.join("g", varve.JoinOptions{}, "t")
	r.drain(a)
	held.shut.Store(true)
	var under sync.WaitGroup
	under.Go(func() { r.commitPolled(a) })
	<-held.reached
	r.leave(a)
	under.Go(func() {
		b := r.join("g", varve.JoinOptions{}, "t")
		if at, err := b.Position("t", 0); at != 10 || err != nil {
			t.Errorf("the new owner begins at %d, %v", at, err)
		}
	})
	give()
	close(held.gate)
	under.Wait()
}
