package group

import "time"

// Expiry says which commits have served their time (KIP-211). Those of topics
// that a member subscribes to stay for as long as it does. Any other goes when
// nobody has committed it for Retention, and, if the group is empty, it has been
// for as long.
type Expiry struct {
	Retention  time.Duration      // 0 or less: for ever
	EmptySince time.Time          // zero while there are members
	Subscribed func(TopicID) bool // nil: none
}

// ExpiryOf returns the rule for the commits of a group.
func ExpiryOf(g *Group, retention time.Duration) Expiry {
	return Expiry{Retention: retention, EmptySince: g.emptySince, Subscribed: g.Subscribes}
}

// Expire forgets what has served its time, and returns whose commits they were,
// in order.
func (o *Offsets) Expire(now time.Time, e Expiry) []Partition {
	var expired []Partition
	for id, commits := range o.topics {
		if e.Subscribed != nil && e.Subscribed(id) {
			continue
		}
		for number, c := range commits {
			if e.ends(c, now) {
				expired = append(expired, Partition{id, number})
			}
		}
	}
	for _, p := range expired {
		o.Delete(p)
	}
	return setOf(expired)
}

// ends says whether a commit has served its time.
func (e Expiry) ends(c Commit, now time.Time) bool {
	if !c.Expires.IsZero() {
		return !now.Before(c.Expires)
	}
	since := c.Time
	if e.EmptySince.After(since) {
		since = e.EmptySince
	}
	return e.Retention > 0 && !now.Before(since.Add(e.Retention))
}
