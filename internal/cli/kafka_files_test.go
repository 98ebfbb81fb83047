package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// What Kafka's own client wrote is whole to log verify, and log dump shows all of
// its records: plain and compressed, compacted, of transactions, control batches.
func TestKafkaFiles(t *testing.T) {
	files, err := filepath.Glob("../../record/testdata/golden/*.bin")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bin")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, err := record.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), name+"-0")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, segment.FileName(first.BaseOffset)+".log")
			write(t, path, data)

			faults, parts, _ := runVerify(t, dir)
			for _, f := range faults {
				// One file strings batches together whose epochs fall, which no
				// leader would write.
				if name != "control-transactions" || !strings.Contains(f.Reason, "leader epoch") {
					t.Errorf("%+v", f)
				}
			}
			batches, records := goldenCounts(t, strings.TrimSuffix(file, ".bin")+".json")
			if parts[0].Batches != batches || parts[0].Records != records {
				t.Errorf("verify: %+v, want %d batches, %d records", parts[0], batches, records)
			}

			found, err := findPartitions([]string{path}, false)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			d := newDump(&out, true, true)
			if err := d.all(context.Background(), found); err != nil {
				t.Fatal(err)
			}
			d.out.Flush()
			lines := map[string]int64{}
			for line := range strings.Lines(out.String()) {
				var l struct{ Type string }
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				lines[l.Type]++
			}
			if lines["batch"] != batches || lines["record"] != records {
				t.Errorf("dump: %v, want %d batches, %d records", lines, batches, records)
			}
		})
	}
}

func goldenCounts(t *testing.T, path string) (batches, records int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Batches []struct{ Records []json.RawMessage }
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	for _, b := range golden.Batches {
		records += int64(len(b.Records))
	}
	return int64(len(golden.Batches)), records
}
