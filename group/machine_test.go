package group

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// process is a consumer as the world sees it: what it was told, and what it works
// on, which is what must never be worked on twice.
type process struct {
	id, instance string
	epoch        int32
	works        []Partition // also what it is to let go of and still has
	assigned     []Partition // by the last answer that arrived
}

// world is a group with its processes under a random schedule. Requests and answers
// get lost; a process handles one answer before it sends the next request.
type world struct {
	g       *Group
	now     time.Time
	topics  Topics
	live    map[string]*process // in the group, as far as they and the group know
	zombies map[string]*process // put out and not aware of it
	made    int                 // ids and topics that were
	wake    map[string]bool     // who was to be woken and was not since
	state   State               // after the last decision
	broken  string              // what a decision got wrong
}

func newWorld(t *rapid.T) *world {
	o := Options{MaxSize: rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max size")}
	o.Assignor = rapid.SampledFrom([]Assignor{Uniform{}, Uniform{}, Range{}, &slow{}}).Draw(t, "assignor")
	w := &world{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), topics: Topics{},
		live: map[string]*process{}, zombies: map[string]*process{}, wake: map[string]bool{},
	}
	w.g = New("g", w.now, o)
	w.state = w.g.Snapshot()
	for range 2 {
		w.newTopic(t)
	}
	return w
}

// slow is an assignor whose targets are waited for.
type slow struct {
	Uniform
	ready bool
}

func (s *slow) Assign(spec Spec) (Target, bool) {
	if !s.ready {
		return nil, false
	}
	s.ready = false
	return s.Uniform.Assign(spec)
}

// reassign asks for a target, and has it ready.
func (w *world) reassign() {
	if s, is := w.g.options.Assignor.(*slow); is {
		s.ready = true
	}
	w.take(w.g.Reassign(w.now))
}

func (w *world) number() int {
	w.made++
	return w.made
}

// take applies a decision to the world: who was put out, who is to be woken.
func (w *world) take(d Decision) {
	state := w.g.Snapshot()
	if d.Changed == reflect.DeepEqual(state, w.state) {
		w.broken = fmt.Sprintf("the decision says that the state changed: %t\nbefore %+v\nafter  %+v", d.Changed, w.state, state)
	}
	w.state = state
	for _, f := range d.Fenced {
		if p := w.live[f.Member]; p != nil && p.epoch != EpochAway {
			w.zombies[f.Member] = p
		}
		delete(w.live, f.Member)
		delete(w.wake, f.Member)
	}
	for _, id := range d.Wake {
		w.wake[id] = true
	}
}

// hear is a process that gets an answer: it begins to work on what is new, and
// goes on with what it is to let go of until it is done with it.
func (p *process) hear(a Answer) {
	p.epoch = a.Epoch
	p.assigned = a.Assigned
	p.works = union(p.works, a.Assigned)
}

// finish lets go of all that is not the process's any more.
func (p *process) finish() { p.works, _ = split(p.works, p.assigned) }

func (p *process) heartbeat() Heartbeat {
	return Heartbeat{Member: p.id, Instance: p.instance, Epoch: p.epoch, Owned: append([]Partition{}, p.works...)}
}

// pick picks a process, nil where there is none.
func pick(t *rapid.T, of map[string]*process) *process {
	if len(of) == 0 {
		return nil
	}
	return of[rapid.SampledFrom(slices.Sorted(maps.Keys(of))).Draw(t, "who")]
}

// present picks a live process that is not away, nil where there is none.
func (w *world) present(t *rapid.T) *process {
	there := maps.Clone(w.live)
	maps.DeleteFunc(there, func(_ string, p *process) bool { return p.epoch == EpochAway })
	return pick(t, there)
}

func (w *world) subscription(t *rapid.T) []string {
	names := slices.Sorted(maps.Keys(w.topics))
	names = append(names, "missing")
	if rapid.IntRange(0, 2).Draw(t, "all topics") > 0 {
		return names
	}
	return rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "topics")
}

func (w *world) join(t *rapid.T, p *process) {
	d, err := w.g.Join(w.now, Join{
		Member: p.id, Instance: p.instance, Topics: w.subscription(t),
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 6 * time.Second,
	})
	w.take(d)
	p.works, p.assigned = nil, nil
	if err != nil {
		if w.live[p.id] == p {
			t.Fatalf("a member of the group cannot join it again: %v", err)
		}
		return
	}
	for id, other := range w.live {
		if other != p && (id == p.id || p.instance != "" && other.instance == p.instance) {
			delete(w.live, id) // whose place it has
			delete(w.wake, id)
		}
	}
	delete(w.zombies, p.id)
	delete(w.wake, p.id)
	w.live[p.id] = p
	p.epoch = 0
	if w.lost(t) {
		w.wake[p.id] = true
		return
	}
	p.hear(d.Answer)
}

func (w *world) lost(t *rapid.T) bool { return rapid.IntRange(0, 4).Draw(t, "lost") == 0 }

func (w *world) newTopic(t *rapid.T) {
	name := fmt.Sprintf("t%d", rapid.IntRange(0, 3).Draw(t, "topic"))
	topics := maps.Clone(w.topics)
	topics[name] = Topic{name, topicID(fmt.Sprint(name, "@", w.number())), int32(rapid.IntRange(1, 6).Draw(t, "partitions"))}
	w.setTopics(topics)
}

func (w *world) setTopics(topics Topics) {
	w.topics = topics
	w.take(w.g.SetTopics(w.now, topics))
}

// beat sends a heartbeat whose answer arrives or not.
func (w *world) beat(t *rapid.T, p *process, h Heartbeat, lost bool) {
	d, err := w.g.Heartbeat(w.now, h)
	w.take(d)
	if err != nil {
		if w.live[p.id] == p {
			t.Fatalf("the heartbeat of %+v is refused: %v", p, err)
		}
		return
	}
	delete(w.wake, p.id)
	if slices.Contains(d.Wake, p.id) || len(d.Answer.Revoke) > 0 || lost {
		w.wake[p.id] = true // with something to let go of or without an answer it comes by itself
	}
	if !lost {
		p.hear(d.Answer)
	}
}

// actions are the steps that are drawn from. One that finds nothing to act on does nothing.
func (w *world) actions() map[string]func(*rapid.T) {
	with := func(do func(*rapid.T, *process)) func(*rapid.T) {
		return func(t *rapid.T) {
			if p := w.present(t); p != nil {
				do(t, p)
			}
		}
	}
	withZombie := func(do func(*rapid.T, *process)) func(*rapid.T) {
		return func(t *rapid.T) {
			if p := pick(t, w.zombies); p != nil {
				do(t, p)
			}
		}
	}
	return map[string]func(*rapid.T){
		"join": func(t *rapid.T) {
			w.join(t, &process{id: fmt.Sprintf("m%02d", w.number())})
		},
		"join static": func(t *rapid.T) {
			id := rapid.SampledFrom([]string{fmt.Sprintf("s%02d", w.number()), "s"}).Draw(t, "id")
			instance := rapid.SampledFrom([]string{"i", "j"}).Draw(t, "instance")
			if p := w.live[id]; p == nil || p.epoch == EpochAway {
				w.join(t, &process{id: id, instance: instance})
			}
		},
		"join again": with(w.join),
		"beat": with(func(t *rapid.T, p *process) {
			w.beat(t, p, p.heartbeat(), w.lost(t))
		}),
		"finish and beat": with(func(t *rapid.T, p *process) {
			p.finish()
			w.beat(t, p, p.heartbeat(), w.lost(t))
		}),
		"subscribe": with(func(t *rapid.T, p *process) {
			h := p.heartbeat()
			h.Topics = w.subscription(t)
			w.beat(t, p, h, w.lost(t))
		}),
		"leave": with(func(t *rapid.T, p *process) {
			d, err := w.g.Leave(w.now, p.id, p.instance)
			w.take(d)
			if err != nil && w.live[p.id] == p {
				t.Fatal(err)
			}
			delete(w.live, p.id)
			delete(w.wake, p.id)
		}),
		"leave for now": with(func(t *rapid.T, p *process) {
			d, err := w.g.LeaveForNow(w.now, p.id, p.instance)
			w.take(d)
			if err != nil && w.live[p.id] == p {
				t.Fatal(err)
			}
			p.works, p.epoch = nil, EpochAway
			delete(w.wake, p.id)
			if p.instance == "" || w.live[p.id] != p {
				delete(w.live, p.id)
			}
		}),
		"time": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "timer") {
				w.take(w.g.Expire(w.now))
			}
		},
		"zombie":            withZombie(w.zombie),
		"zombie comes back": withZombie(w.join),
		"wrong epoch": with(func(t *rapid.T, p *process) {
			h := p.heartbeat()
			h.Epoch += int32(rapid.SampledFrom([]int{-7, -3, -2, 5, 100}).Draw(t, "epoch"))
			if m := w.g.find(p.id); m == nil || h.Epoch != m.epoch && h.Epoch != m.previous {
				w.refused(t, h)
			}
		}),
		"new topic": w.newTopic,
		"more partitions": func(t *rapid.T) {
			w.alter(t, func(topic *Topic) bool { topic.Partitions++; return true })
		},
		"topic gone": func(t *rapid.T) {
			w.alter(t, func(*Topic) bool { return false })
		},
		"reassign": func(t *rapid.T) { w.reassign() },
		"restart":  w.restart,
		"settle":   w.settle,
		"":         w.check,
	}
}

func (w *world) alter(t *rapid.T, f func(*Topic) bool) {
	if len(w.topics) == 0 {
		return
	}
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.topics))).Draw(t, "topic")
	topics := maps.Clone(w.topics)
	topic := topics[name]
	if delete(topics, name); f(&topic) {
		topics[name] = topic
	}
	w.setTopics(topics)
}

// zombie is a process that was put out and does not know: nothing it sends is
// heard, and nothing of it changes anything.
func (w *world) zombie(t *rapid.T, p *process) {
	w.refused(t, p.heartbeat())
	if err := w.g.CheckCommit(p.id, p.instance, p.epoch); err == nil {
		t.Fatalf("a commit of %+v, which was put out, is good", p)
	}
}

// refused sends what must be answered with a typed error and change nothing.
func (w *world) refused(t *rapid.T, h Heartbeat) {
	w.take(w.g.Expire(w.now))
	before := w.g.Snapshot()
	d, err := w.g.Heartbeat(w.now, h)
	var unknown *UnknownMemberError
	var fenced *FencedError
	var instance *InstanceError
	if !errors.As(err, &unknown) && !errors.As(err, &fenced) && !errors.As(err, &instance) {
		t.Fatalf("%+v: %v", h, err)
	}
	if !reflect.DeepEqual(d, Decision{}) || !reflect.DeepEqual(before, w.g.Snapshot()) {
		t.Fatalf("%+v was refused and changed something: %+v", h, d)
	}
}

// restart keeps the state and restores it; the machine is the same.
func (w *world) restart(t *rapid.T) {
	w.take(w.g.Expire(w.now))
	before := w.g.Snapshot()
	g, err := Restore(w.now, before, w.g.options)
	if err != nil {
		t.Fatal(err)
	}
	if after := g.Snapshot(); !reflect.DeepEqual(before, after) {
		t.Fatalf("a restart makes\n%+v\nof\n%+v", after, before)
	}
	if !maps.EqualFunc(w.g.owners, g.owners, func(a, b *member) bool { return a.id == b.id }) {
		t.Fatal("a restart changes who has what")
	}
	w.g = g
	if d := g.SetTopics(w.now, w.topics); d.Changed {
		t.Fatalf("the same topics change something after a restart: %+v", d)
	}
}

// check holds the invariants after every event.
func (w *world) check(t *rapid.T) {
	if w.broken != "" {
		t.Fatal(w.broken)
	}
	at := map[Partition]string{}
	for _, id := range slices.Sorted(maps.Keys(w.live)) {
		for _, p := range w.live[id].works {
			if at[p] != "" {
				t.Fatalf("%v is worked on by %s and by %s", p, at[p], id)
			}
			at[p] = id
			if _, late := w.lateness(id); !late {
				if owner, _ := w.g.Owner(p); owner != id {
					t.Fatalf("%s works on %v, and the group has it as %q's", id, p, owner)
				}
			}
		}
	}
	before := w.g.Snapshot()
	if _, err := Restore(w.now, before, w.g.options); err != nil {
		t.Fatal(err)
	}
	if at, any := w.g.NextDeadline(); len(before.Members) > 0 && (!any || w.missed(at)) {
		t.Fatalf("the next deadline is %v, and members have others", at)
	}
}

// lateness says whether the member's deadline has passed and nothing has come since.
func (w *world) lateness(id string) (time.Time, bool) {
	m := w.g.find(id)
	if m == nil {
		return time.Time{}, true
	}
	at, _ := m.deadline()
	return at, !w.now.Before(at)
}

func (w *world) missed(at time.Time) bool {
	return slices.ContainsFunc(w.g.members, func(m *member) bool {
		deadline, _ := m.deadline()
		return deadline.Before(at)
	})
}

// settle lets everybody behave until nobody is to be woken. Then every partition
// somebody subscribes to has its owner, and nothing moves any more.
func (w *world) settle(t *rapid.T) {
	w.take(w.g.Expire(w.now))
	if w.g.Status() == Assigning {
		w.reassign()
	}
	if rapid.Bool().Draw(t, "all") {
		for id, p := range w.live {
			w.wake[id] = p.epoch != EpochAway
		}
	}
	for rounds := 0; len(w.wake) > 0; rounds++ {
		if rounds > 50*(len(w.live)+1) {
			t.Fatalf("it does not settle: %+v", w.g.Describe())
		}
		id := slices.Sorted(maps.Keys(w.wake))[0]
		delete(w.wake, id)
		p := w.live[id]
		if p == nil || p.epoch == EpochAway {
			continue
		}
		p.finish()
		w.beat(t, p, p.heartbeat(), false)
	}
	w.settled(t)
}

func (w *world) settled(t *rapid.T) {
	for _, m := range w.g.members {
		if m.away() || w.live[m.id] == nil {
			return // holds what it holds until it comes back or is put out
		}
	}
	for _, m := range w.g.members {
		if !slices.Equal(m.assigned, m.target) || len(m.revoking) > 0 {
			t.Fatalf("nobody is to be woken, and %s has %v and is to have %v", m.id, m.assigned, m.target)
		}
		if p := w.live[m.id]; !slices.Equal(p.works, m.assigned) {
			t.Fatalf("%s works on %v and may on %v", m.id, p.works, m.assigned)
		}
	}
	for _, topic := range w.g.topics {
		for number := range topic.Partitions {
			if _, owned := w.g.Owner(Partition{topic.ID, number}); !owned {
				t.Fatalf("%s/%d has no owner: %+v", topic.Name, number, w.g.Describe())
			}
		}
	}
}

func TestUnderAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range 8 {
			t.Repeat(w.actions())
			w.settle(t)
		}
	})
}
