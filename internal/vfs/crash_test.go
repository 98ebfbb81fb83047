package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

var (
	allUnsynced = []Unsynced{UnsyncedLost, UnsyncedPrefix, UnsyncedSectors, UnsyncedPages, UnsyncedKept}
	allNames    = []Names{NamesLost, NamesJournaled, NamesRandom, NamesKept}
)

// everyCrash yields m after crashes of all kinds, some of each.
func everyCrash(m *Mem) func(yield func(CrashOptions, *Mem) bool) {
	return func(yield func(CrashOptions, *Mem) bool) {
		for _, u := range allUnsynced {
			for _, n := range allNames {
				for seed := range uint64(20) {
					opt := CrashOptions{Seed: seed, Unsynced: u, Names: n}
					if !yield(opt, m.Crash(opt)) {
						return
					}
				}
			}
		}
	}
}

func put(t *testing.T, fsys FS, name, content string) File {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE)
	check(t, err)
	must(f.WriteAt([]byte(content), 0))
	return f
}

func textOf(m *Mem, name string) string {
	b, err := m.ReadFile(name)
	if err != nil {
		return "none"
	}
	return string(b)
}

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := NewMem()
	check(t, m.Mkdir("d"))
	check(t, m.SyncDir("."))
	f := put(t, m, "d/f", "synced")
	check(t, f.Sync())
	check(t, m.SyncDir("d"))
	put(t, m, "d/other", "not synced")
	for opt, c := range everyCrash(m) {
		if got := textOf(c, "d/f"); got != "synced" {
			t.Fatalf("%v: %q", opt, got)
		}
	}
}

// TestSyncOfAFileIsNotOfItsName holds the difference between the promises of
// POSIX and of journaling file systems.
func TestSyncOfAFileIsNotOfItsName(t *testing.T) {
	m := NewMem()
	put(t, m, "early", "")
	check(t, put(t, m, "f", "synced").Sync())
	put(t, m, "late", "")
	late := map[bool]bool{}
	for seed := range uint64(50) {
		if got := m.Crash(CrashOptions{Seed: seed, Names: NamesLost}).Files(); len(got) != 0 {
			t.Fatalf("POSIX: %v", got)
		}
		got := m.Crash(CrashOptions{Seed: seed, Names: NamesJournaled})
		if textOf(got, "f") != "synced" || textOf(got, "early") != "" {
			t.Fatalf("journaled: %v", got.Files())
		}
		late[slices.Contains(got.Files(), "late")] = true
	}
	if len(late) != 2 {
		t.Errorf("a name after the last sync is always or never there: %v", late)
	}
}

// TestReplaceByRename is how every small file of the engine is written.
func TestReplaceByRename(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("old")))
	check(t, put(t, m, "tmp", "new").Sync())
	check(t, m.Rename("tmp", "f"))
	seen := map[string]bool{}
	for opt, c := range everyCrash(m) {
		f, tmp := textOf(c, "f"), textOf(c, "tmp")
		if f != "old" && (f != "new" || tmp != "none") {
			t.Fatalf("%v: f is %q, tmp is %q", opt, f, tmp)
		}
		seen[f+" "+tmp] = true
	}
	for _, want := range []string{"old none", "old new", "new none"} {
		if !seen[want] {
			t.Errorf("no crash left %q: %v", want, seen)
		}
	}
	check(t, m.SyncDir("."))
	for opt, c := range everyCrash(m) {
		if textOf(c, "f") != "new" || textOf(c, "tmp") != "none" {
			t.Fatalf("%v after the sync: %v", opt, c.Files())
		}
	}
}

// TestReplaceWithoutSync is the mistake that leaves empty files behind.
func TestReplaceWithoutSync(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("old")))
	put(t, m, "tmp", "new")
	check(t, m.Rename("tmp", "f"))
	check(t, m.SyncDir("."))
	if got := textOf(m.Crash(CrashOptions{}), "f"); got != "" {
		t.Errorf("an unsynced file holds %q", got)
	}
}

func TestRenameBetweenDirectoriesNeedsBothSyncs(t *testing.T) {
	tests := []struct {
		syncs []string
		want  string
	}{
		{nil, "from"},
		{[]string{"from"}, "from"},
		{[]string{"to"}, "from"},
		{[]string{"from", "to"}, "to"},
		{[]string{"to", "from"}, "to"},
	}
	for _, tt := range tests {
		m := NewMem()
		check(t, m.WriteFile("from/f", []byte("x")))
		check(t, m.WriteFile("to/other", nil))
		check(t, m.Rename("from/f", "to/f"))
		for _, d := range tt.syncs {
			check(t, m.SyncDir(d))
		}
		if got := textOf(m.Crash(CrashOptions{}), tt.want+"/f"); got != "x" {
			t.Errorf("synced %v: not in %s", tt.syncs, tt.want)
		}
		for opt, c := range everyCrash(m) {
			if (textOf(c, "from/f") == "x") == (textOf(c, "to/f") == "x") {
				t.Fatalf("synced %v: %v: %v", tt.syncs, opt, c.Files())
			}
		}
	}
}

// TestMovedOutOfARemovedDirectory: that a directory is gone is no reason for
// what was moved out of it to be gone as well.
func TestMovedOutOfARemovedDirectory(t *testing.T) {
	for _, sync := range []bool{false, true} {
		m := NewMem()
		check(t, m.WriteFile("d/f", []byte("x")))
		check(t, m.Mkdir("new"))
		check(t, m.Rename("d/f", "new/f"))
		check(t, m.Remove("d"))
		if sync {
			check(t, m.SyncDir("."))
		}
		for opt, c := range everyCrash(m) {
			if (textOf(c, "d/f") == "x") == (textOf(c, "new/f") == "x") {
				t.Fatalf("synced %v: %v: %v", sync, opt, c.Files())
			}
		}
	}
}

// TestOrderOfOneName: a name that was removed and made again never shows the
// second state without the first.
func TestOrderOfOneName(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("log", []byte("old")))
	check(t, m.Rename("log", "log.1"))
	check(t, put(t, m, "log", "new").Sync())
	seen := map[string]bool{}
	for _, n := range allNames {
		for seed := range uint64(100) {
			c := m.Crash(CrashOptions{Seed: seed, Names: n})
			seen[textOf(c, "log")+" "+textOf(c, "log.1")] = true
		}
	}
	for _, want := range []string{"old none", "none old", "new old"} {
		if !seen[want] {
			t.Errorf("no crash left %q", want)
		}
		delete(seen, want)
	}
	if len(seen) > 0 {
		t.Errorf("impossible: %v", seen)
	}
}

// TestRandomNamesAreIndependent: files made together are not lost together.
func TestRandomNamesAreIndependent(t *testing.T) {
	m := NewMem()
	put(t, m, "a", "")
	put(t, m, "b", "")
	seen := map[int]bool{}
	for seed := range uint64(100) {
		files := m.Crash(CrashOptions{Seed: seed, Names: NamesRandom}).Files()
		bits := 0
		for _, f := range files {
			bits |= 1 << (f[0] - 'a')
		}
		seen[bits] = true
	}
	if len(seen) != 4 {
		t.Errorf("saw %v of the four combinations", seen)
	}
}

// TestTornWritesAreAsBadAsCanBe: a campaign is worth what its disk is.
func TestTornWritesAreAsBadAsCanBe(t *testing.T) {
	for _, tt := range []struct {
		how  Unsynced
		unit int
	}{{UnsyncedSectors, 512}, {UnsyncedPages, 4096}} {
		m := NewMem()
		check(t, m.WriteFile("f", bytes.Repeat([]byte("o"), 3*tt.unit)))
		f := must(m.OpenFile("f", os.O_RDWR))
		must(f.WriteAt(bytes.Repeat([]byte("1"), 2*tt.unit), int64(tt.unit)))     // over old ones, in place
		must(f.WriteAt(bytes.Repeat([]byte("2"), 3*tt.unit+7), int64(2*tt.unit))) // over new ones, and longer
		seen := map[string]bool{}
		for seed := range uint64(2000) {
			b := must(m.Crash(CrashOptions{Seed: seed, Unsynced: tt.how}).ReadFile("f"))
			seen[pattern(b, tt.unit)] = true
		}
		want := []string{
			"ooo",                        // nothing
			"o12222", "o1222.", "o12.2.", // all; with holes
			"o1o222", "oo2...", "oo1...", // later data without earlier, length ahead of all data
			"o12", "o122", "o1222", // length behind
		}
		for _, w := range want {
			if !seen[w] {
				t.Errorf("%v: no crash in 2,000 left %q", tt.how, w)
			}
		}
	}
}

// pattern shows each unit as its byte, "." for zero, "?" for a mixture.
func pattern(b []byte, unit int) (s string) {
	for part := range slices.Chunk(b, unit) {
		switch {
		case len(bytes.TrimLeft(part, string(part[:1]))) > 0:
			s += "?"
		case part[0] == 0:
			s += "."
		default:
			s += string(part[:1])
		}
	}
	return s
}

func TestPrefixCutsInsideAWrite(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", nil))
	f := must(m.OpenFile("f", os.O_RDWR))
	must(f.WriteAt([]byte("abc"), 0))
	must(f.WriteAt([]byte("def"), 3))
	seen := map[string]bool{}
	for seed := range uint64(200) {
		seen[textOf(m.Crash(CrashOptions{Seed: seed, Unsynced: UnsyncedPrefix}), "f")] = true
	}
	for n := range 7 {
		if !seen["abcdef"[:n]] {
			t.Errorf("no crash left the first %d bytes", n)
		}
	}
	if len(seen) != 7 {
		t.Errorf("saw %v", seen)
	}
}

// TestCutBytesNeverComeBack: a length that reached the disk after a cut has
// left behind what was cut off.
func TestCutBytesNeverComeBack(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", bytes.Repeat([]byte("o"), 8192)))
	f := must(m.OpenFile("f", os.O_RDWR))
	check(t, f.Truncate(100))
	must(f.WriteAt(bytes.Repeat([]byte("n"), 4900), 100))
	seen := map[bool]bool{}
	for _, how := range []Unsynced{UnsyncedSectors, UnsyncedPages} {
		for seed := range uint64(500) {
			b := must(m.Crash(CrashOptions{Seed: seed, Unsynced: how}).ReadFile("f"))
			if len(b) != 8192 && bytes.IndexByte(b[100:], 'o') >= 0 {
				t.Fatalf("%v, seed %d: %d bytes with some that were cut", how, seed, len(b))
			}
			if len(b) == 8192 {
				seen[bytes.IndexByte(b, 'n') >= 0] = true
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("before the cut, new bytes are always or never there: %v", seen)
	}
}

func TestCrashFreesLocksAndHandles(t *testing.T) {
	m := NewMem()
	lock := must(m.Lock("LOCK", "me"))
	for how, c := range map[string]*Mem{"crash": m.Crash(CrashOptions{Names: NamesKept}), "clone": m.Clone()} {
		other, err := c.Lock("LOCK", "next")
		if err != nil {
			t.Errorf("%s: %v", how, err)
			continue
		}
		check(t, other.Close())
	}
	if _, err := m.Lock("LOCK", "next"); err == nil {
		t.Error("the original lost its lock")
	}
	check(t, lock.Close())
}

// TestCloneStillOwesItsSyncs: the death of a process makes nothing durable.
func TestCloneStillOwesItsSyncs(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "seen")
	c := m.Clone()
	if got := textOf(c, "f"); got != "seen" {
		t.Fatalf("clone holds %q", got)
	}
	if got := c.Crash(CrashOptions{}).Files(); len(got) != 0 {
		t.Errorf("crash of the clone holds %v", got)
	}
	check(t, must(c.OpenFile("f", os.O_RDWR)).Sync())
	check(t, c.SyncDir("."))
	if got := textOf(c.Crash(CrashOptions{}), "f"); got != "seen" {
		t.Errorf("synced clone crashes to %q", got)
	}
	if got := m.Crash(CrashOptions{}).Files(); len(got) != 0 {
		t.Errorf("a sync of the clone synced the original: %v", got)
	}
}

// TestCloneHasItsOwnWrites: neither side's next write ends up in the other's.
func TestCloneHasItsOwnWrites(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", nil))
	for n := range 8 {
		c := m.Clone()
		put(t, c, "f", "clone")
		put(t, m, "f", "original")
		kept := CrashOptions{Unsynced: UnsyncedKept}
		if got := textOf(c.Crash(kept), "f"); !strings.HasPrefix(got, "clone") {
			t.Errorf("after %d writes the clone has %q", n, got)
		}
		if got := textOf(m.Crash(kept), "f"); got != "original" {
			t.Errorf("after %d writes the original has %q", n, got)
		}
		check(t, c.FailSync("f"))
	}
}

// TestSecondCrash: what is left by a crash forgets unsynced things like any other.
func TestSecondCrash(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("old")))
	put(t, m, "g", "x")
	c := m.Crash(CrashOptions{Unsynced: UnsyncedKept, Names: NamesKept})
	put(t, c, "f", "new")
	put(t, c, "h", "y")
	if at := must(c.disk.find("test", "h")); at.ino.id <= must(c.disk.find("test", "g")).ino.id {
		t.Error("inode ids are given out twice")
	}
	c = c.Crash(CrashOptions{})
	if textOf(c, "f") != "old" || !slices.Equal(c.Files(), []string{"f", "g"}) {
		t.Errorf("second crash leaves %v with f %q", c.Files(), textOf(c, "f"))
	}
}

func TestRemovedFileComesBack(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("x")))
	f := must(m.OpenFile("f", os.O_RDWR))
	check(t, m.Remove("f"))
	check(t, f.Close())
	if got := textOf(m.Crash(CrashOptions{}), "f"); got != "x" {
		t.Errorf("unsynced remove: %q", got)
	}
	check(t, m.SyncDir("."))
	if _, err := m.Crash(CrashOptions{}).Stat("f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("synced remove: %v", err)
	}
}
