package peers

import (
	"sync"

	"github.com/tidwall/wal"
)

// Tidwall is tidwall/wal. Its README has batches as the way to many entries, Options
// has NoSync, and NoCopy "to help minimize allocations" of reads.
var Tidwall = Peer{Name: "tidwall/wal", Module: "github.com/tidwall/wal", Weak: true,
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openTidwall) }}

// tidwall numbers entries, which have to follow on: hence the lock.
type tidwall struct {
	mu    sync.Mutex
	log   *wal.Log
	batch wal.Batch
	last  uint64
}

func openTidwall(dir string, o Options) (single, error) {
	opts := *wal.DefaultOptions
	opts.NoSync = !o.Durable
	opts.NoCopy = true
	l, err := wal.Open(dir, &opts)
	return &tidwall{log: l}, err
}

func (t *tidwall) append(batch [][]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rec := range batch {
		t.last++
		t.batch.Write(t.last, rec)
	}
	return t.log.WriteBatch(&t.batch) // clears it
}

func (t *tidwall) read(visit func([]byte)) error {
	for i := uint64(1); i <= t.last; i++ {
		rec, err := t.log.Read(i)
		if err != nil {
			return err
		}
		visit(rec)
	}
	return nil
}

func (t *tidwall) close() error { return t.log.Close() }
