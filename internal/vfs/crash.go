package vfs

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
	return &Mem{disk: m.disk.crash(opt)}
}

// Clone returns an independent copy with all that is not durable still pending:
// what the death of the process alone leaves, since the kernel keeps its pages.
// No lock is held in it and nothing is open.
func (m *Mem) Clone() *Mem {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return &Mem{disk: m.disk.clone()}
}
