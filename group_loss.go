package varve

import (
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/retention"
)

// NearLoss is a group that retention is about to overtake: it has a place in front of
// records that go soon.
type NearLoss struct {
	Group string
	TopicPartition
	Committed Offset // the group's place
	Lag       int64  // offsets from there, or the log start, to the end
	// Bytes is how much may be published before the next records go that the group has not
	// come to, and Time how long it is until then; each is negative where there is no such
	// limit. Whichever is over first, counts.
	Bytes int64
	Time  time.Duration
}

// losing finds groups that are about to lose records, before each pass of retention, and
// tells of each once, and anew when it was out of danger in between. It is guarded by
// Engine.retentionMu.
type losing struct {
	near map[losingKey]bool
}

type losingKey struct {
	group string
	at    group.Partition
}

// edge is what of a log would go if its limits were a little less.
type edge struct {
	part *Partition
	at   group.Partition
	segs []retention.Segment
	gone int
}

// warn tells of the groups that are about to lose records.
func (l *losing) warn(e *Engine) {
	o := &e.opt.Groups
	if p, _ := e.groups.offsets.partition(); o.LossWarning < 0 || p == nil || e.groups.ready() != nil {
		return
	}
	groups := e.groups.list()
	if len(groups) == 0 {
		return
	}
	near := make(map[losingKey]bool)
	for _, x := range e.edges(o.LossWarning) {
		for _, g := range groups {
			c, some := g.table.get(x.at)
			if !some || c.Offset >= x.segs[x.gone-1].Next {
				continue
			}
			key := losingKey{g.id, x.at}
			if near[key] = true; !l.near[key] {
				e.tellLoss(x.loss(g.id, c.Offset, e.opt.MaxBytes))
			}
		}
	}
	l.near = near
}

func (e *Engine) tellLoss(n NearLoss) {
	e.log.Warn("a group is about to lose records", "group", n.Group, "partition", n.TopicPartition.String(),
		"committed", n.Committed, "behind", n.Lag, "bytes left", n.Bytes, "time left", n.Time)
	if tell := e.opt.Groups.OnNearLoss; tell != nil {
		tell(n)
	}
}

// edges are those of all logs that have any.
func (e *Engine) edges(share float64) []edge {
	var list []edge
	var facts [][]retention.Segment
	now := e.env.Now()
	for _, t := range e.Topics() {
		for _, p := range t.parts() {
			if p.log == nil {
				continue
			}
			x := edge{part: p, at: group.Partition{Topic: group.TopicID(t.id), Number: p.index}, segs: p.log.Facts()}
			x.gone = retention.Expired(x.segs, x.limits().Less(share), now)
			list, facts = append(list, x), append(facts, x.segs)
		}
	}
	if e.opt.MaxBytes > 0 {
		for i, n := range retention.OverBudget(facts, retention.Less(e.opt.MaxBytes, share)) {
			list[i].gone = max(list[i].gone, n)
		}
	}
	some := list[:0]
	for _, x := range list {
		if x.gone > 0 {
			some = append(some, x)
		}
	}
	return some
}

func (x *edge) limits() retention.Limits {
	cfg := x.part.log.Config()
	return retention.Limits{Age: cfg.RetentionAge, Bytes: cfg.RetentionBytes, LogStart: x.part.log.Start()}
}

// loss says how near a group at a place is to it.
func (x *edge) loss(groupID string, place Offset, budget int64) NearLoss {
	e := x.part.topic.engine
	from := max(place, x.part.Start())
	n := NearLoss{
		Group: groupID, TopicPartition: TopicPartition{x.part.topic.name, x.part.index},
		Committed: place, Lag: int64(max(x.part.End()-from, 0)),
	}
	n.Bytes, n.Time = retention.Left(x.segs, x.limits(), from, e.env.Now())
	if budget > 0 {
		left := budget
		for _, t := range e.Topics() {
			left -= t.Stats().Bytes
		}
		if left = max(left, 0); n.Bytes < 0 || left < n.Bytes {
			n.Bytes = left
		}
	}
	return n
}
