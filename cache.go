package varve

import (
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// batchCache shares decompressed batches between readers. Batches that are stored
// uncompressed do not pass through it.
//
// Readers that follow close behind each other all want the newest batches at
// once, which a cache that admits by frequency, and later, does not have yet. So
// there are three stages: a direct-mapped table of what was decompressed last,
// read with one atomic load; ristretto, bounded in bytes; and one flight for each
// batch, so that of readers who come at the same moment one decompresses and the
// others wait for it.
//
// Ristretto is made when the first batch is stored: its buffers, full of pointers, are
// most of what an engine at rest holds, and each garbage collection looks at them.
//
//	field     guarded by   written by
//	size, biggest   (immutable)   newBatchCache
//	recent    atomic       store
//	lru       atomic, set once   shared (under mu)
//	closed    mu           close
//	flights   mu           load
type batchCache struct {
	size    int64
	biggest int // bytes of what may stand in recent
	recent  [recentSlots]atomic.Pointer[inflated]
	lru     atomic.Pointer[lru]

	mu      sync.Mutex
	closed  bool
	flights map[batchKey]*flight
}

type lru = ristretto.Cache[uint64, *inflated]

const recentSlots = 64

// batchKey names a batch for as long as the engine is open.
type batchKey struct {
	log  *partition.Log
	base Offset
	crc  uint32
}

type inflated struct {
	key     batchKey
	payload []byte
}

type flight struct {
	done    chan struct{}
	payload []byte
	err     error
}

// newBatchCache makes a cache of at most size bytes; a negative size is none.
func newBatchCache(size int64) *batchCache {
	if size < 0 {
		return nil
	}
	return &batchCache{size: size, biggest: int(size / 2 / recentSlots), flights: make(map[batchKey]*flight)}
}

// shared is the cache behind the table of recent batches, nil where there is none.
func (c *batchCache) shared() *lru {
	if x := c.lru.Load(); x != nil {
		return x
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.lru.Load() != nil {
		return c.lru.Load()
	}
	x, err := ristretto.NewCache(&ristretto.Config[uint64, *inflated]{
		NumCounters: max(c.size/(8<<10)*10, 1000), // ten for each batch of a likely size
		MaxCost:     max(c.size/2, 1),             // the table of recent ones may hold the other half
		BufferItems: 64,
	})
	if err != nil {
		return nil // of a configuration that is wrong, which this is not
	}
	c.lru.Store(x)
	return x
}

// close ends the goroutines of the cache.
func (c *batchCache) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	x := c.lru.Load()
	c.mu.Unlock()
	if x != nil {
		x.Close()
	}
}

// payload returns the records section of a batch, decompressed. It is shared: it
// must not be changed.
func (c *batchCache) payload(log *partition.Log, b *record.Batch) ([]byte, error) {
	if c == nil || b.Attributes.Codec() == record.None {
		return b.Payload(nil, maxBatchLimit)
	}
	key := batchKey{log, b.BaseOffset, b.CRC}
	slot := &c.recent[key.hash()%recentSlots]
	if x := slot.Load(); x != nil && x.key == key {
		return x.payload, nil
	}
	if all := c.lru.Load(); all != nil {
		if x, ok := all.Get(key.hash()); ok && x.key == key {
			return x.payload, nil
		}
	}
	return c.load(key, b)
}

// hash spreads keys. Two keys may share one: what is found is compared.
func (k batchKey) hash() uint64 {
	h := uint64(k.base)*0x9e3779b97f4a7c15 ^ uint64(k.crc)
	h ^= h >> 32
	return h*0xd6e8feb86659fd93 ^ h>>29
}

// load decompresses a batch, or waits for who is at it.
func (c *batchCache) load(key batchKey, b *record.Batch) ([]byte, error) {
	c.mu.Lock()
	if f := c.flights[key]; f != nil {
		c.mu.Unlock()
		<-f.done
		return f.payload, f.err
	}
	f := &flight{done: make(chan struct{})}
	c.flights[key] = f
	c.mu.Unlock()

	f.payload, f.err = b.Payload(nil, maxBatchLimit)
	if f.err == nil {
		c.store(&inflated{key, f.payload})
	}
	c.mu.Lock()
	delete(c.flights, key)
	c.mu.Unlock()
	close(f.done)
	return f.payload, f.err
}

func (c *batchCache) store(x *inflated) {
	if len(x.payload) <= c.biggest {
		c.recent[x.key.hash()%recentSlots].Store(x)
	}
	if all := c.shared(); all != nil {
		all.Set(x.key.hash(), x, int64(len(x.payload)))
	}
}
