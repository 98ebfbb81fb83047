//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
)

// decode returns what Kafka reads in files of batches, all of which it must
// find valid.
func decode(t *testing.T, files ...string) []batchJSON {
	t.Helper()
	result, err := kafka.run("", "Decode", files...)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := parseLines(result.stdout)
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if result.exit != 0 {
		t.Errorf("Kafka reads %d batches, then: %s", len(batches), result.stderr)
	}
	return batches
}

// compareBatches reports each batch that differs, by its name if it has one.
func compareBatches(t *testing.T, got, want []batchJSON, name func(i int) string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("Kafka reads %d batches, want %d", len(got), len(want))
	}
	if name == nil {
		name = strconv.Itoa
	}
	for i := range min(len(got), len(want)) {
		if why := difference(got[i], want[i]); why != "" {
			t.Errorf("batch %s: %s", name(i), why)
		}
	}
}

// TestKafkaDecodesOurs builds batches of every codec and shape with
// record.Builder, one after the other as in a segment, and has Kafka read them.
func TestKafkaDecodesOurs(t *testing.T) {
	var (
		builder record.Builder
		data    []byte
		specs   []batchSpec
		want    []batchJSON
	)
	for _, spec := range place(allSpecs(), 0) {
		start := len(data)
		data = spec.build(&builder, data)
		specs = append(specs, spec)
		want = append(want, spec.want(data[start:]))
	}
	got := decode(t, writeFile(t, "batches.log", data))
	compareBatches(t, got, want, func(i int) string { return specs[i].name })
}

// TestKafkaDecodesPatched has Kafka read batches whose headers were changed
// after they were built, as an appender does to the batches of a client.
func TestKafkaDecodesPatched(t *testing.T) {
	var builder record.Builder
	for _, codec := range codecs {
		t.Run(codec.String(), func(t *testing.T) {
			spec := batchSpec{options: record.BatchOptions{Codec: codec}, records: plainRecords()}

			moved := spec
			moved.base, moved.options.Epoch = 1<<40, 77
			placed := spec.build(&builder, nil)
			record.SetBaseOffset(placed, moved.base)
			record.SetLeaderEpoch(placed, moved.options.Epoch)

			stamped := spec
			stamped.options.LogAppendTime, stamped.options.AppendTime = true, t0+99_999
			timed := spec.build(&builder, nil)
			record.StampAppendTime(timed, t0+99_999)

			claimed := spec.build(&builder, nil)
			record.SetMaxTimestamp(claimed, t0+5)
			wantClaimed := spec.want(claimed)
			wantClaimed.MaxTimestamp = t0 + 5

			data := append(append(append([]byte{}, placed...), timed...), claimed...)
			want := []batchJSON{moved.want(placed), stamped.want(timed), wantClaimed}
			compareBatches(t, decode(t, writeFile(t, "patched.log", data)), want, nil)
		})
	}
}

// TestDecodeReportsDamage: a test that cannot fail proves nothing, so each way
// of spoiling a file makes Decode exit with an error that says where.
func TestDecodeReportsDamage(t *testing.T) {
	var builder record.Builder
	var data []byte
	specs := place([]batchSpec{
		{options: record.BatchOptions{Codec: record.None}, records: plainRecords()},
		{options: record.BatchOptions{Codec: record.Zstd}, records: plainRecords()},
	}, 0)
	data = specs[0].build(&builder, data)
	second := len(data)
	data = specs[1].build(&builder, data)

	for _, test := range []struct {
		name  string
		spoil func(data []byte) []byte
		at    int
	}{
		{"flipped byte of a value", func(d []byte) []byte { d[second-3] ^= 1; return d }, 0},
		{"flipped byte of a compressed payload", func(d []byte) []byte { d[len(d)-3] ^= 1; return d }, second},
		{"magic 1", func(d []byte) []byte { d[second+16] = 1; return d }, second},
		{"cut inside the last batch", func(d []byte) []byte { return d[:len(d)-1] }, second},
		{"cut inside a header", func(d []byte) []byte { return d[:second+10] }, second},
		{"zero tail", func(d []byte) []byte { return append(d, make([]byte, 100)...) }, len(data)},
	} {
		t.Run(test.name, func(t *testing.T) {
			spoilt := test.spoil(append([]byte{}, data...))
			result, err := kafka.run("", "Decode", writeFile(t, "spoilt.log", spoilt))
			if err != nil {
				t.Fatal(err)
			}
			if result.exit != 1 {
				t.Fatalf("exit %d, want 1", result.exit)
			}
			if place := "at position " + strconv.Itoa(test.at) + ":"; !strings.Contains(result.stderr, place) {
				t.Errorf("the error does not say %q: %s", place, result.stderr)
			}
		})
	}
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
