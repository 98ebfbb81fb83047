package crash

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/varvelog/varve"
)

// model is what is known of an engine: what it has promised, and what was tried.
type model struct {
	topics map[string]*slot
	gone   map[uuid.UUID]string // ids of topics that were deleted for certain
	groups map[string]bool      // ids of those that anything was ever asked of
	rest   bool                 // it is closed, or closing, or opening after that: the next start may be clean
	wrong  []string             // promises that were broken before any crash
}

// slot is what a name may stand for. Several are possible after a call that did not
// return, or that failed.
type slot struct {
	topics []*topic // the last one is the one in use
	absent bool
}

// topic is what is known of one topic.
type topic struct {
	id         uuid.UUID // Nil: it never got to be known
	partitions int       // acknowledged
	tried      int       // asked for
	configs    []map[string]string
	parts      map[int]*part
}

// part is what is known of one partition.
type part struct {
	tries   map[string]try          // by value; what is not here was never published
	at      map[varve.Offset]string // acknowledged, or seen by a reader
	told    varve.Offset            // end of that
	durable varve.Offset            // what a power cut must not take
	start   varve.Offset            // acknowledged log start
	aimed   varve.Offset            // log start that was asked for
	epoch   int                     // of the engine that had it open last
	marks   map[string]mark         // by group
}

// try is one record that was asked to be stored.
type try struct {
	batch   string // batches are there whole or not at all
	i, of   int
	line    int // records of one line are in the order of their numbers
	number  int
	refused bool // the engine said that it is not stored
}

func newModel() *model {
	return &model{topics: map[string]*slot{}, gone: map[uuid.UUID]string{}, groups: map[string]bool{}}
}

func (m *model) clone() *model {
	c := newModel()
	c.rest, c.groups = m.rest, maps.Clone(m.groups)
	c.gone, c.wrong = maps.Clone(m.gone), slices.Clone(m.wrong)
	for name, s := range m.topics {
		t := &slot{absent: s.absent}
		for _, one := range s.topics {
			t.topics = append(t.topics, one.clone())
		}
		c.topics[name] = t
	}
	return c
}

func (t *topic) clone() *topic {
	c := *t
	c.configs = slices.Clone(t.configs) // the maps never change
	c.parts = make(map[int]*part, len(t.parts))
	for i, p := range t.parts {
		q := *p
		q.tries, q.at, q.marks = maps.Clone(p.tries), maps.Clone(p.at), maps.Clone(p.marks)
		c.parts[i] = &q
	}
	return &c
}

func newTopic(partitions int, config map[string]string) *topic {
	return &topic{partitions: partitions, tried: partitions, configs: []map[string]string{config}, parts: map[int]*part{}}
}

func (t *topic) part(i int) *part {
	p := t.parts[i]
	if p == nil {
		p = &part{tries: map[string]try{}, at: map[varve.Offset]string{}, epoch: -1}
		t.parts[i] = p
	}
	return p
}

// level is the weakest that the topic may be of now.
func (t *topic) level() varve.Durability {
	level := varve.Fsync
	for _, c := range t.configs {
		level = min(level, levelOf(c))
	}
	return level
}

func levelOf(config map[string]string) varve.Durability {
	if level, err := varve.ParseDurability(config["durability"]); err == nil {
		return level
	}
	return varve.Fsync
}

// slot is that of a name.
func (m *model) slot(name string) *slot {
	s := m.topics[name]
	if s == nil {
		s = &slot{absent: true}
		m.topics[name] = s
	}
	return s
}

// topic is the one in use under a name; an empty one where there is none.
func (m *model) topic(name string) *topic {
	if s := m.slot(name); len(s.topics) > 0 {
		return s.topics[len(s.topics)-1]
	}
	return newTopic(0, nil)
}

// becomes settles what a name stands for: nil for no topic. What it may have stood
// for otherwise is gone.
func (m *model) becomes(name string, t *topic) {
	s := m.slot(name)
	for _, old := range s.topics {
		if old != t && old.id != uuid.Nil {
			m.gone[old.id] = name
		}
	}
	s.topics, s.absent = nil, t == nil
	if t != nil {
		s.topics = []*topic{t}
	}
}

// place notes that a record is at an offset: by an acknowledgement or a reader.
func (m *model) place(name string, i int, p *part, off varve.Offset, value string) {
	if old, ok := p.at[off]; ok && old != value {
		m.wrong = append(m.wrong, fmt.Sprintf("promise 3: offset %d of %s/%d is that of %s and of %s", off, name, i, short(old), short(value)))
	}
	if t, ok := p.tries[value]; !ok {
		m.wrong = append(m.wrong, fmt.Sprintf("promise 5: a reader of %s/%d is given %s at offset %d, which was never published", name, i, short(value), off))
	} else if t.refused {
		m.wrong = append(m.wrong, fmt.Sprintf("promise 4: %s is at offset %d of %s/%d, and its publisher was told that it is not stored", short(value), off, name, i))
	}
	p.at[off] = value
	p.told = max(p.told, off+1)
}

// byID finds the topic of an id under a name.
func (m *model) byID(name string, id uuid.UUID) *topic {
	for _, t := range m.slot(name).topics {
		if t.id == id {
			return t
		}
	}
	return nil
}

// short is a value for messages: the padding is of no interest.
func short(value string) string {
	for i := range value {
		if value[i] == ':' {
			return value[:i]
		}
	}
	return fmt.Sprintf("%.40q", value)
}
