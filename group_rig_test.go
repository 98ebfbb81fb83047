package varve_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
)

// bubble runs a test of groups in virtual time.
func bubble(t *testing.T, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newRig(t)) })
}

func (r *rig) join(groupID string, o varve.JoinOptions, topics ...string) *varve.Member {
	r.t.Helper()
	m, err := r.engine.Join(context.Background(), groupID, topics, o)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// drain polls until there is nothing more and returns the values by partition.
func (r *rig) drain(m *varve.Member) map[string][]string {
	r.t.Helper()
	got := map[string][]string{}
	for {
		p, ok, err := m.TryPoll(context.Background())
		if err != nil {
			r.t.Fatal(err)
		}
		if !ok {
			return got
		}
		name := fmt.Sprintf("%s/%d", p.Topic, p.Partition)
		for _, rec := range p.Records {
			got[name] = append(got[name], string(rec.Value))
		}
	}
}

// idlePoll does what the group wants of a member that has nothing to read.
func (r *rig) idlePoll(m *varve.Member) {
	r.t.Helper()
	if got := r.drain(m); len(got) > 0 {
		r.t.Errorf("member got %v", got)
	}
}

func (r *rig) commitPolled(m *varve.Member) {
	r.t.Helper()
	if err := m.Commit(context.Background()); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) leave(m *varve.Member) {
	r.t.Helper()
	if err := m.Leave(context.Background()); err != nil {
		r.t.Error(err)
	}
}

func owned(m *varve.Member) string {
	var list []string
	for _, p := range m.Owned() {
		list = append(list, p.String())
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// polling has a member poll in a goroutine of its own, for ever.
func (r *rig) polling(m *varve.Member) {
	go func() {
		for {
			if _, err := m.Poll(context.Background()); err != nil {
				return
			}
		}
	}()
	synctest.Wait()
}
