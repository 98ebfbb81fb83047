package group

import "time"

// Expire lets time pass: members whose deadline is reached are put out. Every
// other event does the same first, so calling it late costs time and never
// correctness.
func (g *Group) Expire(now time.Time) Decision {
	return g.finish(g.begin(now), nil)
}

// NextDeadline returns when Expire is to be called next, or false when there is
// no need. It may be early, never late.
func (g *Group) NextDeadline() (time.Time, bool) {
	return g.nextDeadline, !g.nextDeadline.IsZero()
}

func (g *Group) expire(s *step, now time.Time) {
	if g.nextDeadline.IsZero() || now.Before(g.nextDeadline) {
		return
	}
	g.nextDeadline = time.Time{}
	var late []*member
	for _, m := range g.members {
		at, reason := m.deadline()
		if now.Before(at) {
			g.expect(m)
			continue
		}
		late = append(late, m)
		s.Fenced = append(s.Fenced, Fenced{m.id, m.instance, m.epoch, reason})
	}
	for _, m := range late {
		g.remove(s, now, m)
	}
	if len(late) > 0 {
		g.bump(s)
	}
}
