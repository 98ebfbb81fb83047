package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// process is a varve command that runs beside the test.
type process struct {
	*exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
}

// startVarve runs the command in a data directory of its own. The varve that it
// finds is this test binary, see TestMain.
func startVarve(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals between processes on windows")
	}
	p := &process{Cmd: exec.Command("varve", append(args, "--dir", dir)...)}
	p.Stderr = &p.stderr
	var err error
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewReader(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill() })
	return p
}

// end waits for the process and returns its exit code; -1 says that a signal
// ended it.
func (p *process) end() int {
	p.Wait()
	return p.ProcessState.ExitCode()
}

func runVarve(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command("varve", append(args, "--dir", dir)...).Output()
	if err != nil {
		t.Fatalf("varve %v: %v", args, err)
	}
	return string(out)
}

func closedCleanly(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "clean"))
	return err == nil
}

// A produce that is told to stop while it waits for input stores what it has read,
// says how much that was, and closes the engine.
func TestProduceInterrupted(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		dir := filepath.Join(t.TempDir(), "data")
		p := startVarve(t, dir, "produce", "orders", "--create")
		// More than a pipe holds: when all is written, the process is reading.
		var lines strings.Builder
		for i := range 40_000 {
			lines.WriteString(strconv.Itoa(i) + "\n")
		}
		if _, err := io.WriteString(p.in, lines.String()); err != nil {
			t.Fatal(err)
		}
		p.Process.Signal(sig)
		if got := p.end(); got != code {
			t.Errorf("%v: exit code %d, want %d\n%s", sig, got, code, p.stderr.String())
		}
		m := regexp.MustCompile(`\nvarve: stopped by .*; ([0-9,]+) records? (were|was) stored\n$`).FindStringSubmatch(p.stderr.String())
		if m == nil {
			t.Fatalf("%v: %s", sig, p.stderr.String())
		}
		if !closedCleanly(dir) {
			t.Errorf("%v: the engine was not closed", sig)
		}
		stored := runVarve(t, dir, "consume", "orders")
		if n := strings.ReplaceAll(m[1], ",", ""); n != strconv.Itoa(strings.Count(stored, "\n")) || n == "0" || !strings.HasPrefix(lines.String(), stored) {
			t.Errorf("%v: it says %s records, there are %d", sig, n, strings.Count(stored, "\n"))
		}
	}
}

// Ctrl-C is how to end a --follow: everything that came is out, and it is no
// failure.
func TestFollowInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	runVarve(t, dir, "topic", "create", "orders", "--partitions", "3")
	for i := range 3 {
		p := startVarve(t, dir, "produce", "orders", "--partition", strconv.Itoa(i))
		io.WriteString(p.in, strconv.Itoa(i)+"\n")
		p.in.Close()
		if p.end() != 0 {
			t.Fatal(p.stderr.String())
		}
	}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := startVarve(t, dir, "consume", "orders", "--follow")
		seen := map[string]bool{}
		for range 3 {
			line, err := p.out.ReadString('\n')
			if err != nil {
				t.Fatal(err, p.stderr.String())
			}
			seen[line] = true
		}
		p.Process.Signal(sig)
		rest, _ := io.ReadAll(p.out)
		if code := p.end(); code != 0 || p.stderr.Len() > 0 || len(rest) > 0 || len(seen) != 3 {
			t.Errorf("%v: exit code %d, saw %v and then %q\n%s", sig, code, seen, rest, p.stderr.String())
		}
		if !closedCleanly(dir) {
			t.Errorf("%v: the engine was not closed", sig)
		}
	}
}

// A --follow that was to end by itself and did not come so far was cut short.
func TestFollowCutShort(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	p := startVarve(t, dir, "produce", "orders", "--create")
	io.WriteString(p.in, "a\n")
	p.in.Close()
	if p.end() != 0 {
		t.Fatal(p.stderr.String())
	}
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		for _, until := range [][]string{{"--count", "2"}, {"--to", "5"}} {
			p := startVarve(t, dir, append([]string{"consume", "orders", "--follow"}, until...)...)
			if line, err := p.out.ReadString('\n'); line != "a\n" {
				t.Fatal(line, err, p.stderr.String())
			}
			p.Process.Signal(sig)
			if got := p.end(); got != code || p.stderr.String() != "varve: stopped by "+sig.String()+"\n" {
				t.Errorf("%v, %v: exit code %d, want %d\n%s", sig, until, got, code, p.stderr.String())
			}
			if !closedCleanly(dir) {
				t.Errorf("%v, %v: the engine was not closed", sig, until)
			}
		}
	}
}

// Whoever has seen enough of a text, as head has, is told nothing.
func TestOutputClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	runVarve(t, dir, "topic", "create", "orders")
	for _, args := range [][]string{
		{"--help"}, {"help", "topic", "create"}, {"topic"}, {"consume", "-h"}, {"version"}, {"completion", "bash"},
		{"topic", "list"}, {"topic", "describe", "orders"}, {"log", "verify", "--all"},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		c := exec.Command("varve", append(args, "--dir", dir)...)
		var said bytes.Buffer
		c.Stdout, c.Stderr = w, &said
		c.Run()
		w.Close()
		if code := c.ProcessState.ExitCode(); code != 0 || said.Len() > 0 {
			t.Errorf("%v: exit code %d\n%s", args, code, said.String())
		}
	}
}

// Records typed one by one do not wait for a full batch.
func TestProduceAsTheyCome(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, args := range [][]string{{"--create"}, {"--partition", "0"}} {
		p := startVarve(t, dir, append([]string{"produce", "orders", "--verbose"}, args...)...)
		log := filepath.Join(dir, "topics", "orders", "0", "00000000000000000000.log")
		before, _ := os.Stat(log)
		io.WriteString(p.in, "typed\n")
		for {
			after, err := os.Stat(log)
			if err == nil && after.Size() > 0 && (before == nil || after.Size() > before.Size()) {
				break
			}
			runtime.Gosched()
		}
		p.in.Close()
		if p.end() != 0 {
			t.Fatal(p.stderr.String())
		}
	}
}
