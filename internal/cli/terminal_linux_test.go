package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns the two ends of a new pseudo terminal: what a person types at,
// and what a program sees.
func openTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo terminals:", err)
	}
	t.Cleanup(func() { keyboard.Close() })
	fd := int(keyboard.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keyboard, tty
}

// Ctrl-C at the question of topic delete is an answer: nothing is deleted, and the
// engine is closed.
func TestDeleteInterrupted(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		dir := filepath.Join(t.TempDir(), "data")
		runVarve(t, dir, "topic", "create", "orders")
		_, tty := openTerminal(t)
		c := exec.Command("varve", "topic", "delete", "orders", "--dir", dir)
		c.Stdin = tty
		stderr, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Process.Kill() })
		var said bytes.Buffer
		for !strings.Contains(said.String(), "[y/N]") { // it waits for an answer
			var b [1]byte
			if _, err := stderr.Read(b[:]); err != nil {
				t.Fatal(said.String(), err)
			}
			said.Write(b[:])
		}
		c.Process.Signal(sig)
		io.Copy(&said, stderr)
		c.Wait()
		if got := c.ProcessState.ExitCode(); got != code || !strings.HasSuffix(said.String(), "\nvarve: not deleted: stopped by "+sig.String()+"\n") {
			t.Errorf("%v: exit code %d, want %d\n%s", sig, got, code, said.String())
		}
		if !closedCleanly(dir) {
			t.Errorf("%v: the engine was not closed", sig)
		}
		if list := runVarve(t, dir, "topic", "list"); !strings.Contains(list, "\norders ") {
			t.Errorf("%v: the topic is gone:\n%s", sig, list)
		}
	}
}

// The first signal ends a consume that has long not printed everything: what is out
// is whole, and the engine is closed.
func TestConsumeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(t.TempDir(), "lines")
	const lines = 200_000 // far more than a pipe and the buffer in front of it hold
	line := strings.Repeat("x", 99) + "\n"
	write(t, file, []byte(strings.Repeat(line, lines)))
	runVarve(t, dir, "produce", "orders", "--create", "--config", "durability=os", file)
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		p := startVarve(t, dir, "consume", "orders")
		if _, err := p.out.ReadString('\n'); err != nil {
			t.Fatal(err, p.stderr.String())
		}
		p.Process.Signal(sig)
		for pending(t, p.Process.Pid, sig) { // until it is told, it hangs in a write
		}
		rest, err := io.ReadAll(p.out)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.end(); got != code || p.stderr.String() != "varve: stopped by "+sig.String()+"\n" {
			t.Errorf("%v: exit code %d, want %d\n%s", sig, got, code, p.stderr.String())
		}
		if n := len(rest); n%len(line) != 0 || n/len(line) >= lines-1 {
			t.Errorf("%v: %d bytes came after the signal, of lines of %d", sig, n, len(line))
		}
		if !closedCleanly(dir) {
			t.Errorf("%v: the engine was not closed", sig)
		}
	}
}

// pending says whether a signal is still on its way to a process.
func pending(t *testing.T, pid int, sig syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nShdPnd:\t")
	var waiting uint64
	if _, err := fmt.Sscanf(rest, "%x", &waiting); err != nil {
		t.Fatal(err, string(status))
	}
	return waiting&(1<<(sig-1)) != 0
}

// A full disk under standard output is a failure, of help too.
func TestOutputFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	runVarve(t, dir, "topic", "create", "orders")
	for _, args := range [][]string{
		{"--help"}, {"help", "topic", "create"}, {"topic"}, {"consume", "-h"}, {"version"}, {"completion", "bash"},
		{"topic", "list"}, {"topic", "describe", "orders"}, {"log", "verify", "--all"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("this machine has no /dev/full:", err)
		}
		var said bytes.Buffer
		c := exec.Command("varve", append(args, "--dir", dir)...)
		c.Stdout, c.Stderr = full, &said
		c.Run()
		full.Close()
		if code := c.ProcessState.ExitCode(); code != 1 || !strings.HasPrefix(said.String(), "varve: write to standard output: ") || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%v: exit code %d\n%s", args, code, said.String())
		}
	}
}
