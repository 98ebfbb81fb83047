package vfs

import (
	"maps"
	"math/rand/v2"
)

// CrashOptions choose what a power cut leaves of what was not synced. The same
// options give the same result; the zero value is what POSIX allows at worst.
type CrashOptions struct {
	Seed     uint64
	Unsynced Unsynced
	Names    Names
}

// Unsynced is what becomes of the writes and lengths of each file that its last
// successful Sync does not cover.
type Unsynced int

const (
	UnsyncedLost    Unsynced = iota // all of it is lost
	UnsyncedPrefix                  // it ends somewhere, perhaps inside a write
	UnsyncedSectors                 // each 512 bytes have their own moment, and so has the length
	UnsyncedPages                   // the same of 4096 bytes
	UnsyncedKept                    // it is all there
)

func (u Unsynced) String() string {
	return [...]string{"lost", "prefix", "sectors", "pages", "kept"}[u]
}

// Names is what becomes of the changes of names that no SyncDir covers.
type Names int

const (
	// NamesLost: all are undone.
	NamesLost Names = iota
	// NamesJournaled: they reach the disk in order, and every sync of any file
	// or directory carries all that came before it, as in ext4, xfs and btrfs.
	// Of those after the last sync any number is there.
	NamesJournaled
	// NamesRandom: each is there or not, for itself, as on a file system
	// without a journal. Three things hold: a rename is whole; the history of
	// one name is there up to some point; and what was moved is in the old
	// place or the new one. So no file vanishes that was not removed.
	NamesRandom
	// NamesKept: all are there.
	NamesKept
)

func (n Names) String() string { return [...]string{"lost", "journaled", "random", "kept"}[n] }

// Crash returns the file system as a power cut at this moment could leave it:
// durable through and through, no lock held, nothing open. m goes on unharmed.
func (m *Mem) Crash(opt CrashOptions) *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := m.namesAfter(opt)
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
	return c.copyMem(m)
}

// Clone returns an independent copy with all that is not durable still pending:
// what the death of the process alone leaves, since the kernel keeps its pages.
// No lock is held in it and nothing is open.
func (m *Mem) Clone() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	c := newCopier(func(c *copier, from, to *inode) {
		if from.dir == nil {
			to.file = from.file.clone()
			return
		}
		to.dir = &directory{live: c.names(from.dir.live), durable: c.names(from.dir.durable)}
	})
	clone := c.copyMem(m)
	clone.names = c.ops(m.names)
	return clone
}

// namesAfter is the names a crash leaves, read from copies of the durable ones.
func (m *Mem) namesAfter(opt CrashOptions) version {
	if opt.Names == NamesKept {
		return liveNames
	}
	copies := map[*inode]map[string]*inode{}
	var after version = func(d *inode) map[string]*inode {
		if _, ok := copies[d]; !ok {
			copies[d] = maps.Clone(d.dir.durable)
		}
		return copies[d]
	}
	keep := m.keeper(opt)
	dropped := slots{}
	for i, op := range m.names {
		if keep(i) && !dropped.hasAny(op.builtOn()) {
			after.apply(op.edits)
		} else {
			dropped.add(op.changes())
		}
	}
	return after
}

// keeper decides of each pending name operation whether it made it to the disk.
func (m *Mem) keeper(opt CrashOptions) func(i int) bool {
	rng := rand.New(rand.NewPCG(opt.Seed, 0)) // no inode has id 0
	switch opt.Names {
	case NamesJournaled:
		sure := 0
		for sure < len(m.names) && m.names[sure].journaled {
			sure++
		}
		end := sure + rng.IntN(len(m.names)-sure+1)
		return func(i int) bool { return i < end }
	case NamesRandom:
		chance := rng.Float64() // so that nearly all and nearly none come up too
		return func(int) bool { return rng.Float64() < chance }
	default:
		return func(int) bool { return false }
	}
}
