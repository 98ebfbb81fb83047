//go:build unix

package varve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// children are what this test binary does when it is started as another process,
// by name; each gets a directory, and what it writes goes to its parent.
var children = map[string]func(dir string, out io.Writer) error{
	"hold": holdDirectory, "hundred thousand": openHundredThousand, "unprivileged": openUnprivileged,
}

// TestAsAnotherProcess is where a child begins; in a test run it does nothing.
func TestAsAnotherProcess(t *testing.T) {
	name := os.Getenv("VARVE_TEST_CHILD")
	if name == "" {
		return
	}
	if err := children[name](os.Getenv("VARVE_TEST_DIR"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func childCommand(t testing.TB, name, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAsAnotherProcess$")
	cmd.Env = append(os.Environ(), "VARVE_TEST_CHILD="+name, "VARVE_TEST_DIR="+dir)
	return cmd
}

// runChild runs a child to its end and returns what it wrote.
func runChild(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Env[len(cmd.Env)-2:], err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String()
}

func holdDirectory(dir string, out io.Writer) error {
	e, err := varve.Open(dir, quiet)
	if err != nil {
		return err
	}
	topic, err := e.EnsureTopic("t", varve.TopicConfig{})
	if err != nil {
		return err
	}
	place, err := topic.Publish(context.Background(), text("from the child"))
	if err != nil {
		return err
	}
	fmt.Fprintln(out, place.Offset)
	select {} // until it is killed
}

// A directory that another process has open is refused by the name of that
// process; when it was killed, the lock it left is none and what it had
// acknowledged is there.
func TestOpenBesideAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd := childCommand(t, "hold", dir)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || strings.TrimSpace(line) != strconv.Itoa(round) {
			t.Errorf("round %d: the child published at %q, %v", round, line, err)
		}
		_, err = varve.Open(dir, quiet)
		var locked *varve.LockedError
		if !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprintf("process %d ", cmd.Process.Pid)) {
			t.Errorf("round %d: %v, want the name of process %d", round, err, cmd.Process.Pid)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		e, err := varve.Open(dir, quiet)
		if err != nil {
			t.Fatalf("round %d: after the kill: %v", round, err)
		}
		topic, err := e.Topic("t")
		if err != nil {
			t.Fatal(err)
		}
		if n := len(collect(t, topic.Records(context.Background(), varve.Earliest()))); n != round+1 {
			t.Errorf("round %d: %d records are there", round, n)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// openUnprivileged opens a directory as a user that may not write it.
func openUnprivileged(dir string, out io.Writer) error {
	e, err := varve.Open(dir, quiet)
	if err == nil {
		e.Close()
		return errors.New("opened a directory that cannot be written")
	}
	fmt.Fprintf(out, "%t %v\n", errors.Is(err, syscall.EACCES), err)
	return nil
}

// A directory whose permissions forbid it is refused with that reason, and left
// as it is: an empty one, one of varve's, and one that would have to be made.
func TestOpenWithoutPermission(t *testing.T) {
	base := t.TempDir()
	used := filepath.Join(base, "used")
	e, err := varve.Open(used, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(base, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	for dir := base; dir != string(filepath.Separator) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(used, func(name string, f os.DirEntry, err error) error {
		if err == nil && f.IsDir() {
			return os.Chmod(name, 0o555)
		}
		return errors.Join(err, os.Chmod(name, 0o444))
	})
	if err == nil {
		err = os.Chmod(empty, 0o555)
	}
	if err == nil {
		err = os.Chmod(base, 0o555)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(base, 0o700)
	defer os.Chmod(empty, 0o700)
	defer filepath.WalkDir(used, func(name string, f os.DirEntry, _ error) error { return os.Chmod(name, 0o700) })
	before := listTree(t, base)
	for _, dir := range []string{empty, used, filepath.Join(base, "new")} {
		cmd := childCommand(t, "unprivileged", dir)
		if os.Geteuid() == 0 { // permissions are for others
			cmd.Path = copyForOthers(t, cmd.Path)
			cmd.Dir = filepath.Dir(cmd.Path)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if out := runChild(t, cmd); !strings.HasPrefix(out, "true ") || !strings.Contains(out, dir) || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %s", dir, out)
		}
	}
	if after := listTree(t, base); strings.Join(after, "\n") != strings.Join(before, "\n") {
		t.Errorf("there was %q, there is %q", before, after)
	}
}

// copyForOthers copies a program to where any user can run it.
func copyForOthers(t testing.TB, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "varve-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "child"), data, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "child")
}

// How many segments the partition of the next test has, and what is in them:
// segment i holds one record, of offset i, dated manyStart + i/manyBlock.
const (
	manyStart = 1_700_000_000_000
	manyBlock = 1000
)

func manySegments() int {
	if testing.Short() || raceDetector {
		return 5000
	}
	return 100_000
}

// makeManySegments fills a partition's directory by hand: engine and test do not
// share a writer. Index files are the same for a thousand segments each.
func makeManySegments(dir string, n int) error {
	table := crc32.MakeTable(crc32.Castagnoli)
	var seals []byte
	for i := range n {
		ts := manyStart + int64(i/manyBlock)
		var b record.Builder
		b.Reset(nil, record.Offset(i), record.BatchOptions{})
		b.Add(ts, nil, fmt.Appendf(nil, "record %d", i), nil)
		raw := b.Finish()
		name := filepath.Join(dir, segment.FileName(record.Offset(i)))
		entry := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, uint64(ts)), 0)
		first := filepath.Join(dir, segment.FileName(record.Offset(i/manyBlock*manyBlock)))
		err := os.WriteFile(name+".log", raw, 0o600)
		if i%manyBlock == 0 {
			err = errors.Join(err, os.WriteFile(name+".timeindex", entry, 0o600), os.WriteFile(name+".index", nil, 0o600))
		} else {
			err = errors.Join(err, os.Link(first+".timeindex", name+".timeindex"), os.Link(first+".index", name+".index"))
		}
		if err != nil {
			return err
		}
		seal := segment.Seal{
			Base: record.Offset(i), Next: record.Offset(i + 1), Size: record.Pos(len(raw)), MaxTimestamp: ts, LastAppend: ts,
			HeaderSum: crc32.Checksum(raw[:17], table), Dense: true,
			Index: index.Mark{TimeEntries: 1, TimeSum: crc32.Checksum(entry, table)},
		}
		seals = seal.Append(seals)
	}
	return os.WriteFile(filepath.Join(dir, "seals"), seals, 0o600)
}

// openHundredThousand works on the directory with 256 descriptors at most.
func openHundredThousand(dir string, out io.Writer) error {
	limit := syscall.Rlimit{Cur: 256, Max: 256}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	ctx := context.Background()
	n := manySegments()
	for round := range 2 { // after an unclean stop, then after a clean one
		began := time.Now()
		e, err := varve.Open(dir, quiet)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		opened := time.Since(began)
		topic, err := e.Topic("t")
		if err != nil {
			return err
		}
		p, err := topic.Partition(0)
		if err != nil {
			return err
		}
		if want := varve.Offset(n + round); p.Start() != 0 || p.End() != want {
			return fmt.Errorf("round %d: there is [%d, %d), want [0, %d)", round, p.Start(), p.End(), want)
		}
		for _, off := range []varve.Offset{0, 1, varve.Offset(n / 2), varve.Offset(n - 2), varve.Offset(n - 1)} {
			rd, err := p.Reader(varve.At(off))
			if err != nil {
				return err
			}
			if rec, err := rd.Next(ctx); err != nil || string(rec.Value) != fmt.Sprintf("record %d", off) {
				return fmt.Errorf("round %d: at %d: %q, %w", round, off, rec.Value, err)
			}
		}
		for i := 0; i < n; i += n / 7 { // times all over
			off, err := p.OffsetFor(ctx, time.UnixMilli(manyStart+int64(i/manyBlock)))
			if want := varve.Offset(i / manyBlock * manyBlock); err != nil || off != want {
				return fmt.Errorf("round %d: time of record %d is at %d, want %d, %w", round, i, off, want, err)
			}
		}
		next := varve.Offset(n / 4) // far more segments than descriptors, one behind the other
		for rec, err := range p.Records(ctx, varve.At(next)) {
			if err != nil || rec.Offset != next {
				return fmt.Errorf("round %d: at %d: offset %d, %w", round, next, rec.Offset, err)
			}
			if next++; next == varve.Offset(n/4+2000) {
				break
			}
		}
		count := 0
		for rec, err := range p.Backward(ctx, varve.Latest()) {
			if want := varve.Offset(n + round - 1 - count); err != nil || rec.Offset != want {
				return fmt.Errorf("round %d: backward: offset %d, want %d, %w", round, rec.Offset, want, err)
			}
			if count++; count == 500 {
				break
			}
		}
		if off, err := p.Publish(ctx, text("appended")); err != nil || off != varve.Offset(n+round) {
			return fmt.Errorf("round %d: appended at %d, %w", round, off, err)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		fmt.Fprintf(out, "%d %d %d\n", opened.Milliseconds(), m.HeapAlloc, peakMemory())
		runtime.KeepAlive(p)
		if err := e.Close(); err != nil {
			return err
		}
	}
	return nil
}

// peakMemory is the most bytes of memory this process had resident, 0 where the
// system does not say.
func peakMemory() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// A hundred thousand segments under 256 descriptors (apache/iggy#3645, #3806):
// open, read at both ends and in the middle, look up, scan, append, close, with
// memory for what a segment is and not for what is in it.
func TestHundredThousandSegments(t *testing.T) {
	t.Parallel() // it takes long, and most of it on one processor
	dir, n := t.TempDir(), manySegments()
	e, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateTopic("t", varve.TopicConfig{Config: config("retention.ms=-1")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"clean", "checkpoint"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := makeManySegments(filepath.Join(dir, "topics", "t", "0"), n); err != nil {
		t.Fatal(err)
	}
	cmd := childCommand(t, "hundred thousand", dir)
	if testing.Short() {
		cmd.Args = append(cmd.Args, "-test.short")
	}
	lines := strings.Split(strings.TrimSpace(runChild(t, cmd)), "\n")
	for i, when := range []string{"after an unclean stop", "after a clean stop"} {
		if i >= len(lines) {
			t.Fatalf("the child wrote %q", lines)
		}
		var opened, heap, peak int64
		if _, err := fmt.Sscan(lines[i], &opened, &heap, &peak); err != nil {
			t.Fatalf("the child wrote %q: %v", lines, err)
		}
		t.Logf("%d segments %s: opened in %d ms, heap %d KiB (%d bytes a segment), at most %d MiB resident",
			n, when, opened, heap>>10, heap/int64(n), peak>>20)
		if raceDetector {
			continue
		}
		if most := int64(32<<20 + 2048*n); heap > most {
			t.Errorf("%s: the heap has %d bytes, more than %d", when, heap, most)
		}
		if most := int64(128<<20 + 4096*n); peak > most {
			t.Errorf("%s: %d bytes were resident, more than %d", when, peak, most)
		}
	}
}
