package varve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// groupPlace is what is known of a group's place in a partition.
type groupPlace struct {
	acked varve.Offset   // -1: none
	maybe []varve.Offset // asked for since
}

// places are those of all groups, by "group topic/partition", while a story is played.
type places struct {
	all     map[string]*groupPlace
	closely [2]int64 // calls between which the power goes off at each
}

func newPlaces() *places { return &places{all: map[string]*groupPlace{}} }

func (p *places) of(group, topic string, part int32) *groupPlace {
	name := fmt.Sprintf("%s %s/%d", group, topic, part)
	if p.all[name] == nil {
		p.all[name] = &groupPlace{acked: -1}
	}
	return p.all[name]
}

// change is one change of places: it is asked for, and in force once it is acknowledged.
func (p *places) change(list []*groupPlace, to varve.Offset, try func() error) error {
	for _, at := range list {
		at.maybe = append(at.maybe, to)
	}
	err := try()
	if err == nil {
		for _, at := range list {
			*at = groupPlace{acked: to}
		}
	}
	return err
}

// those are the places of a group, or in a topic; "" stands for any.
func (p *places) those(group, topic string) (list []*groupPlace) {
	for _, name := range slices.Sorted(maps.Keys(p.all)) {
		id, at, _ := strings.Cut(name, " ")
		if (group == "" || id == group) && (topic == "" || strings.HasPrefix(at, topic+"/")) {
			list = append(list, p.all[name])
		}
	}
	return list
}

// commitAll commits one offset in all partitions of a topic, with metadata that makes
// the topic of commits grow.
func (p *places) commitAll(group, topic string, off varve.Offset, metadata int) act {
	return func(w *world) {
		var commits []varve.Commit
		var list []*groupPlace
		for i := range w.topics[topic].partitions {
			commits = append(commits, varve.Commit{Topic: topic, Partition: int32(i), Offset: off, Metadata: strings.Repeat("日", metadata)})
			list = append(list, p.of(group, topic, int32(i)))
		}
		w.ok("commit", p.change(list, off, func() error { return w.engine.CommitOffsets(context.Background(), group, commits...) }))
	}
}

// work has a member join, take everything, commit and leave.
func (p *places) work(group, topic string, n int) act {
	return func(w *world) {
		ctx := context.Background()
		m, err := w.engine.Join(ctx, group, []string{topic}, varve.JoinOptions{MaxRecords: n})
		if !w.ok("join", err) {
			return
		}
		for {
			polled, ok, err := m.TryPoll(ctx)
			if !w.ok("poll", err) || !ok {
				break
			}
			next := polled.Records[len(polled.Records)-1].Offset + 1
			at := p.of(group, topic, polled.Partition)
			w.ok("commit", p.change([]*groupPlace{at}, next, func() error { return m.Commit(ctx) }))
		}
		w.ok("leave", m.Leave(ctx))
	}
}

func (p *places) deleteGroup(group string) act {
	return func(w *world) {
		w.ok("delete group", p.change(p.those(group, ""), -1, func() error { return w.engine.DeleteGroup(group) }))
	}
}

func (p *places) deleteTopic(topic string) act {
	return func(w *world) {
		for _, at := range p.those("", topic) {
			at.maybe = append(at.maybe, -1)
		}
		if remove(topic)(w); w.doubt == "" {
			for _, at := range p.those("", topic) {
				*at = groupPlace{acked: -1}
			}
		}
	}
}

// check holds an engine against what is known.
func (p *places) check(t *testing.T, name string, e *varve.Engine) {
	t.Helper()
	found := map[string]varve.Offset{}
	for _, at := range slices.Sorted(maps.Keys(p.all)) {
		id, _, _ := strings.Cut(at, " ")
		list, err := e.Commits(id)
		if err != nil && !errors.Is(err, varve.ErrNoGroup) {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range list {
			found[fmt.Sprintf("%s %s/%d", id, c.Topic, c.Partition)] = c.Offset
		}
	}
	for at, known := range p.all {
		got, some := found[at]
		if !some {
			got = -1
		}
		if got != known.acked && !slices.Contains(known.maybe, got) {
			t.Errorf("%s: %s is at %d, was acknowledged at %d (perhaps %v)", name, at, got, known.acked, known.maybe)
		}
	}
}

// look is an act at each of whose calls the power goes off, however few trials there are
// of the others.
func (p *places) look(a act) act {
	return func(w *world) {
		from := w.calls.Load()
		a(w)
		p.closely = [2]int64{from, w.calls.Load()}
	}
}

// groupStories are programs of what can be asked of groups.
var groupStories = map[string]func(p *places) []act{
	"commits": func(p *places) []act {
		return []act{
			create("a", 2, small), publishMany("a", 12), p.commitAll("g", "a", 2, 0), p.work("h", "a", 4), p.commitAll("g", "a", 5, 10),
			restart, p.commitAll("g", "a", 1, 0), idle, publishMany("a", 4), p.work("h", "a", 1), p.work("i", "a", 100),
		}
	},
	"deletions": func(p *places) []act {
		return []act{
			create("a", 2, small), create("b", 1, small), publishOne("a", 3), p.commitAll("g", "a", 2, 0), p.commitAll("h", "a", 1, 0),
			p.commitAll("g", "b", 0, 0), p.deleteGroup("g"), p.commitAll("g", "a", 3, 0), p.deleteTopic("a"),
			create("a", 2, small), publishOne("a", 2), p.work("h", "a", 1), restart, p.deleteGroup("h"), p.work("h", "a", 2),
		}
	},
	"compaction": func(p *places) []act {
		acts := []act{create("a", 8), publishMany("a", 8*20), p.commitAll("still", "a", 7, 0)}
		for i := range varve.Offset(12) {
			acts = append(acts, p.commitAll("g", "a", i, 4000))
		}
		return append(acts, p.look(idle), p.commitAll("g", "a", 3, 4000), p.commitAll("h", "a", 4, 0), restart, p.commitAll("g", "a", 8, 0), idle)
	},
}

// The power goes off at every call that changes the disk. What was committed before is
// there afterwards, and what was forgotten is not.
func TestCommitsSurviveEveryCrash(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	for name, story := range groupStories {
		t.Run(name, func(t *testing.T) {
			var total int64
			var near [2]int64
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, name)
				p := newPlaces()
				w.play(story(p))
				total, near = w.calls.Load(), p.closely
				if w.close() {
					p.check(t, name, reopened(t, w.disk))
				}
			})
			for n := int64(1); n <= total && !t.Failed(); n++ {
				if n%int64(stride(9)) == 0 || near[0] <= n && n <= near[1] {
					synctest.Test(t, func(t *testing.T) { crashGroups(t, story, n) })
				}
			}
			t.Logf("%d calls", total)
		})
	}
}

func crashGroups(t *testing.T, story func(*places) []act, n int64) {
	w := newWorld(t, fmt.Sprintf("cut at call %d", n))
	w.limit.Store(n)
	p := newPlaces()
	w.play(story(p))
	w.stop()
	for _, how := range engineCuts(n, 2) {
		name := fmt.Sprintf("%s, %s, names %s, seed %d", w.name, how.Unsynced, how.Names, how.Seed)
		disk := w.disk.Crash(how)
		e := reopened(t, disk)
		p.check(t, name, e)
		again := disk.Crash(vfs.CrashOptions{})
		if err := e.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		e = reopened(t, again)
		p.check(t, name+", and again", e)
		if err := e.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// reopened is an engine on what a crash has left.
func reopened(t *testing.T, disk *vfs.Mem) *varve.Engine {
	t.Helper()
	e, err := varve.OpenFS(disk, varve.Options{Logger: silent(), CacheBytes: -1, JournalBytes: smallJournal})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
