//go:build interop

package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
)

// openedLog is what java/OpenLog prints of a partition that Kafka opened.
type openedLog struct {
	LogStart    int64 `json:"logStart"`
	LogEnd      int64 `json:"logEnd"`
	Segments    int   `json:"segments"`
	Batches     int   `json:"batches"`
	Records     int   `json:"records"`
	LeaderEpoch int32 `json:"leaderEpoch"`
}

// checkKafkaOpens opens copies of a partition directory with a broker's own
// log classes, twice, and returns what Kafka counts in it.
//
// As after a clean stop, Kafka goes by the index files that are there, and must
// find every batch with them by offset and by time. As after an unclean stop it
// makes the index files anew with its own code, and they must come out as they
// were: the same bytes for sealed segments, and for the last one, which is
// still open, the same bytes as far as they go.
func checkKafkaOpens(t *testing.T, dir string, interval int) openedLog {
	t.Helper()
	clean := openLog(t, "clean", copyPartition(t, dir), interval)
	remade := copyPartition(t, dir)
	if unclean := openLog(t, "unclean", remade, interval); unclean != clean {
		t.Errorf("%s: Kafka counts %+v after an unclean stop, %+v after a clean one", dir, unclean, clean)
	}
	for _, suffix := range []string{".index", ".timeindex"} {
		compareRemade(t, dir, remade, suffix)
	}
	return clean
}

// epochCheckpoint holds the first offset of every leader epoch. Without it
// Kafka knows no epoch after a clean stop.
const epochCheckpoint = "leader-epoch-checkpoint"

func openLog(t *testing.T, how, dir string, interval int) openedLog {
	t.Helper()
	result, err := kafka.run("", "OpenLog", how, dir, strconv.Itoa(interval))
	if err != nil {
		t.Fatal(err)
	}
	if result.exit != 0 || result.stderr != "" {
		t.Errorf("%s: Kafka opens it as %s: exit %d\n%s", dir, how, result.exit, result.stderr)
	}
	var opened openedLog
	if err := json.Unmarshal([]byte(result.stdout), &opened); err != nil {
		t.Fatalf("%s: OpenLog prints %q: %v", dir, result.stdout, err)
	}
	return opened
}

// copyPartition copies what Kafka knows into a directory with a name that it
// takes for a partition's.
func copyPartition(t *testing.T, dir string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), "copy-0")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".log", ".index", ".timeindex", epochCheckpoint} {
		for _, path := range segmentPaths(t, dir, suffix) {
			if err := os.WriteFile(filepath.Join(target, filepath.Base(path)), readFile(t, path), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return target
}

func segmentPaths(t *testing.T, dir, suffix string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compareRemade(t *testing.T, dir, remade, suffix string) {
	t.Helper()
	logs := segmentPaths(t, dir, ".log")
	for i, log := range logs {
		name := strings.TrimSuffix(filepath.Base(log), ".log") + suffix
		theirs := readFile(t, filepath.Join(remade, name))
		ours, err := os.ReadFile(filepath.Join(dir, name))
		last := i == len(logs)-1
		switch {
		case err != nil && !(last && os.IsNotExist(err)):
			t.Error(err)
		case last && !bytes.HasPrefix(theirs, ours), !last && !bytes.Equal(theirs, ours):
			t.Errorf("%s: Kafka makes other entries: %d bytes, ours has %d, they differ at byte %d",
				filepath.Join(dir, name), len(theirs), len(ours), firstDifference(theirs, ours))
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestKafkaOpensOurs: a broker's log classes read our segments, find their way
// with our indexes, and would have written the same ones.
func TestKafkaOpensOurs(t *testing.T) {
	const batches = 100
	for _, base := range []record.Offset{0, 4096, 1 << 40} {
		t.Run(base.String(), func(t *testing.T) {
			dir := t.TempDir()
			segments := partition(t, dir, base, batches)
			writeEpochs(t, dir, base, 2*batches)
			records := segments[0].records + segments[1].records
			want := openedLog{
				LogStart:    int64(base),
				LogEnd:      int64(base) + int64(records),
				Segments:    2,
				Batches:     2 * batches,
				Records:     records,
				LeaderEpoch: int32(epochOf(2*batches - 1)),
			}
			if got := checkKafkaOpens(t, dir, indexInterval); got != want {
				t.Errorf("Kafka counts %+v, written %+v", got, want)
			}
		})
	}
}

// writeEpochs writes the checkpoint in Kafka's form: a version, a count, and a
// line with epoch and first offset for each.
func writeEpochs(t *testing.T, dir string, base record.Offset, batches int) {
	t.Helper()
	var lines []string
	for i, spec := range place(segmentSpecs(0, batches), base) {
		if i == 0 || epochOf(i) != epochOf(i-1) {
			lines = append(lines, fmt.Sprintf("%d %d\n", epochOf(i), spec.base))
		}
	}
	text := fmt.Sprintf("0\n%d\n%s", len(lines), strings.Join(lines, ""))
	if err := os.WriteFile(filepath.Join(dir, epochCheckpoint), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestKafkaOpenReportsSpoiltIndex: an entry that leads past its batch makes
// OpenLog fail after a clean stop, and come out otherwise after an unclean one.
func TestKafkaOpenReportsSpoiltIndex(t *testing.T) {
	dir := t.TempDir()
	first := partition(t, dir, 1000, 100)[0]
	name := filepath.Base(first.stem(dir)) + ".index"
	spoilFile(t, filepath.Join(dir, name), func(d []byte) []byte {
		binary.BigEndian.PutUint32(d[16:], binary.BigEndian.Uint32(d[8:])+1)
		return d
	})

	result, err := kafka.run("", "OpenLog", "clean", copyPartition(t, dir), strconv.Itoa(indexInterval))
	if err != nil {
		t.Fatal(err)
	}
	if result.exit == 0 || !strings.Contains(result.stderr, "begins at") {
		t.Errorf("clean: exit %d\n%s", result.exit, result.stderr)
	}

	remade := copyPartition(t, dir)
	openLog(t, "unclean", remade, indexInterval)
	if !bytes.Equal(readFile(t, filepath.Join(remade, name)), first.index) {
		t.Errorf("unclean: Kafka did not make %s anew", name)
	}
}
