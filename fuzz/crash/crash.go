package crash

import (
	"fmt"
	"math/rand/v2"

	"github.com/varvelog/varve/internal/vfs"
)

// Crash is how an engine ends: killed, or by a power cut that leaves of what was not
// synced what the options say. Its text is !kill:CALL or !cut:CALL:UNSYNCED:NAMES:SEED.
type Crash struct {
	Call int64 // of those in its step that change the disk; it is not carried out
	Kill bool
	Cut  vfs.CrashOptions
}

// anyCrash draws one.
func anyCrash(rng *rand.Rand, call int64) *Crash {
	c := &Crash{Call: call, Kill: rng.IntN(8) == 0}
	if !c.Kill {
		c.Cut = vfs.CrashOptions{Seed: rng.Uint64(), Unsynced: vfs.Unsynced(rng.IntN(unsynced)), Names: vfs.Names(rng.IntN(names))}
	}
	return c
}

// How many ways there are to lose data, and names.
const (
	unsynced = int(vfs.UnsyncedKept) + 1
	names    = int(vfs.NamesKept) + 1
)

// leaves is what the crash leaves of a disk.
func (c *Crash) leaves(disk *vfs.Mem) *vfs.Mem {
	if c.Kill {
		return disk.Clone()
	}
	return disk.Crash(c.Cut)
}

func (c *Crash) String() string {
	if c.Kill {
		return fmt.Sprintf("!kill:%d", c.Call)
	}
	return fmt.Sprintf("!cut:%d:%v:%v:%d", c.Call, c.Cut.Unsynced, c.Cut.Names, c.Cut.Seed)
}

func parseCrash(w string) (*Crash, error) {
	c := &Crash{Kill: true}
	if _, err := fmt.Sscanf(w, "!kill:%d", &c.Call); err == nil {
		return c, nil
	}
	for u := range unsynced {
		for n := range names {
			c := &Crash{Cut: vfs.CrashOptions{Unsynced: vfs.Unsynced(u), Names: vfs.Names(n)}}
			form := fmt.Sprintf("!cut:%%d:%v:%v:%%d", c.Cut.Unsynced, c.Cut.Names)
			if _, err := fmt.Sscanf(w, form, &c.Call, &c.Cut.Seed); err == nil {
				return c, nil
			}
		}
	}
	return nil, fmt.Errorf("there is no crash %q", w)
}
