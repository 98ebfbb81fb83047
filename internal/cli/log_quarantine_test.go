package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// runCommand runs a command line in this process.
func runCommand(args ...string) (code int, out, stderr string) {
	var o, e bytes.Buffer
	code = Main(args, Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// batchedDir is a data directory with a topic of some segments of several batches each,
// compressed and not, over two lives of an engine, so that the leader epoch is not the
// same everywhere.
func batchedDir(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "data")
	for life := range 2 {
		e, err := varve.Open(dir, varve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: map[string]string{"segment.bytes": "600", "index.interval.bytes": "100"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			var recs []varve.Record
			for j := range 3 {
				recs = append(recs, varve.Record{Value: fmt.Appendf(nil, "life %d, batch %d, record %d", life, i, j)})
			}
			if _, err := topic.PublishAll(context.Background(), recs); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if life == 0 { // the next start is one after a crash
			if err := os.Remove(filepath.Join(dir, "clean")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// What verify finds damaged in a log file quarantine takes out of it, wherever a bit
// flipped, and then verify finds nothing more, and readers are told nothing.
func TestQuarantineLeavesVerifyNothing(t *testing.T) {
	dir := batchedDir(t)
	logs, err := filepath.Glob(filepath.Join(dir, "topics/t/0/*.log"))
	if err != nil || len(logs) < 3 {
		t.Fatalf("segments are %v (%v)", logs, err)
	}
	step := 11
	if testing.Short() {
		step = 61
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(data); at += step {
			flipAndQuarantine(t, dir, log, at)
			if t.Failed() {
				return
			}
		}
	}
}

func flipAndQuarantine(t *testing.T, dir, log string, at int) {
	t.Helper()
	left := filepath.Join(t.TempDir(), "left")
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	rel, _ := filepath.Rel(dir, log)
	path := filepath.Join(left, rel)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1 << (at % 8)
	write(t, path, data)
	what := fmt.Sprintf("byte %d of %s", at, filepath.Base(log))
	code, found, _ := runCommand("--dir", left, "log", "verify", "--all")
	if code != 1 {
		t.Errorf("%s: verify exits %d: %s", what, code, found)
	}
	code, out, stderr := runCommand("--dir", left, "log", "quarantine", "--all")
	if code != 0 || strings.Count(out, ": set aside ") != 1 || strings.Contains(stderr, "level=ERROR") {
		t.Errorf("%s: quarantine exits %d: %s%s\nverify said %s", what, code, out, stderr, found)
	}
	if code, out, _ := runCommand("--dir", left, "log", "verify", "--all"); code != 0 || strings.Contains(out, "warning") {
		t.Errorf("%s: verify exits %d: %s\nafter %s", what, code, out, found)
	}
	code, out, stderr = runCommand("--dir", left, "consume", "t")
	if lines := strings.Count(out, "\n"); code != 0 || stderr != "" || lines != 48-3 {
		t.Errorf("%s: consume exits %d with %d lines: %s", what, code, lines, stderr)
	}
}

// The holder of the directory is named, and nothing is done to it.
func TestQuarantineIsNotForADirectoryInUse(t *testing.T) {
	dir := batchedDir(t)
	e, err := varve.Open(dir, varve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	code, out, stderr := runCommand("--dir", dir, "log", "quarantine", "--all")
	if code != 1 || out != "" || !strings.Contains(stderr, fmt.Sprintf("in use: %s is locked by process %d", filepath.Join(dir, "LOCK"), os.Getpid())) {
		t.Errorf("exits %d: %s%s", code, out, stderr)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A partition that has to be refused does not keep the others from it.
func TestQuarantineGoesOnBehindARefusal(t *testing.T) {
	dir := batchedDir(t)
	if code, _, stderr := runCommand("--dir", dir, "topic", "create", "a", "--partitions", "2", "--config", "segment.bytes=64"); code != 0 {
		t.Fatal(stderr)
	}
	e, err := varve.Open(dir, varve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	topic, err := e.Topic("a")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := topic.PublishAll(context.Background(), []varve.Record{{Value: []byte("value")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	missing, err := filepath.Glob(filepath.Join(dir, "topics/a/*/00000000000000000000.log"))
	if err != nil || len(missing) == 0 {
		t.Fatal(missing, err)
	}
	if err := os.Remove(missing[0]); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "topics/t/0/00000000000000000000.log")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	data[70] ^= 1
	write(t, log, data)
	code, out, stderr := runCommand("--dir", dir, "log", "quarantine", "--all")
	if code != 1 || !strings.Contains(out, "t/0: set aside offsets 0 to 2") ||
		!strings.Contains(stderr, "nothing is left of offsets 0 to 0") || !strings.Contains(stderr, "--accept-missing") {
		t.Errorf("exits %d: %s%s", code, out, stderr)
	}
}

// The mark of the clean stop is gone before anything is changed: under it the new files
// would be taken for ones that somebody put there.
func TestQuarantineTakesTheMarkAway(t *testing.T) {
	dir := batchedDir(t)
	log := filepath.Join(dir, "topics/t/0/00000000000000000000.log")
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	data[70] ^= 1
	write(t, log, data)
	found, err := findPartitions([]string{filepath.Join(dir, "topics/t/0")}, true)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	q := quarantine{ctx: context.Background(), app: &app{out: &output{w: &out}, err: &out}, dir: dir, fs: vfs.Dir(dir)}
	if err := q.store([]*partitionFiles{&found.parts[0]}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "clean")); !os.IsNotExist(err) {
		t.Errorf("there is a mark of a clean stop: %v", err)
	}
	if !strings.Contains(out.String(), "set aside offsets 0 to 2") {
		t.Error(out.String())
	}
}
