//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDirModes(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	root := filepath.Join(t.TempDir(), "data")
	d := Dir(root)
	check(t, d.Mkdir("."))
	check(t, d.Mkdir("d"))
	check(t, must(d.OpenFile("f", os.O_RDWR|os.O_CREATE)).Close())
	check(t, must(d.Lock("LOCK", "me")).Close())
	for name, want := range map[string]fs.FileMode{".": 0o700 | fs.ModeDir, "d": 0o700 | fs.ModeDir, "f": 0o600, "LOCK": 0o600} {
		if got := must(d.Stat(name)).Mode(); got != want {
			t.Errorf("%s: mode %v, want %v", name, got, want)
		}
	}
}

func TestDirNeverFollowsLinks(t *testing.T) {
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	root := t.TempDir()
	d := Dir(root)
	check(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "file")))
	check(t, os.Symlink(outside, filepath.Join(root, "dir")))
	check(t, os.Symlink(filepath.Join(outside, "made"), filepath.Join(root, "dangling")))

	refused := map[string]error{}
	for _, name := range []string{"file", "dir", "dangling"} {
		for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC} {
			f, err := d.OpenFile(name, flag)
			if err == nil {
				f.Close()
			}
			refused["open "+name] = err
		}
		_, refused["readdir "+name] = d.ReadDir(name)
		refused["syncdir "+name] = d.SyncDir(name)
		_, refused["lock "+name] = d.Lock(name, "me")
	}
	for what, err := range refused {
		if err == nil {
			t.Errorf("%s went through the link", what)
		}
	}
	if info := must(d.Stat("dir")); info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("stat of a link says %v", info.Mode())
	}
	check(t, d.RemoveAll("dir"))
	check(t, d.Remove("file"))
	if _, err := os.Stat(filepath.Join(outside, "made")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made outside: %v", err)
	}
	if b := must(os.ReadFile(filepath.Join(outside, "secret"))); string(b) != "secret" {
		t.Errorf("outside file holds %q", b)
	}
}

// TestDirRootMayBeALink: how the data directory is reached is its owner's choice.
func TestDirRootMayBeALink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(t.TempDir(), link))
	d := Dir(link)
	must(d.ReadDir("."))
	check(t, d.SyncDir("."))
	if !must(d.Stat(".")).IsDir() {
		t.Error("root is no directory")
	}
}

func TestDirRefusesWhatIsNoFile(t *testing.T) {
	root := t.TempDir()
	d := Dir(root)
	check(t, unix.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		if _, err := d.OpenFile("pipe", flag); err == nil {
			t.Errorf("flag %#x: opened a pipe", flag)
		}
		if _, err := d.OpenFile(".", flag); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("flag %#x: opening a directory gave %v", flag, err)
		}
	}
}
