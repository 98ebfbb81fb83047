package peers

import (
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// Etcd is the write-ahead log of etcd: Save takes a batch of entries and syncs it, into
// a file that it has preallocated, unless SetUnsafeNoFsync says otherwise.
var Etcd = Peer{Name: "etcd wal", Module: "go.etcd.io/etcd/server/v3", Weak: true,
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openEtcd) }}

// etcd numbers entries, which have to follow on: hence the lock.
type etcd struct {
	mu      sync.Mutex
	dir     string
	log     *wal.WAL
	state   *raftpb.HardState
	entries []*raftpb.Entry
	last    uint64
}

func openEtcd(dir string, o Options) (single, error) {
	e := &etcd{dir: filepath.Join(dir, "wal"), state: &raftpb.HardState{}}
	var err error
	if e.log, err = wal.Create(zap.NewNop(), e.dir, nil); err != nil {
		return nil, err
	}
	if !o.Durable {
		e.log.SetUnsafeNoFsync()
	}
	return e, nil
}

func (e *etcd) append(batch [][]byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.entries) < len(batch) {
		e.entries = append(e.entries, &raftpb.Entry{Term: new(uint64(1)), Index: new(uint64)})
	}
	for i, rec := range batch {
		e.last++
		*e.entries[i].Index, e.entries[i].Data = e.last, rec
	}
	return e.log.Save(e.state, e.entries[:len(batch)])
}

// read is what a start of etcd does: all entries at once.
func (e *etcd) read(visit func([]byte)) error {
	if err := e.log.Sync(); err != nil {
		return err
	}
	r, err := wal.OpenForRead(zap.NewNop(), e.dir, &walpb.Snapshot{})
	if err != nil {
		return err
	}
	defer r.Close()
	_, _, entries, err := r.ReadAll()
	for _, entry := range entries {
		visit(entry.Data)
	}
	return err
}

func (e *etcd) close() error { return e.log.Close() }
