package vfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLockExcludesInOneProcess(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		t.Run(kind, func(t *testing.T) {
			first := must(fsys.Lock("LOCK", "pid 1 (a long name of a program that was first)"))
			if _, err := fsys.Lock("LOCK", "second"); !heldBy(err, fsys.Path("LOCK"), "pid 1 (a long name of a program that was first)") {
				t.Errorf("second lock: %v", err)
			}
			other := must(fsys.Lock("OTHER", "other"))
			check(t, other.Close())
			check(t, first.Close())
			second := must(fsys.Lock("LOCK", "second"))
			if _, err := fsys.Lock("LOCK", "third"); !heldBy(err, fsys.Path("LOCK"), "second") {
				t.Errorf("third lock: %v", err)
			}
			check(t, second.Close())
			if err := second.Close(); err == nil {
				t.Error("closed a lock twice")
			}
			check(t, must(fsys.Lock("LOCK", "third")).Close())
		})
	}
}

func heldBy(err error, path, holder string) bool {
	var locked *LockedError
	return errors.As(err, &locked) && locked.Path == path && locked.Holder == holder &&
		strings.Contains(err.Error(), path) && strings.Contains(err.Error(), holder)
}

func init() {
	children["lock holder"] = func(args []string) error {
		if _, err := Dir(args[0]).Lock("LOCK", fmt.Sprintf("pid %d (child)", os.Getpid())); err != nil {
			return err
		}
		fmt.Println("locked")
		_, err := io.Copy(io.Discard, os.Stdin) // until killed
		return err
	}
}

func TestLockEndsWithItsProcess(t *testing.T) {
	root := t.TempDir()
	d := Dir(root)
	cmd := child(t, "lock holder", root)
	stdin := must(cmd.StdinPipe())
	defer stdin.Close()
	stdout := must(cmd.StdoutPipe())
	check(t, cmd.Start())
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	if _, err := d.Lock("LOCK", "parent"); !heldBy(err, d.Path("LOCK"), fmt.Sprintf("pid %d (child)", cmd.Process.Pid)) {
		t.Errorf("lock of a living process: %v", err)
	}
	check(t, cmd.Process.Kill())
	cmd.Wait()
	lock, err := d.Lock("LOCK", "parent")
	check(t, err)
	check(t, lock.Close())
}

// TestLockFileReplaced: a lock on a file without a name keeps nobody out.
func TestLockFileReplaced(t *testing.T) {
	d := Dir(t.TempDir()).(*dir)
	f := must(d.open("LOCK", os.O_RDWR|os.O_CREATE))
	defer f.Close()
	if !f.isAt(d.Path("LOCK")) {
		t.Error("the file is not where it was made")
	}
	check(t, d.Rename("LOCK", "old"))
	if f.isAt(d.Path("LOCK")) {
		t.Error("the file is where none is")
	}
	check(t, must(d.OpenFile("LOCK", os.O_RDWR|os.O_CREATE)).Close())
	if f.isAt(d.Path("LOCK")) {
		t.Error("another file was taken for it")
	}
}

// TestLockFileReplacedMeanwhile: a rival who removes the file between our open and our lock,
// and locks the one it makes, has the directory; what we hold has no name.
func TestLockFileReplacedMeanwhile(t *testing.T) {
	d := Dir(t.TempDir()).(*dir)
	var rival io.Closer
	nothing := beforeLock
	t.Cleanup(func() { beforeLock = nothing })
	beforeLock = func() {
		beforeLock = nothing
		check(t, d.Remove("LOCK"))
		rival = must(d.Lock("LOCK", "rival"))
	}
	if _, err := d.Lock("LOCK", "me"); !heldBy(err, d.Path("LOCK"), "rival") {
		t.Errorf("beside a rival: %v", err)
	}
	check(t, rival.Close())
}

func TestHolderText(t *testing.T) {
	tests := map[string]string{
		"":                                holderUnknown,
		" \n\t ":                          holderUnknown,
		"pid 1 (varve)\n":                 "pid 1 (varve)",
		"a\x1b[2Jb\x00c\xffd":             "a [2Jb c d",
		strings.Repeat("long ", 100)[:80]: strings.TrimSpace(strings.Repeat("long ", 16)),
	}
	for in, want := range tests {
		if got := holderText([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestLockFileOfAnything: whatever is in the file, the error is one short line.
func TestLockFileOfAnything(t *testing.T) {
	root := t.TempDir()
	d := Dir(root)
	lock := must(d.Lock("LOCK", "me"))
	defer lock.Close()
	check(t, os.WriteFile(filepath.Join(root, "LOCK"), []byte(strings.Repeat("\x00\n\xfe", 10000)), 0o600))
	if _, err := d.Lock("LOCK", "rival"); !heldBy(err, d.Path("LOCK"), holderUnknown) {
		t.Errorf("%v", err)
	}
}
