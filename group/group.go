package group

import (
	"slices"
	"strings"
	"time"
)

// Defaults of Kafka's consumer groups.
const (
	DefaultSessionTimeout   = 45 * time.Second
	DefaultRebalanceTimeout = 5 * time.Minute
)

// Options of a group. The zero value is a sound setting.
type Options struct {
	// Assignor makes the target assignments. Nil: Uniform.
	Assignor Assignor

	// MaxSize is how many members there may be. 0: any number.
	MaxSize int
}

// Group is one consumer group: its members, who of them holds which partition,
// and who is to hold which.
//
// A Group is not safe for concurrent use: its owner calls one method after the
// other. Every event takes the time it comes at, which must not go back; one
// that comes after a deadline finds the member fenced, whether a timer fired
// or not. Requests of one member must come in the order it sent them; they and
// their answers may get lost or come twice in a row.
type Group struct {
	id      string
	options Options

	members []*member             // by id
	owners  map[Partition]*member // whoever may still work on it: assigned or revoking
	catalog Topics
	topics  []Topic // of the catalog, those that a member subscribes to, by name

	epoch       int32 // rises when members, subscriptions or their topics change
	targetEpoch int32 // the epoch the members' targets were made for
	emptySince  time.Time

	// nextDeadline is no later than the first deadline of a member; zero: there is none.
	nextDeadline time.Time
}

// New returns a group without members that is empty since now.
func New(id string, now time.Time, o Options) *Group {
	if o.Assignor == nil {
		o.Assignor = Uniform{}
	}
	return &Group{id: id, options: o, owners: map[Partition]*member{}, emptySince: now}
}

// EmptySince returns when the last member went, or false while there is one.
// An empty group without commits can be forgotten.
func (g *Group) EmptySince() (time.Time, bool) {
	return g.emptySince, len(g.members) == 0
}

// Subscribes says whether any member subscribes to the topic.
func (g *Group) Subscribes(id TopicID) bool {
	return slices.ContainsFunc(g.topics, func(t Topic) bool { return t.ID == id })
}

// begin starts an event: the time that has passed since the last one comes first.
func (g *Group) begin(now time.Time) *step {
	s := &step{}
	g.expire(s, now)
	return s
}

func (g *Group) find(id string) *member {
	if i, found := g.place(id); found {
		return g.members[i]
	}
	return nil
}

func (g *Group) place(id string) (int, bool) {
	return slices.BinarySearchFunc(g.members, id, func(m *member, id string) int { return strings.Compare(m.id, id) })
}

// holder returns the member that has an instance id, or nil.
func (g *Group) holder(instance string) *member {
	i := slices.IndexFunc(g.members, func(m *member) bool { return instance != "" && m.instance == instance })
	if i < 0 {
		return nil
	}
	return g.members[i]
}

// known returns the member that sent a request, or why it is not one.
func (g *Group) known(id, instance string) (*member, error) {
	m, holder := g.find(id), g.holder(instance)
	switch {
	case holder != nil && holder != m:
		return nil, &InstanceError{g.id, id, instance, holder.id}
	case m == nil || m.instance != instance && instance != "":
		return nil, &UnknownMemberError{g.id, id}
	}
	return m, nil
}

func (g *Group) insert(m *member) {
	i, _ := g.place(m.id)
	g.members = slices.Insert(g.members, i, m)
	g.emptySince = time.Time{}
}

// remove takes a member out; what it held is free at once. A new epoch is due.
func (g *Group) remove(s *step, now time.Time, m *member) {
	g.release(s, m.assigned)
	g.release(s, m.revoking)
	i, _ := g.place(m.id)
	g.members = slices.Delete(g.members, i, i+1)
	if len(g.members) == 0 {
		g.emptySince = now
	}
}

// heard extends the member's session.
func (g *Group) heard(m *member, now time.Time) {
	m.sessionEnd = now.Add(m.session)
	g.expect(m)
}

// expect makes sure that the member's deadline is not missed.
func (g *Group) expect(m *member) {
	if at, _ := m.deadline(); g.nextDeadline.IsZero() || at.Before(g.nextDeadline) {
		g.nextDeadline = at
	}
}
