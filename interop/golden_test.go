//go:build interop

package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var goldenDir = filepath.Join("..", "record", "testdata", "golden")

// TestGoldenIsCurrent writes the golden files anew: they are what java/Golden
// makes with the Kafka of pom.xml, no more and no fewer.
//
// A compressed file may differ in its bytes where this machine's compressor is
// another one (gzip is the JDK's, the others are native code chosen by the
// processor); what it holds may not.
func TestGoldenIsCurrent(t *testing.T) {
	fresh := t.TempDir()
	result, err := kafka.run("", "Golden", fresh)
	if err != nil {
		t.Fatal(err)
	}
	if result.exit != 0 {
		t.Fatalf("Golden: exit %d\n%s", result.exit, result.stderr)
	}
	for name := range union(t, fresh, goldenDir) {
		made, err := os.ReadFile(filepath.Join(fresh, name))
		if err != nil {
			t.Errorf("%s is committed, but Golden makes no such file", name)
			continue
		}
		committed, err := os.ReadFile(filepath.Join(goldenDir, name))
		if err != nil {
			t.Errorf("%s is made by Golden, but not committed", name)
			continue
		}
		if bytes.Equal(made, committed) {
			continue
		}
		if why := compareGolden(t, strings.TrimSuffix(name, filepath.Ext(name)), fresh); why != "" {
			t.Errorf("%s is not what Golden makes: %s", name, why)
			continue
		}
		t.Logf("%s: other bytes from this machine's compressor, the same records", name)
	}
}

func union(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, dir := range dirs {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			names[file.Name()] = true
		}
	}
	return names
}

// compareGolden compares what two golden files hold, leaving out of compressed
// batches what follows from the compressor: length and checksum.
func compareGolden(t *testing.T, stem, fresh string) string {
	t.Helper()
	made, committed := readGolden(t, fresh, stem), readGolden(t, goldenDir, stem)
	if len(made) != len(committed) {
		return "another number of batches"
	}
	compressed := false
	for i := range made {
		if made[i].Codec != "none" {
			compressed = true
			made[i].Length, made[i].CRC = committed[i].Length, committed[i].CRC
		}
		if why := difference(committed[i], made[i]); why != "" {
			return why
		}
	}
	if !compressed {
		return "other bytes, and nothing in it is compressed"
	}
	return ""
}

func readGolden(t *testing.T, dir, stem string) []batchJSON {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, stem+".json"))
	if err != nil {
		t.Fatal(err)
	}
	batches, err := parseGolden(data)
	if err != nil {
		t.Fatalf("%s.json: %v", stem, err)
	}
	return batches
}

// TestDecodeReadsGolden holds the two Java programs against each other: what
// Decode prints of a golden file is what Golden wrote beside it. So a Decode
// that prints too little cannot pass for a proof.
func TestDecodeReadsGolden(t *testing.T) {
	bins, err := filepath.Glob(filepath.Join(goldenDir, "*.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var want []batchJSON
	for _, bin := range bins {
		want = append(want, readGolden(t, goldenDir, strings.TrimSuffix(filepath.Base(bin), ".bin"))...)
	}
	compareBatches(t, decode(t, bins...), want, nil)
}
