package vfs

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// What is asked for counts, not only what is free before it: a large batch, or a file of
// the journal, does not take in one piece what is kept free.
func TestReserveCountsWhatIsAskedFor(t *testing.T) {
	const limit, keep = 1 << 20, 100 << 10
	for _, there := range []int64{0, 5000} { // bytes in the file already
		m := NewMem()
		m.Limit(limit)
		f, err := WithReserve(m, keep).OpenFile("f", os.O_RDWR|os.O_CREATE)
		check(t, err)
		if there > 0 {
			_, err := f.WriteAt(make([]byte, there), 0)
			check(t, err)
		}
		free, _, err := m.Space()
		check(t, err)
		most := there + free - keep
		var kept *ReserveError
		for _, size := range []int64{most + 1, most + keep, limit} {
			if err := f.Allocate(size); !errors.As(err, &kept) || !errors.Is(err, syscall.ENOSPC) || kept.Keep != keep {
				t.Errorf("%d bytes of %d, %d there: %v", size, most, there, err)
			}
		}
		check(t, f.Allocate(most/2))
		check(t, f.Close())
	}
}
