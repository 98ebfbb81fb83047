package peers

import (
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
)

// RaftWAL is hashicorp/raft-wal, whose StoreLogs syncs every batch; its README has
// one writer, and whole batches as what it is made for.
var RaftWAL = Peer{Name: "raft-wal", Module: "github.com/hashicorp/raft-wal",
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openRaftWAL) }}

// raftWAL numbers entries, which have to follow on: hence the lock.
type raftWAL struct {
	mu      sync.Mutex
	log     *wal.WAL
	entries []*raft.Log
	last    uint64
}

func openRaftWAL(dir string, o Options) (single, error) {
	l, err := wal.Open(dir, wal.WithLogger(hclog.New(&hclog.LoggerOptions{Output: io.Discard})))
	return &raftWAL{log: l}, err
}

func (r *raftWAL) append(batch [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.entries) < len(batch) {
		r.entries = append(r.entries, &raft.Log{Term: 1})
	}
	for i, rec := range batch {
		r.last++
		r.entries[i].Index, r.entries[i].Data = r.last, rec
	}
	return r.log.StoreLogs(r.entries[:len(batch)])
}

func (r *raftWAL) read(visit func([]byte)) error {
	var entry raft.Log
	for i := uint64(1); i <= r.last; i++ {
		if err := r.log.GetLog(i, &entry); err != nil {
			return err
		}
		visit(entry.Data)
	}
	return nil
}

func (r *raftWAL) close() error { return r.log.Close() }
