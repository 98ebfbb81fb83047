package varve_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
)

// A group gets every record once from who commits, and the next member goes on there.
func TestGroupGoesOnWhereItCommitted(t *testing.T) {
	bubble(t, func(r *rig) {
		p := r.one()
		r.fill(p, 10)
		m := r.join("g", varve.JoinOptions{MaxRecords: 4}, "t")
		polled, err := m.Poll(context.Background())
		if err != nil || len(polled.Records) != 4 || polled.Topic != "t" || polled.Records[3].Offset != 3 {
			r.t.Fatalf("polled %+v, %v", polled, err)
		}
		r.wantCommitted("g", "t", 0, -1) // a poll commits nothing
		r.commitPolled(m)
		r.wantCommitted("g", "t", 0, 4)
		if _, err := m.Poll(context.Background()); err != nil {
			r.t.Fatal(err)
		}
		r.leave(m) // what was polled and not committed is polled again
		r.wantCommitted("g", "t", 0, 4)
		next := r.join("g", varve.JoinOptions{}, "t")
		if got := r.drain(next)["t/0"]; len(got) != 6 || got[0] != "t/0-4" {
			r.t.Errorf("the next member got %v", got)
		}
		r.commitPolled(next)
		r.kill()
		r.wantCommitted("g", "t", 0, 10)
		list, _ := r.engine.Commits("g")
		if list[0].LeaderEpoch != 0 {
			r.t.Errorf("the commit has leader epoch %d, want that of the records, 0", list[0].LeaderEpoch)
		}
		other := r.join("other", varve.JoinOptions{}, "t")
		if got := r.drain(other)["t/0"]; len(got) != 10 {
			r.t.Errorf("another group got %d records", len(got))
		}
	})
}

// Where to begin without a commit; what is not the beginning is kept for whoever comes
// next.
func TestWhereAGroupBegins(t *testing.T) {
	bubble(t, func(r *rig) {
		p := r.one()
		r.fill(p, 10)
		late := r.join("late", varve.JoinOptions{From: varve.Latest()}, "t")
		r.wantCommitted("late", "t", 0, 10)
		last := r.join("last", varve.JoinOptions{From: varve.Last(3)}, "t")
		strict := r.join("strict", varve.JoinOptions{MustResume: true}, "t")
		r.fill(p, 5)
		if got := r.drain(late)["t/0"]; len(got) != 5 {
			r.t.Errorf("from latest: %v", got)
		}
		if got := r.drain(last)["t/0"]; len(got) != 8 {
			r.t.Errorf("from the last 3: %v", got)
		}
		if _, _, err := strict.TryPoll(context.Background()); !errors.Is(err, varve.ErrNoCommit) {
			r.t.Errorf("without a commit: %v", err)
		}
		r.idlePoll(strict) // it is told once
		if err := strict.Seek(context.Background(), "t", 0, varve.At(12)); err != nil {
			r.t.Fatal(err)
		}
		if got := r.drain(strict)["t/0"]; len(got) != 3 {
			r.t.Errorf("after a seek: %v", got)
		}
		r.leave(late)
		if got := r.drain(r.join("late", varve.JoinOptions{From: varve.Latest()}, "t"))["t/0"]; len(got) != 5 {
			r.t.Errorf("who comes next, of the group that began at the end, got %v", got)
		}
	})
}

// Ago begins with what was published in the time that has passed last.
func TestBeginAgo(t *testing.T) {
	bubble(t, func(r *rig) {
		p := r.one()
		for range 5 {
			r.fill(p, 1)
			r.advance(time.Minute)
		}
		m := r.join("g", varve.JoinOptions{From: varve.Ago(2 * time.Minute)}, "t")
		if got := r.drain(m)["t/0"]; len(got) != 2 {
			r.t.Errorf("from 2 minutes ago: %v", got)
		}
		if got := varve.Ago(2 * time.Minute).String(); got != "2m0s ago" {
			r.t.Error(got)
		}
	})
}

// A place that retention has passed is an error, once, and polls go on behind it.
func TestPlaceThatRetentionPassed(t *testing.T) {
	bubble(t, func(r *rig) {
		p := r.one("segment.bytes=64")
		for range 10 {
			r.fill(p, 1)
		}
		r.commit("g", "t", 0, 2)
		if _, err := p.Trim(6); err != nil {
			r.t.Fatal(err)
		}
		r.forgetBelow(p, 6)
		m := r.join("g", varve.JoinOptions{}, "t")
		polled, _, err := m.TryPoll(context.Background())
		var out *varve.OutOfRangeError
		if !errors.As(err, &out) || out.Asked != 2 || out.Start != 6 || polled.Topic != "t" {
			r.t.Errorf("polled %+v, %v", polled, err)
		}
		if got := r.drain(m)["t/0"]; len(got) != 4 {
			r.t.Errorf("then it got %v", got)
		}
	})
}

// forgetBelow takes records that were trimmed out of the book.
func (r *rig) forgetBelow(p *varve.Partition, off varve.Offset) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := range r.acked[bookName(p)] {
		if at < off {
			delete(r.acked[bookName(p)], at)
		}
	}
}

func TestPauseAndSeek(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		r.fill(r.part("t", 0), 3)
		r.fill(r.part("t", 1), 3)
		m := r.join("g", varve.JoinOptions{}, "t")
		zero := varve.TopicPartition{Topic: "t"}
		if err := m.Pause(zero); err != nil {
			r.t.Fatal(err)
		}
		if got := r.drain(m); len(got) != 1 || len(got["t/1"]) != 3 {
			r.t.Errorf("with t/0 paused: %v", got)
		}
		parked := make(chan varve.Polled)
		go func() {
			p, err := m.Poll(context.Background())
			if err != nil {
				r.t.Error(err)
			}
			parked <- p
		}()
		synctest.Wait()
		if err := m.Resume(zero); err != nil {
			r.t.Fatal(err)
		}
		if p := <-parked; p.Partition != 0 || len(p.Records) != 3 {
			r.t.Errorf("resumed: %+v", p)
		}
		if err := m.Seek(context.Background(), "t", 1, varve.At(1)); err != nil {
			r.t.Fatal(err)
		}
		if at, err := m.Position("t", 1); at != 1 || err != nil {
			r.t.Errorf("position is %d, %v", at, err)
		}
		r.commitPolled(m)
		r.wantCommitted("g", "t", 0, 3)
		r.wantCommitted("g", "t", 1, 1)
		if got := r.drain(m); len(got["t/1"]) != 2 {
			r.t.Errorf("after the seek: %v", got)
		}
		var out *varve.OutOfRangeError
		if err := m.Seek(context.Background(), "t", 1, varve.At(9)); !errors.As(err, &out) {
			r.t.Errorf("seek above the end: %v", err)
		}
	})
}
