package varve

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"sync/atomic"
)

// Partitioner chooses one of n partitions for a key. It must be a function of the
// two alone, or records of one key lose their order.
type Partitioner func(key []byte, n int) int

// Partitioners of the Kafka clients, so that a producer that moves from or to one
// of them finds its keys in the same partitions.
var (
	// Murmur2 is that of Kafka's Java client, and the default.
	Murmur2 Partitioner = func(key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }
	// CRC32 is librdkafka's "consistent".
	CRC32 Partitioner = func(key []byte, n int) int { return int(crc32.ChecksumIEEE(key) % uint32(n)) }
	// FNV1a is sarama's hash partitioner.
	FNV1a Partitioner = func(key []byte, n int) int {
		h := fnv.New32a()
		h.Write(key)
		p := int32(h.Sum32()) % int32(n)
		return int(max(p, -p))
	}
)

// PartitionerByName finds murmur2, crc32 or fnv1a.
func PartitionerByName(name string) (Partitioner, error) {
	switch name {
	case "murmur2":
		return Murmur2, nil
	case "crc32":
		return CRC32, nil
	case "fnv1a":
		return FNV1a, nil
	}
	return nil, fmt.Errorf("partitioner is murmur2, crc32 or fnv1a, not %q", name)
}

// murmur2 is Austin Appleby's hash with the seed that Kafka uses.
func murmur2(data []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> 24
		k *= m
		h = h*m ^ k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// stickyBytes is how much goes to one partition before the next has its turn.
const stickyBytes = 16 << 10

// sticky spreads records without a key: a run of them to one partition, so that
// they share a batch, then a run to the next (KIP-480).
type sticky struct {
	sent atomic.Int64 // bytes, over all partitions
}

func (s *sticky) choose(bytes, n int) int {
	sent := s.sent.Add(int64(bytes)) - int64(bytes)
	return int(uint64(sent) / stickyBytes % uint64(n))
}
