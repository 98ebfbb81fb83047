package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
	"testing"
)

func TestReadFile(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		data := bytes.Repeat([]byte("0123456789"), 1000)
		check(t, WriteSynced(fsys, "f", append(bytes.Clone(data), "more"...)))
		check(t, WriteSynced(fsys, "f", data)) // shorter: the rest is gone
		check(t, WriteSynced(fsys, "empty", nil))
		for _, max := range []int64{10_000, 1 << 40} {
			if got, err := ReadFile(fsys, "f", max); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s: at most %d: %d bytes, %v", kind, max, len(got), err)
			}
		}
		if got, err := ReadFile(fsys, "empty", 0); err != nil || len(got) != 0 {
			t.Errorf("%s: empty: %d bytes, %v", kind, len(got), err)
		}
		var perr *fs.PathError
		if got, err := ReadFile(fsys, "f", 9_999); err == nil || got != nil || errors.As(err, &perr) {
			t.Errorf("%s: above the limit: %d bytes, %v", kind, len(got), err)
		}
		if _, err := ReadFile(fsys, "none", 1); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: missing: %v", kind, err)
		}
	}
}

// TestWriteSynced: when it returns the content is durable; when it fails nothing is
// left, and the failure is told.
func TestWriteSynced(t *testing.T) {
	m := NewMem()
	check(t, WriteSynced(m, "f", []byte("content")))
	check(t, m.SyncDir("."))
	for seed := range uint64(10) {
		left := m.Crash(CrashOptions{Seed: seed, Unsynced: UnsyncedLost})
		if got, err := ReadFile(left, "f", 100); err != nil || string(got) != "content" {
			t.Errorf("after a crash: %q, %v", got, err)
		}
	}
	for _, kind := range []OpKind{OpCreate, OpWrite, OpSync} {
		m := NewMem()
		err := WriteSynced(NewFaulty(m, FailFrom(kind, "", 1, syscall.ENOSPC)), "f", []byte("content"))
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s failed: %v", kind, err)
		}
		if _, err := m.Stat("f"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s failed and left the file: %v", kind, err)
		}
	}
	m = NewMem() // a close that fails behind the sync
	check(t, WriteSynced(NewFaulty(m, FailFrom(OpClose, "", 1, syscall.EIO)), "f", []byte("content")))
	if got, err := ReadFile(m.Crash(CrashOptions{Names: NamesKept}), "f", 100); err != nil || string(got) != "content" {
		t.Errorf("after a crash: %q, %v", got, err)
	}
}
