package group

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve/record"
)

var epoch2026 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func part(topic string, number int32) Partition { return Partition{topicID(topic), number} }

func set(t *testing.T, o *Offsets, p Partition, c Commit) {
	t.Helper()
	if err := o.Set(p, c); err != nil {
		t.Fatal(err)
	}
}

func TestOffsetsAreATable(t *testing.T) {
	var o Offsets
	if _, found := o.Get(part("t", 0)); found || o.Delete(part("t", 0)) || o.Len() != 0 || o.DropTopic(topicID("t")) != nil {
		t.Error("an empty table has something")
	}
	c := Commit{Offset: 42, LeaderEpoch: 3, Metadata: "m", Time: epoch2026}
	for _, p := range []Partition{part("u", 0), part("t", 2), part("t", 0)} {
		set(t, &o, p, Commit{Offset: 1})
		set(t, &o, p, c)
	}
	set(t, &o, part("t", 2), Commit{Offset: 7}) // lower: a reset
	if got, _ := o.Get(part("t", 0)); got != c {
		t.Errorf("%+v", got)
	}
	if got, _ := o.Get(part("t", 2)); got.Offset != record.Offset(7) {
		t.Errorf("%+v", got)
	}
	if want := []Partition{part("t", 0), part("t", 2), part("u", 0)}; !slices.Equal(o.Partitions(), want) || o.Len() != 3 {
		t.Errorf("%v", o.Partitions())
	}
	if !o.Delete(part("u", 0)) || o.Delete(part("u", 0)) || o.Len() != 2 {
		t.Error("a commit is deleted once")
	}
}

// A topic of the same name that was made anew has an id of its own.
func TestATopicMadeAnewHasNoCommits(t *testing.T) {
	var o Offsets
	set(t, &o, part("t@1", 0), Commit{Offset: 500})
	if _, found := o.Get(part("t@2", 0)); found {
		t.Error("a commit of the topic before is found")
	}
	set(t, &o, part("t@2", 0), Commit{Offset: 1})
	set(t, &o, part("t@1", 3), Commit{Offset: 500})
	if got := o.DropTopic(topicID("t@1")); !slices.Equal(got, []Partition{part("t@1", 0), part("t@1", 3)}) {
		t.Errorf("dropped %v", got)
	}
	if !slices.Equal(o.Partitions(), []Partition{part("t@2", 0)}) {
		t.Errorf("left %v", o.Partitions())
	}
}

// Metadata is counted as Kafka counts it, and one that is too long changes nothing.
func TestMetadataHasABound(t *testing.T) {
	for _, c := range []struct {
		metadata string
		length   int
	}{
		{"", 0},
		{strings.Repeat("m", 4096), 4096},
		{strings.Repeat("m", 4097), 4097},
		{strings.Repeat("ä", 4096), 4096},
		{strings.Repeat("🐟", 2048), 4096},
		{strings.Repeat("🐟", 2048) + "x", 4097},
		{strings.Repeat("\xff", 4097), 4097},
	} {
		var o Offsets
		set(t, &o, part("t", 1), Commit{Offset: 1})
		err := o.Set(part("t", 1), Commit{Offset: 2, Metadata: c.metadata})
		var long *MetadataError
		switch got, _ := o.Get(part("t", 1)); {
		case c.length <= 4096 && (err != nil || got.Offset != 2 || got.Metadata != c.metadata):
			t.Errorf("%d units: %v, %d", c.length, err, got.Offset)
		case c.length > 4096 && (!errors.As(err, &long) || long.Length != c.length || long.Partition != part("t", 1) || got.Offset != 1):
			t.Errorf("%d units: %v, %d", c.length, err, got.Offset)
		}
	}
}

func TestCommitsServeTheirTime(t *testing.T) {
	const day = 24 * time.Hour
	at := func(days int) time.Time { return epoch2026.Add(time.Duration(days) * day) }
	subscribed := func(id TopicID) bool { return id == topicID("t") }
	for _, c := range []struct {
		name   string
		commit Commit
		rule   Expiry
		last   int // day on which it is still there; -1: always
	}{
		{"a group with members, of its topic", Commit{Time: at(0)}, Expiry{Retention: 7 * day, Subscribed: subscribed}, -1},
		{"no longer subscribed", Commit{Time: at(1)}, Expiry{Retention: 7 * day, Subscribed: func(TopicID) bool { return false }}, 7},
		{"an empty group", Commit{Time: at(1)}, Expiry{Retention: 7 * day, EmptySince: at(5)}, 11},
		{"committed after it was empty", Commit{Time: at(6)}, Expiry{Retention: 7 * day, EmptySince: at(5)}, 12},
		{"for ever", Commit{Time: at(0)}, Expiry{EmptySince: at(0)}, -1},
		{"the longest retention", Commit{Time: at(0)}, Expiry{Retention: math.MaxInt64, EmptySince: at(0)}, -1},
		{"no time at all, the longest retention", Commit{}, Expiry{Retention: math.MaxInt64, EmptySince: at(0)}, -1},
		{"a time of its own", Commit{Time: at(0), Expires: at(3)}, Expiry{Retention: 7 * day, EmptySince: at(0)}, 2},
		{"a time of its own, of a topic in use", Commit{Time: at(0), Expires: at(3)}, Expiry{Retention: 7 * day, Subscribed: subscribed}, -1},
		{"a time of its own, for ever else", Commit{Time: at(0), Expires: at(3)}, Expiry{EmptySince: at(0)}, 2},
	} {
		var o Offsets
		set(t, &o, part("t", 3), c.commit)
		last := c.last
		if last < 0 {
			last = 10_000
		}
		if gone := o.Expire(at(last).Add(day-1), c.rule); gone != nil || o.Len() != 1 {
			t.Errorf("%s: gone before day %d ends", c.name, last)
		}
		if c.last < 0 {
			continue
		}
		if gone := o.Expire(at(last+1), c.rule); !slices.Equal(gone, []Partition{part("t", 3)}) || o.Len() != 0 {
			t.Errorf("%s: %v is gone on day %d", c.name, gone, last+1)
		}
	}
}

// The rule of a group follows its members and what they subscribe to.
func TestExpiryFollowsTheGroup(t *testing.T) {
	g := New("g", epoch2026, Options{})
	g.SetTopics(epoch2026, Topics{"t": {"t", topicID("t"), 1}, "u": {"u", topicID("u"), 1}})
	var o Offsets
	for _, name := range []string{"t", "u", "gone"} {
		set(t, &o, part(name, 0), Commit{Time: epoch2026})
	}
	if _, err := g.Join(epoch2026, Join{Member: "a", Topics: []string{"t"}, SessionTimeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	hour := epoch2026.Add(time.Hour - 1)
	if gone := o.Expire(hour, ExpiryOf(g, 30*time.Minute)); !slices.Equal(gone, []Partition{part("gone", 0), part("u", 0)}) {
		t.Errorf("gone: %v", gone)
	}
	if _, err := g.Leave(hour, "a", ""); err != nil {
		t.Fatal(err)
	}
	if gone := o.Expire(hour.Add(30*time.Minute-1), ExpiryOf(g, 30*time.Minute)); gone != nil {
		t.Errorf("gone: %v", gone)
	}
	if gone := o.Expire(hour.Add(30*time.Minute), ExpiryOf(g, 30*time.Minute)); !slices.Equal(gone, []Partition{part("t", 0)}) {
		t.Errorf("gone: %v", gone)
	}
}

func TestRestoreRefusesWhatCannotBe(t *testing.T) {
	p := []Partition{part("t", 0)}
	good := func() State {
		return State{ID: "g", Epoch: 5, TargetEpoch: 5, Topics: []Topic{{"t", topicID("t"), 2}}, Members: []MemberState{
			{ID: "a", Epoch: 5, PreviousEpoch: 4, Assigned: p, Target: p},
			{ID: "b", Instance: "i", Epoch: 3, Phase: Unrevoked, Revoke: []Partition{part("t", 1)}},
		}}
	}
	if _, err := Restore(epoch2026, good(), Options{}); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*State){
		"target ahead":         func(s *State) { s.TargetEpoch = 6 },
		"negative target":      func(s *State) { s.TargetEpoch, s.Members = -1, nil },
		"no id":                func(s *State) { s.Members[0].ID = "" },
		"one id twice":         func(s *State) { s.Members[1].ID = "a" },
		"one instance twice":   func(s *State) { s.Members[0].Instance = "i" },
		"two owners":           func(s *State) { s.Members[1].Assigned = p },
		"one owner, two roles": func(s *State) { s.Members[1].Assigned = s.Members[1].Revoke },
		"two heirs":            func(s *State) { s.Members[1].Target = p },
		"epoch ahead":          func(s *State) { s.Members[0].Epoch = 6 },
		"epoch of who left":    func(s *State) { s.Members[0].Epoch = EpochLeft },
		"previous ahead":       func(s *State) { s.Members[0].PreviousEpoch = 6 },
		"away and dynamic":     func(s *State) { s.Members[0].Epoch = EpochAway },
		"unknown phase":        func(s *State) { s.Members[0].Phase = 3 },
		"revokes nothing":      func(s *State) { s.Members[0].Phase = Unrevoked },
		"revokes and stable":   func(s *State) { s.Members[1].Phase = Stable },
		"revokes its target":   func(s *State) { s.Members[1].Epoch = 5 },
	} {
		s := good()
		spoil(&s)
		var bad *StateError
		if _, err := Restore(epoch2026, s, Options{}); !errors.As(err, &bad) || bad.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a caller gets is its own: changing it changes nothing of the group.
func TestCopiesAreCopies(t *testing.T) {
	g := New("g", epoch2026, Options{})
	g.SetTopics(epoch2026, Topics{"t": {"t", topicID("t"), 3}})
	topics := []string{"t"}
	d, err := g.Join(epoch2026, Join{Member: "a", Topics: topics})
	if err != nil {
		t.Fatal(err)
	}
	before := g.Snapshot()
	topics[0] = "u"
	spoilt := g.Describe()
	for _, list := range [][]Partition{d.Answer.Assigned, spoilt.Members[0].Assigned, spoilt.Members[0].Target} {
		list[0].Number = 99
	}
	spoilt.Topics[0].Partitions, spoilt.Members[0].Topics[0] = 0, "v"
	if after := g.Snapshot(); !reflect.DeepEqual(before, after) {
		t.Errorf("%+v\n%+v", before, after)
	}
	if since, empty := g.EmptySince(); empty || !since.IsZero() || !g.Subscribes(topicID("t")) || g.Subscribes(topicID("u")) {
		t.Error("the group is not what it is")
	}
}
