package vfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// listen notes each sync that reaches the kernel, by call and path.
func listen(t *testing.T) *[]string {
	t.Helper()
	var heard []string
	data, names := fdatasync, fsync
	t.Cleanup(func() { fdatasync, fsync = data, names })
	fdatasync = func(fd int) error {
		path := must(os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)))
		heard = append(heard, "fdatasync "+path)
		return data(fd)
	}
	fsync = func(f *os.File) error {
		heard = append(heard, "fsync "+f.Name())
		return names(f)
	}
	return &heard
}

// TestSyncsAreMade: what the contract says is durable has been synced, under its
// own name, and nothing else has.
func TestSyncsAreMade(t *testing.T) {
	parent := must(filepath.EvalSymlinks(t.TempDir()))
	root := filepath.Join(parent, "data")
	d := Dir(root)
	heard := listen(t)
	var f File
	for _, step := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"mkdir of the root", func() error { return d.Mkdir(".") }, []string{"fsync " + parent}},
		{"mkdir inside", func() error { return d.Mkdir("d") }, nil},
		{"syncdir of the root", func() error { return d.SyncDir(".") }, []string{"fsync " + root}},
		{"syncdir inside", func() error { return d.SyncDir("d") }, []string{"fsync " + root + "/d"}},
		{"write", func() (err error) {
			if f, err = d.OpenFile("d/f", os.O_RDWR|os.O_CREATE); err == nil {
				_, err = f.WriteAt([]byte("abc"), 0)
			}
			return err
		}, nil},
		{"sync", func() error { return f.Sync() }, []string{"fdatasync " + root + "/d/f"}},
		{"sync of nothing new", func() error { return f.Sync() }, []string{"fdatasync " + root + "/d/f"}},
		{"close", func() error { return f.Close() }, nil},
		{"whole file", func() error { return WriteSynced(d, "whole", []byte("abc")) }, []string{"fdatasync " + root + "/whole"}},
	} {
		*heard = nil
		check(t, step.do())
		if !slices.Equal(*heard, step.want) {
			t.Errorf("%s: %q, want %q", step.name, *heard, step.want)
		}
	}
}

// TestSyncsAreTheKernels: nothing that is listened in on stands between a sync and
// the kernel, which refuses to sync what is no file of a disk.
func TestSyncsAreTheKernels(t *testing.T) {
	if err := Dir("/proc/self").SyncDir("."); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("sync of a directory of the kernel's own: %v", err)
	}
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	defer w.Close()
	f := &dirFile{f: w, conn: must(w.SyscallConn()), name: "pipe"}
	if err := f.Sync(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("sync of a pipe: %v", err)
	}
}

// TestInterruptedCallsAreMadeAgain: a signal that interrupts a call is no answer to it,
// and is not taken for success.
func TestInterruptedCallsAreMadeAgain(t *testing.T) {
	d := Dir(t.TempDir())
	f, err := d.OpenFile("f", os.O_RDWR|os.O_CREATE)
	check(t, err)
	defer f.Close()
	data := fdatasync
	t.Cleanup(func() { fdatasync = data })
	for _, last := range []error{nil, syscall.EIO} {
		calls := 0
		fdatasync = func(int) error {
			if calls++; calls <= 3 {
				return syscall.EINTR
			}
			return last
		}
		if err := f.Sync(); !errors.Is(err, last) || calls != 4 {
			t.Errorf("a sync that was interrupted three times: %v after %d calls, want %v", err, calls, last)
		}
	}
	calls := 0
	err = untilDone(func() error {
		if calls++; calls <= 3 {
			return syscall.EINTR
		}
		return nil
	})
	if err != nil || calls != 4 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestFailedCloseOfADirectory: what the sync of a directory said is what counts, and what
// was listed is listed.
func TestFailedCloseOfADirectory(t *testing.T) {
	d := Dir(t.TempDir())
	check(t, d.Mkdir("d"))
	check(t, WriteSynced(d, "d/f", []byte("abc")))
	names, syncs := closeDir, fsync
	t.Cleanup(func() { closeDir, fsync = names, syncs })
	closed := 0
	closeDir = func(f *os.File) error {
		closed++
		return errors.Join(syscall.EIO, names(f))
	}
	check(t, d.SyncDir("d"))
	entries, err := d.ReadDir("d")
	if err != nil || len(entries) != 1 || closed != 2 {
		t.Errorf("%d entries, %v, after %d closes", len(entries), err, closed)
	}
	fsync = func(*os.File) error { return syscall.ENOSPC }
	if err := d.SyncDir("d"); !errors.Is(err, syscall.ENOSPC) || closed != 3 {
		t.Errorf("a sync that fails: %v, after %d closes", err, closed)
	}
}
