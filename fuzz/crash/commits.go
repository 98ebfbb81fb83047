package crash

import (
	"errors"
	"fmt"
	"slices"

	"github.com/varvelog/varve"
)

// commit is what a group has committed in a partition. Metadata is of one commit only,
// so that it tells which one is found.
type commit struct {
	off  varve.Offset // -1: nothing, or it was forgotten
	meta string
}

func (c commit) String() string {
	if c.off < 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d (%.20q)", c.off, c.meta)
}

// spot names a partition.
type spot struct {
	topic string
	part  int
}

func (s spot) String() string { return fmt.Sprintf("%s/%d", s.topic, s.part) }

// mark is what is known of the place of a group in a partition. The slice is never
// written to, so that copies of a model share it.
type mark struct {
	said  commit    // acknowledged, or found at a start
	maybe []*commit // asked for since, in order, and not refused: each may be in force
}

// mark is that of a group; nothing was committed where there is none.
func (p *part) mark(group string) mark {
	if k, ok := p.marks[group]; ok {
		return k
	}
	return mark{said: commit{off: -1}}
}

func (p *part) setMark(group string, k mark) {
	if p.marks == nil {
		p.marks = map[string]mark{}
	}
	p.marks[group] = k
}

// each are all commits that may be in force.
func (k mark) each() []commit {
	all := []commit{k.said}
	for _, c := range k.maybe {
		all = append(all, *c)
	}
	return all
}

// change is what one call does to the places of a group: to all of them or, where it is
// refused, to none.
type change struct {
	group string
	to    map[spot]*commit
	some  map[string]bool // topics in which it forgets all places; nil where it forgets none
}

// parts are the partitions that it is about, with what each is to be.
func (c *change) parts(m *model, do func(p *part, to *commit)) {
	for at, to := range c.to {
		do(m.topic(at.topic).part(at.part), to)
	}
	for name := range c.some {
		for _, t := range m.slot(name).topics {
			for i := range t.tried {
				do(t.part(i), &forgotten)
			}
		}
	}
}

var forgotten = commit{off: -1}

func (c *change) asked(m *model) {
	m.groups[c.group] = true
	c.parts(m, func(p *part, to *commit) {
		k := p.mark(c.group)
		k.maybe = append(slices.Clip(k.maybe), to)
		p.setMark(c.group, k)
	})
}

func (c *change) done(m *model) {
	c.parts(m, func(p *part, to *commit) { p.setMark(c.group, mark{said: *to}) })
}

func (c *change) refused(m *model) {
	c.parts(m, func(p *part, to *commit) {
		k := p.mark(c.group)
		if i := slices.Index(k.maybe, to); i >= 0 {
			k.maybe = slices.Concat(k.maybe[:i], k.maybe[i+1:])
			p.setMark(c.group, k)
		}
	})
}

// clamp is what an engine said of a place above the end that a crash has left: that
// it was brought down to it.
type clamp struct {
	group string
	at    spot
	from  varve.Offset
	end   varve.Offset
}

// asked notes that the place may be the end from now on: another crash may come before
// the start is over, and the next start has nothing to say.
func (c clamp) asked(m *model) {
	for _, t := range m.slot(c.at.topic).topics {
		p := t.part(c.at.part)
		k := p.mark(c.group)
		for _, was := range c.of(k) {
			k.maybe = append(slices.Clip(k.maybe), &commit{c.end, was.meta})
		}
		p.setMark(c.group, k)
	}
}

// of are the commits that it may be about.
func (c clamp) of(k mark) (all []commit) {
	for _, was := range k.each() {
		if was.off == c.from && was.off > c.end {
			all = append(all, was)
		}
	}
	return all
}

// places are what a group has committed, as the engine says.
func places(e *varve.Engine, group string) (map[spot]commit, error) {
	list, err := e.Commits(group)
	if err != nil && !errors.Is(err, varve.ErrNoGroup) {
		return nil, err
	}
	found := map[spot]commit{}
	for _, c := range list {
		found[spot{c.Topic, int(c.Partition)}] = commit{c.Offset, c.Metadata}
	}
	return found, nil
}

// at is nothing where there is no commit.
func at(found map[spot]commit, s spot) commit {
	if c, ok := found[s]; ok {
		return c
	}
	return forgotten
}
