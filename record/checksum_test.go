package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// TestMayBegin: it is PeekSize without the reason and the size.
func TestMayBegin(t *testing.T) {
	batch := build(t, 7, BatchOptions{}, []Record{{Value: []byte("x")}})
	whole := batch.Bytes()
	for n := range len(whole) + 1 {
		if got := MayBegin(whole[:n]); got != (n >= HeadSize) {
			t.Errorf("%d bytes of a batch: %t", n, got)
		}
	}
	for length, want := range map[int32]bool{math.MinInt32: false, -1: false, 0: false, 48: false, 49: true, math.MaxInt32: true} {
		raw := bytes.Clone(whole[:HeadSize])
		binary.BigEndian.PutUint32(raw[posLength:], uint32(length))
		if got := MayBegin(raw); got != want {
			t.Errorf("length %d: %t", length, got)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		raw := bytes.Clone(whole[:HeadSize])
		for range 1 + rng.IntN(3) {
			raw[8+rng.IntN(HeadSize-8)] = byte(rng.IntN(256) >> rng.IntN(8))
		}
		if _, err := PeekSize(raw); MayBegin(raw) != (err == nil) {
			t.Fatalf("%x: %t, PeekSize says %v", raw, MayBegin(raw), err)
		}
	}
	if _, err := PeekSize(whole[:HeadSize-1]); err != ErrShort {
		t.Errorf("PeekSize of a byte too few: %v", err)
	}
}

// TestChecksum: a batch checks when what it carries is what its bytes give, piece
// by piece; no bit in front of the checksum makes a difference, each behind it does.
func TestChecksum(t *testing.T) {
	batch := build(t, 7, BatchOptions{Codec: Zstd}, []Record{{Value: []byte("value")}, {Key: []byte("key")}})
	raw := batch.Bytes()
	checks := func(raw []byte) bool {
		sum := uint32(0)
		for p := raw[CoveredFrom:]; len(p) > 0; p = p[min(7, len(p)):] {
			sum = Checksum(sum, p[:min(7, len(p))])
		}
		return sum == CRC(raw[:CoveredFrom])
	}
	if !checks(raw) || CRC(raw) != binary.BigEndian.Uint32(raw[HeadSize:]) {
		t.Fatal("a batch as it was built does not check")
	}
	if b, err := Parse(raw); err != nil || b.CRC != CRC(raw) {
		t.Errorf("parsed with checksum %08x, %v", b.CRC, err)
	}
	for bit := range 8 * len(raw) {
		flipped := bytes.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		if got := checks(flipped); got != (bit < 8*HeadSize) {
			t.Fatalf("bit %d flipped: checks %t", bit, got)
		}
	}
}
