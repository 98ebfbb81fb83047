package vfs

import (
	"iter"
	"time"
)

// nameOp is one change of names that is not durable. It happens whole or not at
// all: a rename is one transaction in every file system worth the name.
type nameOp struct {
	edits []edit
	// needs are slots it builds on beside those it edits.
	needs []slot
	// journaled: something was synced after it. A journaling file system then
	// has it on disk whatever it was that was synced; POSIX promises nothing.
	journaled bool
}

// edit binds a slot to an inode, or to nothing.
type edit struct {
	slot
	ino *inode
	// synced: the directory was synced since. A rename between directories is
	// durable when both were.
	synced bool
}

// anyName in a slot stands for all names of its directory.
const anyName = ""

// changes and builtOn order operations: one is never on disk without every
// earlier one that changes what it is built on. So the history of a slot has no
// gaps, a directory is not gone before what was moved out of it is elsewhere,
// and nothing is moved to where no directory is.
func (op nameOp) changes() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for _, e := range op.edits {
			if !yield(e.slot) || !yield(slot{e.in, anyName}) {
				return
			}
		}
	}
}

func (op nameOp) builtOn() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for _, e := range op.edits {
			if !yield(e.slot) {
				return
			}
		}
		for _, s := range op.needs {
			if !yield(s) {
				return
			}
		}
	}
}

// slots is a set.
type slots map[slot]bool

func (s slots) add(all iter.Seq[slot]) {
	for one := range all {
		s[one] = true
	}
}

func (s slots) hasAny(of iter.Seq[slot]) bool {
	for one := range of {
		if s[one] {
			return true
		}
	}
	return false
}

// version is one state of all directories.
type version func(in *inode) map[string]*inode

func liveNames(in *inode) map[string]*inode    { return in.dir.live }
func durableNames(in *inode) map[string]*inode { return in.dir.durable }

func (v version) apply(edits []edit) {
	for _, e := range edits {
		if e.ino == nil {
			delete(v(e.in), e.name)
		} else {
			v(e.in)[e.name] = e.ino
		}
	}
}

// rebind makes edits visible, as one operation that is not durable. Bindings
// come before removals, so that a renamed file never has no name.
func (d *disk) rebind(needs []slot, edits ...edit) {
	for _, e := range edits {
		before := e.in.dir.live[e.name]
		version(liveNames).apply([]edit{e})
		if e.ino != nil {
			e.ino.links++
		}
		if before != nil {
			before.links--
			d.release(before)
		}
		e.in.changed = time.Now()
	}
	d.names = append(d.names, nameOp{edits: edits, needs: needs})
}

func (d *disk) bind(at slot, ino *inode) { d.rebind(nil, edit{slot: at, ino: ino}) }

func (d *disk) unbind(at slot, ino *inode) {
	var needs []slot
	if ino.dir != nil {
		needs = []slot{{ino, anyName}}
	}
	d.rebind(needs, edit{slot: at})
}

// move needs the directories above a target that is in another one.
func (d *disk) move(from, to place) {
	var needs []slot
	if from.in != to.in {
		needs = d.slotsAbove(to.full)
	}
	d.rebind(needs, edit{slot: to.slot, ino: from.ino}, edit{slot: from.slot})
}

// commit makes durable every operation all of whose edits were synced, now or
// before, with what it is built on; synced picks the edits of now.
func (d *disk) commit(synced func(edit) bool) {
	taken := d.taken(synced)
	var rest []nameOp
	for i, op := range d.names {
		if taken[i] {
			version(durableNames).apply(op.edits)
		} else {
			rest = append(rest, op)
		}
	}
	d.names = rest
}

func (d *disk) taken(synced func(edit) bool) []bool {
	taken := make([]bool, len(d.names))
	wanted := slots{}
	for i := len(d.names) - 1; i >= 0; i-- {
		op := d.names[i]
		if op.markSynced(synced) || wanted.hasAny(op.changes()) {
			taken[i] = true
			wanted.add(op.builtOn())
		}
	}
	return taken
}

// markSynced says whether all edits were synced.
func (op nameOp) markSynced(synced func(edit) bool) bool {
	all := true
	for i := range op.edits {
		e := &op.edits[i]
		e.synced = e.synced || synced(*e)
		all = all && e.synced
	}
	return all
}

// markJournaled notes that something was synced. The marked operations are
// always the oldest ones.
func (d *disk) markJournaled() {
	for i := len(d.names) - 1; i >= 0 && !d.names[i].journaled; i-- {
		d.names[i].journaled = true
	}
}
