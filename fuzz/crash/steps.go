package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/varvelog/varve"
)

// topic is the one that a step names; nil where there is none.
func (l *life) topic(s Step) *varve.Topic {
	t, err := l.engine.Topic(s.Topic)
	if err != nil {
		return nil
	}
	return t
}

// part is the partition that a step names, as far as there are so many.
func (l *life) part(s Step) *varve.Partition {
	t := l.topic(s)
	if t == nil {
		return nil
	}
	p, _ := t.Partition(s.Part % t.Partitions())
	return p
}

func configOf(words []string) map[string]string {
	set := map[string]string{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		set[key] = value
	}
	return set
}

// configIn is what was set for a topic.
func configIn(t *varve.Topic) map[string]string {
	set := map[string]string{}
	for _, c := range t.Config() {
		if !c.Default {
			set[c.Key] = c.Value
		}
	}
	return set
}

func (l *life) create(s Step) {
	if l.topic(s) != nil {
		return
	}
	set, n := configOf(s.Words), max(s.N, 1)
	l.h.attempt(func(m *model) {
		slot := m.slot(s.Topic)
		slot.topics = append(slot.topics, newTopic(n, set))
	})
	t, err := l.engine.CreateTopic(s.Topic, varve.TopicConfig{Partitions: n, Config: set})
	if !l.ok("create", err) {
		return
	}
	id := t.ID()
	l.h.answer(func(m *model) {
		made := m.topic(s.Topic)
		made.id = id
		m.becomes(s.Topic, made)
	})
	l.taken(t)
}

func (l *life) remove(s Step) {
	if l.topic(s) == nil {
		return
	}
	l.h.attempt(func(m *model) { m.slot(s.Topic).absent = true })
	if l.ok("delete", l.engine.DeleteTopic(s.Topic)) {
		l.h.answer(func(m *model) { m.becomes(s.Topic, nil) })
	} else if t := l.topic(s); t != nil {
		l.taken(t)
	}
}

func (l *life) alter(s Step) {
	t := l.topic(s)
	if t == nil {
		return
	}
	set := configIn(t)
	maps.Copy(set, configOf(s.Words))
	l.h.attempt(func(m *model) {
		t := m.topic(s.Topic)
		t.configs = append(t.configs, set)
	})
	if l.ok("alter", t.Alter(configOf(s.Words))) {
		l.h.answer(func(m *model) { m.topic(s.Topic).configs = []map[string]string{set} })
	}
}

func (l *life) grow(s Step) {
	t := l.topic(s)
	if t == nil {
		return
	}
	total := t.Partitions() + max(s.N, 1)
	l.h.attempt(func(m *model) { m.topic(s.Topic).tried = max(m.topic(s.Topic).tried, total) })
	if !l.ok("grow", t.AddPartitions(total)) {
		return
	}
	l.h.answer(func(m *model) {
		m.topic(s.Topic).partitions, m.topic(s.Topic).tried = total, total
	})
	l.taken(t)
}

func (l *life) publish(s Step) {
	if t := l.topic(s); t != nil {
		l.batch(t, s.Part%t.Partitions(), max(s.N, 1), ackOf(s.Words), line{}, 0)
	}
}

// ackOf is the level that a publish asks for; 0 for the topic's.
func ackOf(words []string) varve.Durability {
	for _, w := range words {
		if level, err := varve.ParseDurability(w); err == nil {
			return level
		}
	}
	return 0
}

// line is a publisher whose records are in the order of their numbers; the zero line is
// the program itself.
type line struct{ id int64 }

// value makes the next value; padding of every length comes up, so that batches lie
// across sectors and pages in every way.
func (l *life) value(pad int) (value string, number int) {
	n := l.serial.Add(1)
	return fmt.Sprintf("%d.%d:%s", l.depth, n, strings.Repeat(string(rune('a'+n%26)), pad+int(n*37%71))), l.depth<<24 | int(n)
}

// batch publishes records as one batch and waits for the answer.
func (l *life) batch(t *varve.Topic, i, n int, ack varve.Durability, of line, pad int) {
	name := t.Name()
	recs, values := make([]varve.Record, n), make([]string, n)
	tries := make([]try, n)
	for k := range recs {
		value, number := l.value(pad)
		values[k] = value
		recs[k] = varve.Record{Value: []byte(value), Partition: int32(i)}
		tries[k] = try{batch: values[0], i: k, of: n, line: int(of.id), number: number}
	}
	l.h.attempt(func(m *model) {
		p := m.topic(name).part(i)
		for k, value := range values {
			p.tries[value] = tries[k]
		}
	})
	places, err := t.Publisher(varve.PublisherOptions{ByPartition: true, Ack: ack}).PublishAll(context.Background(), recs)
	if !l.ok("publish", err) {
		l.refused(name, i, err, values...)
		return
	}
	l.acknowledged(name, i, places[0].Offset, ack, values...)
}

func (l *life) acknowledged(name string, i int, off varve.Offset, ack varve.Durability, values ...string) {
	l.h.answer(func(m *model) {
		t := m.topic(name)
		p := t.part(i)
		for k, value := range values {
			m.place(name, i, p, off+varve.Offset(k), value)
		}
		if ack == 0 {
			ack = t.level()
		}
		if ack == varve.Fsync {
			p.durable = max(p.durable, off+varve.Offset(len(values)))
		}
	})
}

// refused notes records that are not stored, by what their publisher was told.
func (l *life) refused(name string, i int, err error, values ...string) {
	var maybe *varve.MaybeStoredError
	if errors.As(err, &maybe) {
		return
	}
	l.h.answer(func(m *model) {
		p := m.topic(name).part(i)
		for _, value := range values {
			t := p.tries[value]
			t.refused = true
			p.tries[value] = t
		}
	})
}

// crowd publishes from several goroutines, to all partitions and at all levels.
func (l *life) crowd(s Step) {
	t := l.topic(s)
	if t == nil {
		return
	}
	const publishers = 4
	var all sync.WaitGroup
	for g := range publishers {
		of := line{l.serial.Add(1)}
		first, ack := l.rng.IntN(t.Partitions()), varve.Durability(l.rng.IntN(4))
		all.Go(func() {
			for k := g; k < s.N; k += publishers {
				l.batch(t, (first+k)%t.Partitions(), 1+k%3, ack, of, 0)
			}
		})
	}
	all.Wait()
}

// burst publishes records without waiting, then waits for all.
func (l *life) burst(s Step) {
	t := l.topic(s)
	if t == nil {
		return
	}
	name, ack := s.Topic, ackOf(s.Words)
	pub := t.Publisher(varve.PublisherOptions{ByPartition: true, Ack: ack})
	of := l.serial.Add(1)
	for k := range s.N {
		i := k % t.Partitions()
		value, number := l.value(0)
		one := try{batch: value, of: 1, line: int(of), number: number}
		l.h.attempt(func(m *model) { m.topic(name).part(i).tries[value] = one })
		err := pub.PublishAsync(context.Background(), varve.Record{Value: []byte(value), Partition: int32(i)}, func(at varve.Place, err error) {
			if l.ok("publish", err) {
				l.acknowledged(name, i, at.Offset, ack, value)
			} else {
				l.refused(name, i, err, value)
			}
		})
		l.ok("publish", err)
	}
	l.ok("flush", pub.Flush(context.Background()))
}

// large is more than a round of the journal takes: the files are synced instead.
func (l *life) large(s Step) {
	if t := l.topic(s); t != nil {
		l.batch(t, s.Part%t.Partitions(), 1, ackOf(s.Words), line{}, 130<<10)
	}
}

func (l *life) durable(s Step) {
	p := l.part(s)
	if p == nil {
		return
	}
	end, i := p.LogEnd(), int(p.Index())
	if l.ok("wait until it is durable", p.WaitDurable(context.Background(), end)) {
		l.h.answer(func(m *model) {
			p := m.topic(s.Topic).part(i)
			p.durable = max(p.durable, end)
		})
	}
}

func (l *life) trim(s Step) {
	p := l.part(s)
	if p == nil {
		return
	}
	to, i := max(p.End()-varve.Offset(s.N), p.Start()), int(p.Index())
	l.h.attempt(func(m *model) {
		p := m.topic(s.Topic).part(i)
		p.aimed = max(p.aimed, to)
	})
	start, err := p.Trim(to)
	if l.ok("trim", err) {
		l.h.answer(func(m *model) {
			p := m.topic(s.Topic).part(i)
			p.start = max(p.start, start)
		})
	}
}

func (l *life) roll(s Step) {
	time.Sleep(time.Duration(s.N) * time.Second)
	l.retain(s)
}

// anywhere is above every offset.
const anywhere = varve.Offset(1) << 62

func (l *life) retain(Step) {
	l.h.attempt(func(m *model) {
		for _, slot := range m.topics {
			for _, t := range slot.topics {
				for i := range t.tried {
					if t.retains() {
						t.part(i).aimed = anywhere
					}
				}
			}
		}
	})
	l.ok("retention", l.engine.RunRetention())
	for _, t := range l.engine.Topics() {
		name, id := t.Name(), t.ID()
		for i := range t.Partitions() {
			p, _ := t.Partition(i)
			start := p.Start()
			l.h.answer(func(m *model) {
				if t := m.byID(name, id); t != nil {
					t.part(i).start = max(t.part(i).start, start)
				}
			})
		}
	}
}

// retains says whether retention may take anything of the topic.
func (t *topic) retains() bool {
	for _, c := range t.configs {
		if c["retention.bytes"] != "" || c["retention.ms"] != "-1" {
			return true
		}
	}
	return false
}

func (l *life) idle(s Step) { time.Sleep(time.Duration(s.N)*time.Second + 50*time.Millisecond) }

func (l *life) reopen(Step) {
	l.close()
	l.room(Step{})
	l.armed.Store(nil)
	l.faulted.Store(false)
	l.during("start")
	if l.open() {
		l.opened()
	}
}

func (l *life) full(s Step) {
	l.isFull.Store(true)
	l.troubled.Store(true)
	l.disk.Limit(l.disk.Used() + int64(s.N))
}

func (l *life) room(Step) {
	l.disk.Limit(-1)
	l.isFull.Store(false)
}

// fail has the next call of an operation on a file fail.
func (l *life) fail(s Step) {
	words := append(append([]string(nil), s.Words...), "", "", "")
	l.armed.Store(&fault{op: words[0], name: words[1], how: words[2]})
}
