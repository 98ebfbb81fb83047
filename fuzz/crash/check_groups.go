package crash

import (
	"fmt"
	"maps"
	"slices"

	"github.com/varvelog/varve"
)

// groups checks what groups have committed, in the topics that were found. said is what
// the engine has brought down as it was opened.
func (c *check) groups(e *varve.Engine, said []clamp) {
	list, err := e.Groups()
	if err != nil {
		c.broken(17, "groups cannot be listed: %v", err)
		return
	}
	for _, g := range list {
		if !c.m.groups[g.ID] {
			c.broken(17, "group %s is there and was never made", g.ID)
		}
	}
	c.next.groups = c.m.groups
	for _, group := range slices.Sorted(maps.Keys(c.m.groups)) {
		c.group(e, group, slices.DeleteFunc(slices.Clone(said), func(d clamp) bool { return d.group != group }))
	}
}

func (c *check) group(e *varve.Engine, group string, said []clamp) {
	found, err := places(e, group)
	if err != nil {
		c.broken(17, "the commits of group %s cannot be read: %v", group, err)
		return
	}
	down := map[spot]clamp{}
	for _, d := range said {
		down[d.at] = d
	}
	for name, known := range c.known {
		next := c.next.topics[name].topics[0]
		for i := range next.partitions {
			s := spot{name, i}
			got := at(found, s)
			delete(found, s)
			d, lower := down[s]
			if why := known.part(i).mark(group).wrong(got, next.part(i).told, d, lower); why != "" {
				c.broken(17, "group %s has in %s %s", group, s, why)
			}
			if got.off >= 0 {
				next.part(i).setMark(group, mark{said: got})
			}
		}
	}
	for s, got := range found {
		c.broken(17, "group %s has %v in %s, which is not there", group, got, s)
	}
	if len(down) > 0 {
		c.lowered(e, group, down)
	}
}

// wrong says why a place that was found cannot be; "" when all is well. lower: the
// engine said that it was brought down.
func (k mark) wrong(got commit, end varve.Offset, d clamp, lower bool) string {
	possible := k.each()
	if lower {
		possible = d.of(k)
		for i := range possible {
			possible[i].off = d.end
		}
	}
	switch {
	case got.off > end:
		return fmt.Sprintf("committed %v, and the log ends at %d", got, end)
	case lower && d.end != end:
		return fmt.Sprintf("a place that was brought down to %d, and the log ends at %d", d.end, end)
	case !slices.Contains(possible, got):
		return fmt.Sprintf("committed %v, which is none of %v (brought down: %t)", got, possible, lower)
	}
	return ""
}

// lowered sees that what was brought down is told to whoever asks.
func (c *check) lowered(e *varve.Engine, group string, down map[spot]clamp) {
	g, err := e.DescribeGroup(group)
	if err != nil {
		c.broken(17, "group %s, of which places were brought down, cannot be described: %v", group, err)
		return
	}
	for _, p := range g.PartitionList {
		s := spot{p.Topic, int(p.Partition)}
		if d, ok := down[s]; ok && p.Above != d.from {
			c.broken(17, "group %s had committed %d in %s, above its end, and is said to have had %d", group, d.from, s, p.Above)
		}
		delete(down, s)
	}
	for s := range down {
		c.broken(17, "group %s is said to have committed too much in %s, and has nothing there", group, s)
	}
}
