package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"io"
	chacha "math/rand/v2"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// seedIDs has the ids of topics, logs and files of the journal drawn from a seed, until
// the function that it returns is called: so bit 4711 of a file is the same bit in every
// run.
func seedIDs(seed byte) (restore func()) {
	before := rand.Reader
	rand.Reader = &lockedReader{from: chacha.NewChaCha8([32]byte{seed})}
	uuid.SetRand(rand.Reader)
	return func() {
		rand.Reader = before
		uuid.SetRand(nil)
	}
}

// lockedReader lets several goroutines read.
//
//	field  guarded by  written by
//	from   mu          Read
type lockedReader struct {
	mu   sync.Mutex
	from io.Reader
}

func (r *lockedReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.Read(b)
}

// sortCheckpoint puts the logs of a checkpoint in the order of their names; the engine
// writes them in any.
func sortCheckpoint(disk *vfs.Mem) error {
	const head, entry, sum = 24, 28 + partition.CheckpointSize, 4
	data, err := disk.ReadFile(string(checkpoint))
	if err != nil {
		return err
	}
	logs := slices.Collect(slices.Chunk(data[head:len(data)-sum], entry))
	slices.SortFunc(logs, func(a, b []byte) int { return cmp.Compare(string(a), string(b)) })
	sorted := append(bytes.Clone(data[:head]), bytes.Join(logs, nil)...)
	sorted = binary.BigEndian.AppendUint32(sorted, crc32.Checksum(sorted, crc32.MakeTable(crc32.Castagnoli)))
	return disk.WriteFile(string(checkpoint), sorted)
}
