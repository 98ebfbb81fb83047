package vfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestRemovedFileStaysReadable(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		f := put(t, fsys, "f", "content")
		check(t, fsys.Rename("f", "g"))
		check(t, fsys.Link("g", "h"))
		check(t, fsys.Remove("g"))
		check(t, fsys.Remove("h"))
		check(t, put(t, fsys, "f", "another").Close())
		p := make([]byte, 7)
		if n, err := f.ReadAt(p, 0); string(p[:n]) != "content" || err != nil {
			t.Errorf("%s: %q, %v", kind, p[:n], err)
		}
		check(t, f.Close())
	}
}

// TestRenameOntoItself: POSIX leaves two names of one file as they are.
func TestRenameOntoItself(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		check(t, put(t, fsys, "a", "x").Close())
		check(t, fsys.Link("a", "b"))
		check(t, fsys.Rename("a", "b"))
		check(t, fsys.Rename("a", "a"))
		if got := tree(fsys); !slices.Equal(got, []string{`a "x"`, `b "x"`}) {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func TestRenameBelowItself(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		check(t, fsys.Mkdir("a"))
		check(t, fsys.Mkdir("a/b"))
		for _, to := range []string{"a/c", "a/b/c"} {
			if err := fsys.Rename("a", to); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s: a directory moved to %s: %v", kind, to, err)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	m := NewMem()
	m.Limit(100)
	f := put(t, m, "f", strings.Repeat("x", 60))
	g := put(t, m, "g", "")

	n, err := g.WriteAt(make([]byte, 50), 0)
	full(t, "write", n, err, 40)
	must(f.WriteAt(make([]byte, 60), 0)) // in place
	n, err = f.WriteVecAt([][]byte{make([]byte, 60), {1}}, 0)
	full(t, "vector", n, err, 60)
	n, err = f.WriteAt([]byte("x"), 1000)
	full(t, "write far off", n, err, 0)
	full(t, "truncate", 0, f.Truncate(61), 0)
	if got := must(f.Size()); got != 60 {
		t.Errorf("a write that failed left %d bytes", got)
	}

	check(t, g.Truncate(10))
	check(t, f.Allocate(80))
	check(t, f.Truncate(60)) // as ftruncate: gives up what is reserved behind
	if used := m.Used(); used != 70 {
		t.Errorf("%d bytes in use after a cut", used)
	}
	check(t, f.Allocate(90))
	full(t, "write beside a reservation", 0, second(g.WriteAt([]byte("x"), 10)), 0)
	full(t, "allocate", 0, g.Allocate(11), 0)
	must(f.WriteAt(make([]byte, 30), 60)) // into it
	if used := m.Used(); used != 100 {
		t.Errorf("%d bytes in use", used)
	}

	check(t, m.Remove("f"))
	full(t, "write beside a removed open file", 0, second(g.WriteAt([]byte("x"), 10)), 0)
	check(t, f.Close())
	must(g.WriteAt(make([]byte, 90), 10))
	check(t, g.Truncate(0))
	check(t, m.Rename("g", "h"))
	check(t, put(t, m, "i", strings.Repeat("x", 100)).Close())
	check(t, m.Rename("i", "h")) // frees nothing but what it replaces
	check(t, g.Close())
	if used := m.Used(); used != 100 {
		t.Errorf("%d bytes in use", used)
	}
	m.Limit(-1)
	check(t, m.RemoveAll("h"))
	if used := m.Used(); used != 0 {
		t.Errorf("%d bytes in use by nothing", used)
	}
}

func second(_ int, err error) error { return err }

func full(t *testing.T, what string, n int, err error, want int) {
	t.Helper()
	if n != want || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%s: %d, %v; want %d and no space left", what, n, err, want)
	}
}

func TestLimitAfterCrash(t *testing.T) {
	m := NewMem()
	m.Limit(100)
	f := put(t, m, "f", "12345678")
	check(t, f.Allocate(50))
	check(t, f.Sync())
	check(t, m.SyncDir("."))
	check(t, f.Allocate(70))
	must(f.WriteAt([]byte("90"), 8))
	if used := m.Crash(CrashOptions{}).Used(); used != 50 {
		t.Errorf("after a crash %d bytes are in use, want the reservation that was synced", used)
	}
	if used := m.Clone().Used(); used != 70 {
		t.Errorf("%d bytes are in use in a clone", used)
	}
	n, err := put(t, m.Clone(), "g", "").WriteAt(make([]byte, 31), 0)
	full(t, "clone", n, err, 30)
	n, err = put(t, m.Crash(CrashOptions{}), "g", "").WriteAt(make([]byte, 51), 0)
	full(t, "crash", n, err, 50)
}

func TestRefusedLockLeavesNothingOpen(t *testing.T) {
	m := NewMem()
	lock := must(m.Lock("LOCK", "me"))
	if _, err := m.Lock("LOCK", "rival"); err == nil {
		t.Fatal("two locks")
	}
	check(t, lock.Close())
	check(t, m.Remove("LOCK"))
	if used := m.Used(); used != 0 {
		t.Errorf("%d bytes are in use by a file that is gone", used)
	}
}

func TestHugePositionsTakeNoMemory(t *testing.T) {
	f := put(t, NewMem(), "f", "")
	for _, pos := range []int64{maxMemFile, 1 << 50, 1<<63 - 1} {
		if n, err := f.WriteAt([]byte("x"), pos); n != 0 || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("write at %d: %d, %v", pos, n, err)
		}
		if n, err := f.ReadAt(make([]byte, 1), pos); n != 0 || err != io.EOF {
			t.Errorf("read at %d: %d, %v", pos, n, err)
		}
		if err := f.Truncate(pos + min(1, 1<<63-1-pos)); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("truncate to %d: %v", pos, err)
		}
	}
}

// TestFailedSyncLosesItsPages is what Linux does: the error comes once, the
// pages are clean from then on, the next sync finds nothing to do.
func TestFailedSyncLosesItsPages(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("old")))
	f := must(m.OpenFile("f", os.O_RDWR))
	must(f.WriteAt([]byte("NEW and longer"), 0))
	must(f.WriteAt([]byte("far"), 2*pageSize))
	check(t, m.FailSync("f"))

	if got := textOf(m, "f")[:14]; got != "NEW and longer" {
		t.Errorf("reads show %q", got)
	}
	for opt, c := range everyCrash(m) {
		if got := textOf(c, "f"); strings.ContainsAny(got, "NEWfar") {
			t.Fatalf("%v: lost pages are there: %q", opt, got)
		}
	}
	check(t, f.Sync())
	for opt, c := range everyCrash(m) {
		got := textOf(c, "f")
		if want := "old" + strings.Repeat("\x00", 2*pageSize); got != want {
			t.Fatalf("%v: after a sync that succeeded: %d bytes, %.20q", opt, len(got), got)
		}
	}

	must(f.WriteAt([]byte("!"), 5)) // dirties the first page with all that is on it
	check(t, f.Sync())
	got := textOf(m.Crash(CrashOptions{}), "f")
	if !strings.HasPrefix(got, "NEW a!d longer") || strings.Contains(got, "far") {
		t.Errorf("after its page was written again: %.20q, ends in %.10q", got, got[len(got)-3:])
	}
	must(f.WriteAt([]byte("."), 2*pageSize+3))
	check(t, f.Sync())
	if got := textOf(m.Crash(CrashOptions{}), "f"); !strings.HasSuffix(got, "far.") || len(got) != 2*pageSize+4 {
		t.Errorf("the last page ends in %.10q", got[len(got)-4:])
	}
}

func TestFailedSyncOfACut(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("f", []byte("0123456789")))
	f := must(m.OpenFile("f", os.O_RDWR))
	check(t, f.Truncate(3))
	must(f.WriteAt([]byte("lost"), 3))
	check(t, m.FailSync("f"))
	if got := textOf(m.Crash(CrashOptions{}), "f"); got != "0123456789" {
		t.Errorf("at once: %q", got)
	}
	check(t, f.Sync())
	if got := textOf(m.Crash(CrashOptions{}), "f"); got != "012\x00\x00\x00\x00" {
		t.Errorf("after a sync: %q", got)
	}
}

func TestTamper(t *testing.T) {
	m := NewMem()
	check(t, m.WriteFile("a/b/f", []byte("abc")))
	check(t, m.FlipBit("a/b/f", 8*1+2))
	check(t, m.Truncate("a/b/f", 2))
	check(t, m.WriteFile("a.x", nil))
	for opt, c := range everyCrash(m) {
		if got := textOf(c, "a/b/f"); got != "af" {
			t.Fatalf("%v: %q", opt, got)
		}
		if got := c.Files(); !slices.Equal(got, []string{"a.x", "a/b/f"}) {
			t.Fatalf("%v: files %v", opt, got)
		}
	}
	f := must(m.OpenFile("a/b/f", os.O_RDWR))
	must(f.WriteAt([]byte("xyz"), 0))
	check(t, m.FlipBit("a/b/f", 0))
	if live, durable := textOf(m, "a/b/f"), textOf(m.Crash(CrashOptions{}), "a/b/f"); live != "yyz" || durable != live {
		t.Errorf("live %q, durable %q", live, durable)
	}
	for what, err := range map[string]error{
		"bit behind the end": m.FlipBit("a/b/f", 24), "negative bit": m.FlipBit("a/b/f", -1),
		"no file": m.FlipBit("none", 0), "directory": m.FlipBit("a", 0),
		"negative size": m.Truncate("a/b/f", -1), "a file as directory": m.WriteFile("a.x/f", nil),
		"over a directory": m.WriteFile("a/b", nil), "no name": m.WriteFile(".", nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	b := must(m.ReadFile("a/b/f"))
	b[0] = '#'
	if got := textOf(m, "a/b/f"); got != "yyz" {
		t.Errorf("ReadFile gave out the file itself: %q", got)
	}
}

// TestWriteFileMakesOnlyItsPathDurable: the helper must not cover for a sync
// that the code under test forgot.
func TestWriteFileMakesOnlyItsPathDurable(t *testing.T) {
	m := NewMem()
	check(t, m.Mkdir("d"))
	check(t, put(t, m, "d/forgotten", "x").Sync())
	check(t, m.WriteFile("d/helped", nil))
	if got := m.Crash(CrashOptions{}).Files(); !slices.Equal(got, []string{"d/helped"}) {
		t.Errorf("crash leaves %v", got)
	}
}

func TestMemFromManyGoroutines(t *testing.T) {
	m := NewMem()
	check(t, m.Mkdir("d"))
	f := put(t, m, "d/log", "")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 200 {
			must(f.WriteAt(bytes.Repeat([]byte{byte(i)}, 64), int64(i*64)))
			if i%10 == 0 {
				check(t, f.Sync())
			}
		}
	})
	wg.Go(func() {
		for range 50 {
			check(t, put(t, m, "d/tmp", "x").Close())
			check(t, m.Rename("d/tmp", "d/new"))
			check(t, m.SyncDir("d"))
			check(t, m.Remove("d/new"))
		}
	})
	wg.Go(func() {
		for seed := range uint64(50) {
			m.Crash(CrashOptions{Seed: seed, Unsynced: UnsyncedSectors, Names: NamesRandom})
			m.Clone().Files()
			must(m.ReadDir("d"))
		}
	})
	wg.Go(func() {
		p := make([]byte, 64)
		for i := range 1000 {
			off := int64(i % 200 * 64)
			if n, err := f.ReadAt(p, off); err == nil && (n != 64 || bytes.Count(p, p[:1]) != 64) {
				t.Errorf("read %d mixed bytes at %d", n, off)
			}
		}
	})
	wg.Wait()
}

func BenchmarkMemAppendSyncCrash(b *testing.B) {
	batch := make([]byte, 200)
	for b.Loop() {
		m := NewMem()
		f := must(m.OpenFile("log", os.O_RDWR|os.O_CREATE))
		for i := range 50 {
			must(f.WriteAt(batch, int64(i*len(batch))))
			if i%5 == 0 {
				f.Sync()
			}
		}
		m.Crash(CrashOptions{Unsynced: UnsyncedPages, Names: NamesRandom})
	}
}
