package vfs

import (
	"bytes"
	"slices"
)

// copier copies a graph of inodes. An inode with several names stays one.
type copier struct {
	fill func(c *copier, from, to *inode) // copies what is in an inode
	done map[*inode]*inode
}

func newCopier(fill func(c *copier, from, to *inode)) *copier {
	return &copier{fill: fill, done: map[*inode]*inode{}}
}

func (c *copier) inode(from *inode) *inode {
	if from == nil {
		return nil
	}
	if to, ok := c.done[from]; ok {
		return to
	}
	to := &inode{id: from.id, changed: from.changed}
	c.done[from] = to
	c.fill(c, from, to)
	return to
}

func (c *copier) names(from map[string]*inode) map[string]*inode {
	to := make(map[string]*inode, len(from))
	for name, ino := range from {
		to[name] = c.inode(ino)
	}
	return to
}

func (c *copier) ops(from []nameOp) []nameOp {
	to := slices.Clone(from)
	for i := range to {
		to[i].edits = slices.Clone(to[i].edits)
		for j := range to[i].edits {
			e := &to[i].edits[j]
			e.in, e.ino = c.inode(e.in), c.inode(e.ino)
		}
		to[i].needs = slices.Clone(to[i].needs)
		for j := range to[i].needs {
			s := &to[i].needs[j]
			s.in = c.inode(s.in)
		}
	}
	return to
}

// disk copies what can be reached from the root. Links are counted anew: those
// of the copy may be fewer.
func (c *copier) disk(from *disk) *disk {
	to := &disk{root: c.inode(from.root), lastID: from.lastID, limit: from.limit}
	to.root.links = 1
	for _, ino := range c.done {
		if ino.dir == nil {
			continue
		}
		for _, bound := range ino.dir.live {
			bound.links++
		}
	}
	for _, ino := range c.done {
		if ino.links > 0 {
			to.used += ino.file.space()
		}
	}
	return to
}

// clone shares the data of operations, which never changes.
func (c *content) clone() content {
	to := *c
	to.live, to.durable = bytes.Clone(c.live), bytes.Clone(c.durable)
	to.pending = slices.Clone(c.pending)
	return to
}
