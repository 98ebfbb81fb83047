package peers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Peer is a library that can be asked to keep records in order.
type Peer struct {
	Name   string
	Module string // its Go module, whose version is told with the figures
	Weak   bool   // can also leave the sync to the operating system
	Open   func(dir string, o Options) (Store, error)
}

// Options are what a store is opened for.
type Options struct {
	Logs       int  // independent logs, each with an order of its own
	Durable    bool // an append returns when it is on stable storage
	Publishers int  // goroutines that append at the same time
}

// Store is a number of open logs.
type Store interface {
	// Append adds a batch of records to a log and returns when the store promises
	// what it was opened for. Nothing of the batch is kept.
	Append(log int, batch [][]byte) error
	// Read visits the records of a log in order, each checked as far as the library
	// checks. It may be called once, after the appends.
	Read(log int, visit func(record []byte)) error
	Close() error
}

// All are the peers, in the order of the tables.
var All = []Peer{Wlog, Etcd, RaftWAL, Pebble, Tidwall, Bbolt, JetStream}

// single is a store of one log.
type single interface {
	append(batch [][]byte) error
	read(visit func(record []byte)) error
	close() error
}

// many gives every log a store, in a folder of its own.
type many []single

func openMany(dir string, o Options, open func(dir string, o Options) (single, error)) (Store, error) {
	var all many
	for i := range o.Logs {
		sub := filepath.Join(dir, strconv.Itoa(i))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return nil, errors.Join(err, all.Close())
		}
		s, err := open(sub, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("log %d: %w", i, err), all.Close())
		}
		all = append(all, s)
	}
	return all, nil
}

func (m many) Append(log int, batch [][]byte) error          { return m[log].append(batch) }
func (m many) Read(log int, visit func(record []byte)) error { return m[log].read(visit) }

func (m many) Close() error {
	var errs []error
	for _, s := range m {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// key is the key of a record in a store of keys: big-endian, so that they are in order.
func key(n uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 0, 8), n) }
