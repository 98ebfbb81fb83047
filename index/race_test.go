package index

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Readers look for what is just being appended, in offset and in time, on a real
// disk. They never wait for the appender and never pass over a batch.
func TestReadersBesideTheAppender(t *testing.T) {
	m := &model{interval: 1}
	rng := rand.New(rand.NewPCG(1, 2))
	var firstAt []int // for each timestamp the first batch that has reached it
	for i := range 20_000 {
		ts := int64(len(firstAt))
		if rng.IntN(3) > 0 {
			ts = rng.Int64N(ts + 1) // not every batch is younger than all before
		}
		off, pos := m.next()
		m.batches = append(m.batches, batch{off, pos, 61 + rng.IntN(100), ts})
		for int64(len(firstAt)) <= ts {
			firstAt = append(firstAt, i)
		}
	}

	a := Create(vfs.Dir(t.TempDir()), "1000", testBase, Options{Interval: 1})
	var appended atomic.Int64
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(r)))
			for {
				n := int(appended.Load())
				if n == len(m.batches) {
					return
				}
				i := min(max(n-20+rng.IntN(40), 0), len(m.batches)-1)
				if rng.IntN(100) == 0 {
					i = rng.IntN(len(m.batches)) // now and then one in the file
				}
				off := m.batches[i].last
				if e := a.Lookup(off); e.Offset > off || !m.isBatch(e) {
					t.Errorf("lookup %d: %+v", off, e)
				}
				ts := min(max(m.batches[i].ts, 0), int64(len(firstAt)-1))
				if e := a.LookupTime(ts); e.Pos > m.batches[firstAt[ts]].pos || !m.isBatch(e) {
					t.Errorf("lookup of time %d: %+v, and batch %+v has reached it", ts, e, m.batches[firstAt[ts]])
				}
			}
		})
	}
	for i, b := range m.batches {
		a.Append(b.last, b.pos, b.size, b.ts)
		appended.Store(int64(i + 1))
		if i%1000 == 999 {
			if _, err := a.Flush(); err != nil {
				t.Error(err)
			}
		}
	}
	readers.Wait()
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	m.checkActive(t, a, true)
}

func (m *model) isBatch(e Entry) bool {
	i, found := slices.BinarySearchFunc(m.batches, e.Offset, func(b batch, off record.Offset) int {
		return int(b.last - off)
	})
	return e == start || found && m.batches[i].pos == e.Pos
}

// heldUp is a table whose reader is held up right after he has looked at it.
type heldUp struct {
	*table
	meanwhile func()
}

func (h heldUp) snapshot() snapshot {
	s := h.table.snapshot()
	h.meanwhile()
	return s
}

// A time lookup reads two tables that grow together, one after the other. What
// is appended in between must not make it pass over a batch.
func TestTimeLookupHeldUp(t *testing.T) {
	for ts := range int64(20) {
		m := uniform(10)
		a := m.build(newFake(), testName, Options{Interval: 1})
		grow := func() {
			for range 5 {
				off, pos := m.next()
				m.batches = append(m.batches, batch{off, pos, 100, int64(off - testBase)})
				a.Append(off, pos, 100, int64(off-testBase))
			}
		}
		e, err := lookupTime(heldUp{&a.offsets, grow}, heldUp{&a.times, grow}, testBase, ts)
		if err != nil || e.Offset >= testBase+record.Offset(ts) {
			t.Errorf("lookup of time %d: %+v, which has reached it; %v", ts, e, err)
		}
	}
}

// The same by chance, for what the appender does in between: there are more
// threads here than processors, so that the kernel stops some of them anywhere.
func TestTimeLookupsUnderPressure(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const batches = 300
	var current atomic.Pointer[Active]
	current.Store(uniform(0).build(newFake(), testName, Options{}))
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ts := int64(0); !done.Load(); ts = (ts + 7) % batches {
				if e := current.Load().LookupTime(ts); e.Offset >= testBase+record.Offset(ts) {
					t.Errorf("lookup of time %d: %+v, which has reached it", ts, e)
					return
				}
			}
		})
	}
	for range 1000 {
		a := Create(newFake(), testName, testBase, Options{Interval: 1})
		current.Store(a)
		for i := range batches {
			a.Append(testBase+record.Offset(i), record.Pos(100*i), 100, int64(i))
		}
	}
	done.Store(true)
	readers.Wait()
}
