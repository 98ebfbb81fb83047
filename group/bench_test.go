package group

import (
	"fmt"
	"testing"
	"time"
)

// crowd is a group of 1,000 partitions and its members, all settled.
type crowd struct {
	g       *Group
	now     time.Time
	answers map[string]Answer
}

func newCrowd(b *testing.B, topics, members int, a Assignor) *crowd {
	b.Helper()
	c := &crowd{g: New("g", epoch2026, Options{Assignor: a}), now: epoch2026, answers: map[string]Answer{}}
	catalog := Topics{}
	for i := range topics {
		name := fmt.Sprintf("t%03d", i)
		catalog[name] = Topic{name, topicID(name), int32(1000 / topics)}
	}
	c.g.SetTopics(c.now, catalog)
	for i := range members {
		c.join(b, fmt.Sprintf("m%03d", i))
	}
	return c
}

// join lets a member in and everybody act until all is settled again.
func (c *crowd) join(b *testing.B, id string) {
	d, err := c.g.Join(c.now, Join{Member: id, Topics: c.names()})
	if err != nil {
		b.Fatal(err)
	}
	c.settle(b, d)
}

func (c *crowd) names() []string {
	var names []string
	for name := range c.g.catalog {
		names = append(names, name)
	}
	return names
}

func (c *crowd) leave(b *testing.B, id string) {
	d, err := c.g.Leave(c.now, id, "")
	if err != nil {
		b.Fatal(err)
	}
	delete(c.answers, id)
	c.settle(b, d)
}

func (c *crowd) settle(b *testing.B, d Decision) {
	queue := c.heard(nil, d)
	for len(queue) > 0 {
		last := c.answers[queue[0]]
		d, err := c.g.Heartbeat(c.now, Heartbeat{Member: last.Member, Epoch: last.Epoch, Owned: append([]Partition{}, last.Assigned...)})
		if err != nil {
			b.Fatal(err)
		}
		queue = c.heard(queue[1:], d)
	}
	if c.g.Status() == Reconciling {
		for _, m := range c.g.members {
			if m.phase != Stable {
				b.Fatalf("%s is %v", m.id, m.phase)
			}
		}
	}
}

func (c *crowd) heard(queue []string, d Decision) []string {
	if a := d.Answer; a.Epoch > 0 {
		c.answers[a.Member] = a
		if len(a.Revoke) > 0 {
			queue = append(queue, a.Member)
		}
	}
	return append(queue, d.Wake...)
}

// BenchmarkRebalance is a member that comes and one that goes, among 100 with 1,000
// partitions: the assignment and every heartbeat until all have what they are to have.
func BenchmarkRebalance(b *testing.B) {
	for _, a := range []Assignor{Uniform{}, Range{}} {
		for _, topics := range []int{1, 10, 1000} {
			b.Run(fmt.Sprintf("%s/topics=%d", a.Name(), topics), func(b *testing.B) {
				c := newCrowd(b, topics, 99, a)
				for b.Loop() {
					c.join(b, "extra")
					c.leave(b, "extra")
				}
			})
		}
	}
}

// BenchmarkFromNothing is 100 members that come one after the other.
func BenchmarkFromNothing(b *testing.B) {
	for b.Loop() {
		newCrowd(b, 8, 100, Uniform{})
	}
}

// BenchmarkHeartbeat is one in a settled group.
func BenchmarkHeartbeat(b *testing.B) {
	c := newCrowd(b, 8, 100, Uniform{})
	last := c.answers["m050"]
	h := Heartbeat{Member: last.Member, Epoch: last.Epoch, Owned: last.Assigned}
	if m := c.g.find("m050"); m.epoch != h.Epoch {
		h.Epoch = m.epoch
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.g.Heartbeat(c.now, h); err != nil {
			b.Fatal(err)
		}
	}
}
