package varve_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/varvelog/varve"
)

// The topic of commits was taken away: that groups begin anew is told as damage, after a
// kill as after a clean stop, and only where it may be that topic.
func TestLostTopicOfCommitsIsDamage(t *testing.T) {
	const damaged = "commits of groups are damaged"
	for name, stop := range map[string]func(*rig){
		"stopped": (*rig).close,
		"killed": func(r *rig) {
			left := r.disk.Clone()
			r.close()
			r.disk = left
		},
	} {
		for _, topic := range []string{"__consumer_offsets", "t"} {
			t.Run(name+", "+topic, func(t *testing.T) {
				r := newRig(t)
				r.fill(r.one(), 5)
				r.topic("u", 1)
				r.commit("g", "u", 0, 0)
				r.commit("g", "t", 0, 3)
				stop(r)
				if err := r.disk.RemoveAll("topics/" + topic); err != nil {
					t.Fatal(err)
				}
				r.loud = true
				r.engine = nil
				r.open()
				if topic == "t" {
					r.forget("t")
				}
				if r.logged.first(isMissing) == "" {
					t.Error("the log does not say that a topic is missing")
				}
				r.wantCommitted("g", "t", 0, -1)
				if said := r.logged.first(damaged); (said != "") != (topic != "t") || said != "" && !strings.Contains(said, "__consumer_offsets") {
					t.Errorf("of the commits it says %q", said)
				}
				late := r.join("g", varve.JoinOptions{From: varve.Latest()}, "u")
				if _, _, err := late.TryPoll(context.Background()); errors.Is(err, varve.ErrNoCommit) != (topic != "t") {
					t.Errorf("a group that had a place is given %v", err)
				}
				r.leave(late)
				r.commit("g", "u", 0, 0)
				r.kill()
				r.wantCommitted("g", "u", 0, 0)
			})
		}
	}
}
