package varve_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

func (r *rig) describe(groupID string) varve.GroupDescription {
	r.t.Helper()
	d, err := r.engine.DescribeGroup(groupID)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

func TestDescribeGroup(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		r.topic("u", 1)
		r.fill(r.part("t", 0), 10)
		r.fill(r.part("t", 1), 4)
		r.fill(r.part("u", 0), 7)
		r.commit("g", "u", 0, 5)
		a := r.join("g", varve.JoinOptions{Instance: "first"}, "t")
		if _, err := r.part("u", 0).Trim(6); err != nil {
			r.t.Fatal(err)
		}
		r.forgetBelow(r.part("u", 0), 6)
		r.drain(a)
		if err := a.CommitOffsets(context.Background(), varve.Commit{Topic: "t", Offset: 3, Metadata: "three"}); err != nil {
			r.t.Fatal(err)
		}
		d := r.describe("g")
		if d.ID != "g" || d.Status != "Stable" || d.Members != 1 || d.Partitions != 2 || d.Lag != 8 || d.Assignor != "uniform" || d.Epoch == 0 {
			r.t.Errorf("the group is %+v", d)
		}
		if m := d.MemberList[0]; m.ID != a.ID() || m.Instance != "first" || m.Away || fmt.Sprint(m.Topics, m.Owned, m.Revoking) != "[t] [t/0 t/1] []" {
			r.t.Errorf("its member is %+v", m)
		}
		var rows []string
		for _, p := range d.PartitionList {
			rows = append(rows, fmt.Sprintf("%s/%d %t %d %q %d-%d %d %d %d %v", p.Topic, p.Partition, p.Owner == a.ID(),
				p.Committed, p.Metadata, p.Start, p.End, p.Lag, p.Lost, p.Above, p.Err))
		}
		want := "t/0 true 3 \"three\" 0-10 7 0 -1 <nil>\nt/1 true -1 \"\" 0-4 -1 0 -1 <nil>\nu/0 false 5 \"\" 6-7 1 1 -1 <nil>"
		if got := strings.Join(rows, "\n"); got != want {
			r.t.Errorf("its partitions are\n%s\nwant\n%s", got, want)
		}
		r.leave(a)
		if d := r.describe("g"); !d.MemberList[0].Away {
			r.t.Errorf("of a static member that left: %+v", d.MemberList[0])
		}
		list, err := r.engine.Groups()
		if err != nil || len(list) != 1 || list[0] != r.describe("g").GroupSummary {
			r.t.Errorf("groups are %v, %v", list, err)
		}
		if _, err := r.engine.DescribeGroup("h"); !errors.Is(err, varve.ErrNoGroup) {
			r.t.Error(err)
		}
	})
}

// While one member lets go the group is on its way, and who owns what is shown.
func TestDescribeWhileReconciling(t *testing.T) {
	bubble(t, func(r *rig) {
		r.topic("t", 2)
		var inside varve.GroupDescription
		a := r.join("g", varve.JoinOptions{OnRevoked: func(context.Context, []varve.TopicPartition) { inside = r.describe("g") }}, "t")
		r.drain(a)
		b := r.join("g", varve.JoinOptions{}, "t")
		r.drain(a)
		if inside.Status != "Reconciling" {
			r.t.Errorf("status is %s", inside.Status)
		}
		for _, m := range inside.MemberList {
			want := 0
			if m.ID == a.ID() {
				want = 1
				if len(m.Owned) != 2 {
					r.t.Errorf("it owns %v until it let go", m.Owned)
				}
			}
			if len(m.Revoking) != want {
				r.t.Errorf("%s lets go of %v", m.ID, m.Revoking)
			}
		}
		r.drain(b)
		r.drain(a)
		if d := r.describe("g"); d.Status != "Stable" {
			r.t.Errorf("status is %s", d.Status)
		}
	})
}

// That a place was brought down by a crash is shown until it moves.
func TestDescribeAfterACrash(t *testing.T) {
	r := newRig(t)
	p := r.one("durability=os")
	if _, err := p.Publish(context.Background(), text("lost"), text("lost")); err != nil {
		t.Fatal(err)
	}
	r.commit("g", "t", 0, 2)
	r.loud = true
	r.cut(vfs.CrashOptions{})
	if d := r.describe("g").PartitionList[0]; d.Above != 2 || d.Committed != 0 || d.Lag != 0 {
		t.Errorf("the place is %+v", d)
	}
	r.fill(r.part("t", 0), 1)
	r.commit("g", "t", 0, 1)
	if d := r.describe("g").PartitionList[0]; d.Above != -1 || d.Committed != 1 {
		t.Errorf("then it is %+v", d)
	}
}

func TestResetGroup(t *testing.T) {
	r := newRig(t)
	start := r.now.Load()
	r.topic("t", 2)
	r.topic("u", 1)
	for i := range 10 {
		r.fill(r.part("t", 0), 1)
		if i < 5 {
			r.fill(r.part("t", 1), 1)
		}
		r.advance(time.Minute)
	}
	reset := func(o varve.Reset) string {
		t.Helper()
		moves, err := r.engine.ResetGroup(context.Background(), "g", o)
		if err != nil {
			return err.Error()
		}
		var list []string
		for _, m := range moves {
			list = append(list, fmt.Sprintf("%s %d>%d", m.TopicPartition, m.Old, m.New))
			want := m.New
			if o.DryRun {
				want = m.Old
			}
			r.wantCommitted("g", m.Topic, m.Partition, want)
		}
		return strings.Join(list, ", ")
	}
	all := []string{"t"}
	for _, c := range []struct {
		name, want string
		o          varve.Reset
	}{
		{"no place", "reset group g: group does not exist", varve.Reset{}},
		{"dry run", "t/0 -1>10, t/1 -1>5", varve.Reset{Topics: all, To: varve.Latest(), DryRun: true}},
		{"latest", "t/0 -1>10, t/1 -1>5", varve.Reset{Topics: all, To: varve.Latest()}},
		{"back by shift", "t/0 10>7, t/1 5>2", varve.Reset{Shift: -3}},
		{"too far back", "t/0 7>1, t/1 2>0", varve.Reset{Shift: -6}},
		{"too far ahead", "t/0 1>10, t/1 0>5", varve.Reset{Shift: math.MaxInt64}},
		{"furthest back", "t/0 10>0, t/1 5>0", varve.Reset{Shift: math.MinInt64}},
		{"time", "t/0 0>3, t/1 0>3", varve.Reset{To: varve.AtTime(time.UnixMilli(start).Add(3 * time.Minute))}},
		{"ago", "t/0 3>8, t/1 3>5", varve.Reset{To: varve.Ago(2 * time.Minute)}},
		{"last", "t/0 8>6, t/1 5>1", varve.Reset{To: varve.Last(4)}},
		{"one partition", "t/1 1>4", varve.Reset{Partitions: []varve.TopicPartition{{Topic: "t", Partition: 1}}, To: varve.At(4)}},
		{"out of range", "reset group g: t/1: read t/1: offset 7 is out of range: there are offsets from 0 up to, not including, 5", varve.Reset{To: varve.At(7)}},
		{"still", "t/0 6>0, t/1 4>0", varve.Reset{}},
		{"no topic", "reset group g: topic x: topic does not exist", varve.Reset{Topics: []string{"x"}}},
		{"no partition", "reset group g: t/9: partition does not exist", varve.Reset{Partitions: []varve.TopicPartition{{Topic: "t", Partition: 9}}}},
		{"shift of nothing", "reset group g: u/0: group has no commit", varve.Reset{Topics: []string{"u"}, Shift: 1}},
	} {
		if got := reset(c.o); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	m := r.join("g", varve.JoinOptions{}, "t")
	for _, dry := range []bool{false, true} {
		if _, err := r.engine.ResetGroup(context.Background(), "g", varve.Reset{DryRun: dry}); !errors.Is(err, varve.ErrGroupNotEmpty) {
			t.Errorf("reset of a group with members: %v", err)
		}
	}
	r.leave(m)
	r.kill()
	r.wantCommitted("g", "t", 0, 0)
}
