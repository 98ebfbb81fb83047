//go:build interop

package interop

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// TestSpoiltLogIsReported spoils a healthy partition in one place at a time.
// kafka-dump-log exits with 0 for most of it; the check must find every one,
// and say what it is.
func TestSpoiltLogIsReported(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(d []byte) []byte { d[at] ^= 0x10; return d }
	}
	add32 := func(at int, n int) func([]byte) []byte {
		return func(d []byte) []byte {
			binary.BigEndian.PutUint32(d[at:], binary.BigEndian.Uint32(d[at:])+uint32(n))
			return d
		}
	}
	zeros := func(n int) func([]byte) []byte {
		return func(d []byte) []byte { return append(d, make([]byte, n)...) }
	}
	swap := func(at, size int) func([]byte) []byte {
		return func(d []byte) []byte {
			first := bytes.Clone(d[at : at+size])
			copy(d[at:], d[at+size:at+2*size])
			copy(d[at+size:], first)
			return d
		}
	}

	for _, test := range []struct {
		name, suffix string
		spoil        func([]byte) []byte // nil removes the file
		finding      string
	}{
		{"log: byte of a value", ".log", flip(90), "isvalid: false"},
		{"log: byte of a checksum", ".log", flip(18), "isvalid: false"},
		{"log: base offset", ".log", flip(7), "has base offset"},
		{"log: magic", ".log", flip(16), "magic"},
		{"log: length", ".log", flip(10), "exit code 1"},
		{"log: zero tail", ".log", zeros(4096), "exit code 1"},
		{"log: short zero tail", ".log", zeros(9), "invalid bytes at the end"},
		{"log: torn last batch", ".log", func(d []byte) []byte { return d[:len(d)-5] }, "invalid bytes at the end"},
		{"log: cut at a batch", ".log", cutInHalf, "the segment before it ends at"},
		{"log: a batch is missing", ".log", dropSecondBatch, "has base offset"},
		{"log: two batches change places", ".log", swapFirstBatches, "is followed by"},
		{"index: offset too high", ".index", add32(8, 1), "Mismatches in"},
		{"index: offset is the base offset of its batch", ".index", add32(16, -3), "Mismatches in"},
		{"index: position inside a batch", ".index", add32(12, 7), "exit code 1"},
		{"index: position past the end", ".index", add32(12, 1<<28), "exit code 1"},
		{"index: entries change places", ".index", swap(8, 8), "does not rise"},
		{"index: trailing zeros", ".index", zeros(8 * 4), "entries of 8 bytes in a file of"},
		{"index: half an entry", ".index", zeros(3), "entries of 8 bytes in a file of"},
		{"index: all zeros", ".index", func(d []byte) []byte { return make([]byte, len(d)) }, "entries of 8 bytes in a file of"},
		{"index: missing", ".index", nil, "an index file is missing"},
		{"timeindex: timestamp too high", ".timeindex", add32(16, 1), "Found timestamp mismatch"},
		{"timeindex: offset inside a batch", ".timeindex", add32(20, -1), "indexed offsets are not found"},
		{"timeindex: entries change places", ".timeindex", swap(12, 12), "Found out of order timestamp"},
		{"timeindex: trailing zeros", ".timeindex", zeros(12 * 4), "entries of 12 bytes in a file of"},
		{"timeindex: half an entry", ".timeindex", zeros(5), "entries of 12 bytes in a file of"},
		{"timeindex: missing", ".timeindex", nil, "an index file is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := partition(t, dir, 1000, 60)[0].stem(dir) + test.suffix
			spoilFile(t, path, test.spoil)
			_, findings, err := inspectSegmentDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(findings) == 0 {
				t.Fatal("nothing found")
			}
			if all := strings.Join(findings, "\n"); !strings.Contains(all, test.finding) {
				t.Errorf("no finding says %q:\n%s", test.finding, all)
			}
		})
	}
}

func spoilFile(t *testing.T, path string, spoil func([]byte) []byte) {
	t.Helper()
	if spoil == nil {
		removeFile(t, path)
		return
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, spoil(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

// batchSize is the size of the batch that data begins with.
func batchSize(data []byte) int { return 12 + int(binary.BigEndian.Uint32(data[8:])) }

func cutInHalf(data []byte) []byte {
	end := 0
	for end < len(data)/2 {
		end += batchSize(data[end:])
	}
	return data[:end]
}

func dropSecondBatch(data []byte) []byte {
	first := batchSize(data)
	return append(data[:first:first], data[first+batchSize(data[first:]):]...)
}

func swapFirstBatches(data []byte) []byte {
	first := batchSize(data)
	second := batchSize(data[first:])
	swapped := append(bytes.Clone(data[first:first+second]), data[:first]...)
	return append(swapped, data[first+second:]...)
}
