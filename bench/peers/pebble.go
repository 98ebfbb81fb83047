package peers

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// Pebble is CockroachDB's storage engine, with a record a key. Its documentation
// has NoSync for what needs no sync, and a larger MemTableSize for more writes (64 MiB
// is CockroachDB's own); concurrent commits share a sync.
var Pebble = Peer{Name: "pebble", Module: "github.com/cockroachdb/pebble/v2", Weak: true,
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openPebble) }}

type pebbleLog struct {
	db   *pebble.DB
	mode *pebble.WriteOptions
	last atomic.Uint64
}

func openPebble(dir string, o Options) (single, error) {
	opts := &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             silent{},
		MemTableSize:       64 << 20,
	}
	db, err := pebble.Open(dir, opts)
	p := &pebbleLog{db: db, mode: pebble.NoSync}
	if o.Durable {
		p.mode = pebble.Sync
	}
	return p, err
}

func (p *pebbleLog) append(batch [][]byte) error {
	b := p.db.NewBatch()
	defer b.Close()
	n := p.last.Add(uint64(len(batch))) - uint64(len(batch))
	for i, rec := range batch {
		d := b.SetDeferred(8, len(rec))
		copy(d.Key, key(n+uint64(i)))
		copy(d.Value, rec)
		if err := d.Finish(); err != nil {
			return err
		}
	}
	return b.Commit(p.mode)
}

func (p *pebbleLog) read(visit func([]byte)) error {
	it, err := p.db.NewIter(nil)
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		visit(it.Value())
	}
	return it.Close()
}

func (p *pebbleLog) close() error { return p.db.Close() }

// silent is a pebble.Logger that says nothing.
type silent struct{}

func (silent) Infof(string, ...any)              {}
func (silent) Errorf(string, ...any)             {}
func (silent) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }
