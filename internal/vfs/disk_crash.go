package vfs

import (
	"maps"
	"math/rand/v2"
)

// crash is what a power cut leaves: all of it durable.
func (d *disk) crash(opt CrashOptions) *disk {
	names := d.namesAfter(opt)
	c := newCopier(func(c *copier, from, to *inode) {
		if from.dir == nil {
			// Each file draws for itself: a change in one leaves the others alone.
			rng := rand.New(rand.NewPCG(opt.Seed, uint64(from.id)))
			to.file.replace(from.file.after(opt.Unsynced, rng))
			to.file.reserved, to.file.durableReserved = from.file.durableReserved, from.file.durableReserved
			return
		}
		live := c.names(names(from))
		to.dir = &directory{live: live, durable: maps.Clone(live)}
	})
	return c.disk(d)
}

// clone copies what is pending as well. It has no handles.
func (d *disk) clone() *disk {
	c := newCopier(func(c *copier, from, to *inode) {
		if from.dir == nil {
			to.file = from.file.clone()
			return
		}
		to.dir = &directory{live: c.names(from.dir.live), durable: c.names(from.dir.durable)}
	})
	clone := c.disk(d)
	clone.names = c.ops(d.names)
	return clone
}

// namesAfter is the names a crash leaves, read from copies of the durable ones.
func (d *disk) namesAfter(opt CrashOptions) version {
	if opt.Names == NamesKept {
		return liveNames
	}
	copies := map[*inode]map[string]*inode{}
	var after version = func(in *inode) map[string]*inode {
		if _, ok := copies[in]; !ok {
			copies[in] = maps.Clone(in.dir.durable)
		}
		return copies[in]
	}
	keep := d.keeper(opt)
	dropped := slots{}
	for i, op := range d.names {
		if keep(i) && !dropped.hasAny(op.builtOn()) {
			after.apply(op.edits)
		} else {
			dropped.add(op.changes())
		}
	}
	return after
}

// keeper decides of each pending name operation whether it made it to the disk.
func (d *disk) keeper(opt CrashOptions) func(i int) bool {
	rng := rand.New(rand.NewPCG(opt.Seed, 0)) // no inode has id 0
	switch opt.Names {
	case NamesJournaled:
		sure := 0
		for sure < len(d.names) && d.names[sure].journaled {
			sure++
		}
		end := sure + rng.IntN(len(d.names)-sure+1)
		return func(i int) bool { return i < end }
	case NamesRandom:
		chance := rng.Float64() // so that nearly all and nearly none come up too
		return func(int) bool { return rng.Float64() < chance }
	default:
		return func(int) bool { return false }
	}
}
