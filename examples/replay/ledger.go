package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/varvelog/varve"
)

// ledger remembers, apart from the engine, what was published: at each offset of
// each partition the hash and the time of the record. Sixteen bytes a record are
// enough to check a replay from anywhere.
//
//	field        guarded by   written by
//	seed         (immutable)  newLedger
//	partitions   mu           noted; read by the replays, after the last of them
//	err          mu           noted
type ledger struct {
	seed maphash.Seed

	mu         sync.Mutex
	partitions [][]entry
	err        error // of the first record that was not stored
}

type entry struct {
	hash uint64
	time int64
}

func newLedger(partitions int) *ledger {
	return &ledger{seed: maphash.MakeSeed(), partitions: make([][]entry, partitions)}
}

// hash covers everything a record carries.
func (l *ledger) hash(timestamp int64, key, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(l.seed)
	var n [16]byte
	binary.BigEndian.PutUint64(n[:], uint64(timestamp))
	binary.BigEndian.PutUint64(n[8:], uint64(len(key)))
	h.Write(n[:])
	h.Write(key)
	h.Write(value)
	return h.Sum64()
}

// noted is called once for each record, with where the engine says it is.
func (l *ledger) noted(e entry, at varve.Place, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		err = l.place(e, at)
	}
	if l.err == nil {
		l.err = err
	}
}

// place refuses an offset that was given out twice. Acknowledgements may come in
// any order; an offset that none named stays empty and spoils the checksum.
func (l *ledger) place(e entry, at varve.Place) error {
	p := l.partitions[at.Partition]
	for int64(len(p)) <= int64(at.Offset) {
		p = append(p, entry{})
	}
	l.partitions[at.Partition] = p
	if p[at.Offset] != (entry{}) {
		return fmt.Errorf("partition %d: offset %d was given out twice", at.Partition, at.Offset)
	}
	p[at.Offset] = e
	return nil
}

// sum is the checksum of a partition from an offset to its end.
func (l *ledger) sum(partition int, from varve.Offset) checksum {
	var c checksum
	for i := int(from); i < len(l.partitions[partition]); i++ {
		c.add(l.partitions[partition][i].hash)
	}
	return c
}

// firstAt is the first offset of a partition with a record at or after a time.
func (l *ledger) firstAt(partition int, ms int64) varve.Offset {
	p := l.partitions[partition]
	for i := range p {
		if p[i].time >= ms {
			return varve.Offset(i)
		}
	}
	return varve.Offset(len(p))
}

// checksum depends on what the records are, how many, and in which order.
type checksum struct {
	value   uint64
	records int64
}

func (c *checksum) add(hash uint64) {
	c.value = (c.value^hash)*0x9e3779b97f4a7c15 + 1
	c.records++
}

var errMismatch = errors.New("replay differs from what was published")
