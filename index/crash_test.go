package index

import (
	"errors"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// A power cut leaves anything of what was not synced. A mark that was synced is
// resumed whatever came after it; one that was not is resumed or refused, and
// lookups are right in either case.
func TestPowerCut(t *testing.T) {
	const name = "1000"
	o := Options{Interval: 1}
	for seed := range uint64(40) {
		disk, m, rest := vfs.NewMem(), uniform(0), uniform(900).batches
		a := Create(disk, name, testBase, o)
		grow := func(n int) Mark {
			for _, b := range rest[:n] {
				a.Append(b.last, b.pos, b.size, b.ts)
			}
			m.batches, rest = append(m.batches, rest[:n]...), rest[n:]
			mark, err := a.Flush()
			if err != nil {
				t.Fatal(err)
			}
			return mark
		}
		synced := grow(int(seed) * 20)
		if err := errors.Join(a.Sync(), disk.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		before := &model{interval: 1, batches: m.batches[:len(m.batches):len(m.batches)]}
		unsynced := grow(100)

		for _, bytes := range []vfs.Unsynced{vfs.UnsyncedLost, vfs.UnsyncedPrefix, vfs.UnsyncedSectors, vfs.UnsyncedPages, vfs.UnsyncedKept} {
			for _, names := range []vfs.Names{vfs.NamesLost, vfs.NamesJournaled, vfs.NamesRandom, vfs.NamesKept} {
				crash := vfs.CrashOptions{Seed: seed, Unsynced: bytes, Names: names}
				after, err := Resume(disk.Crash(crash), name, testBase, o, synced)
				if err != nil {
					t.Fatalf("seed %d, unsynced %v, names %v: %v", seed, bytes, names, err)
				}
				before.checkActive(t, after, true)

				after, err = Resume(disk.Crash(crash), name, testBase, o, unsynced)
				if err == nil {
					m.checkActive(t, after, true)
				} else if !errors.As(err, new(*DamageError)) {
					t.Fatalf("seed %d, unsynced %v, names %v: %v", seed, bytes, names, err)
				}
				if bytes == vfs.UnsyncedKept && names == vfs.NamesKept && err != nil {
					t.Fatalf("seed %d, all kept: %v", seed, err)
				}
			}
		}
	}
}
