package peers

import (
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Bbolt is etcd's key-value store, with a record a key. Its documentation has a full
// FillPercent for appends, the hashmap freelist that is not synced as the faster one, a
// large InitialMmapSize so that growing does not map anew, and DB.Batch for callers that
// come at the same time.
var Bbolt = Peer{Name: "bbolt", Module: "go.etcd.io/bbolt", Weak: true,
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openBbolt) }}

type bbolt struct {
	db     *bolt.DB
	shared bool // several publishers a log: Batch
}

var records = []byte("records")

func openBbolt(dir string, o Options) (single, error) {
	db, err := bolt.Open(filepath.Join(dir, "db"), 0o644, &bolt.Options{
		NoSync:          !o.Durable,
		NoFreelistSync:  true,
		FreelistType:    bolt.FreelistMapType,
		InitialMmapSize: 1 << 30,
	})
	if err != nil {
		return nil, err
	}
	each := o.Publishers / o.Logs
	if each > 1 {
		db.MaxBatchSize = each // a round of all of them waits no longer
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(records)
		return err
	})
	return &bbolt{db: db, shared: each > 1}, err
}

func (b *bbolt) append(batch [][]byte) error {
	put := func(tx *bolt.Tx) error {
		bucket := tx.Bucket(records)
		bucket.FillPercent = 1
		for _, rec := range batch {
			n, err := bucket.NextSequence()
			if err != nil {
				return err
			}
			if err := bucket.Put(key(n), rec); err != nil {
				return err
			}
		}
		return nil
	}
	if b.shared {
		return b.db.Batch(put)
	}
	return b.db.Update(put)
}

func (b *bbolt) read(visit func([]byte)) error {
	return b.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(records).ForEach(func(_, rec []byte) error {
			visit(rec)
			return nil
		})
	})
}

func (b *bbolt) close() error { return b.db.Close() }
