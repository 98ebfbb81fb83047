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
	"testing/synctest"

	"pgregory.net/rapid"
)

// TestFaultyShowsEveryCall also holds that a rule without faults changes nothing.
func TestFaultyShowsEveryCall(t *testing.T) {
	var ops []Op
	f := NewFaulty(NewMem(), func(op Op) Fault {
		ops = append(ops, op)
		return Fault{}
	})
	check(t, f.Mkdir("d"))
	file := must(f.OpenFile("d/a", os.O_RDWR|os.O_CREATE))
	check(t, must(f.OpenFile("d/a", os.O_RDONLY)).Close())
	must(file.WriteAt([]byte("abc"), 5))
	must(file.WriteVecAt([][]byte{[]byte("d"), []byte("ef")}, 8))
	p := make([]byte, 6)
	must(file.ReadAt(p, 5))
	must(file.Size())
	check(t, file.Truncate(10))
	check(t, file.Allocate(20))
	check(t, file.Sync())
	must(file.Map(4))
	must(f.Stat("d/a"))
	must(f.ReadDir("d"))
	check(t, f.Link("d/a", "d/b"))
	check(t, f.Rename("d/b", "d/c"))
	check(t, f.Remove("d/c"))
	check(t, f.SyncDir("d"))
	must(f.Lock("LOCK", "me"))
	check(t, f.RemoveAll("d"))
	check(t, file.Close())
	if string(p) != "abcdef" {
		t.Errorf("read %q", p)
	}

	want := []Op{
		{Kind: OpMkdir, Name: "d"},
		{Kind: OpCreate, Name: "d/a"},
		{Kind: OpOpen, Name: "d/a"},
		{Kind: OpClose, Name: "d/a"},
		{Kind: OpWrite, Name: "d/a", Off: 5, Len: 3},
		{Kind: OpWrite, Name: "d/a", Off: 8, Len: 3},
		{Kind: OpRead, Name: "d/a", Off: 5, Len: 6},
		{Kind: OpStat, Name: "d/a"},
		{Kind: OpTruncate, Name: "d/a", Off: 10},
		{Kind: OpAllocate, Name: "d/a", Off: 20},
		{Kind: OpSync, Name: "d/a"},
		{Kind: OpMap, Name: "d/a", Off: 4},
		{Kind: OpStat, Name: "d/a"},
		{Kind: OpReadDir, Name: "d"},
		{Kind: OpLink, Name: "d/a", To: "d/b"},
		{Kind: OpRename, Name: "d/b", To: "d/c"},
		{Kind: OpRemove, Name: "d/c"},
		{Kind: OpSyncDir, Name: "d"},
		{Kind: OpLock, Name: "LOCK"},
		{Kind: OpRemove, Name: "d"},
		{Kind: OpClose, Name: "d/a"},
	}
	counts := map[OpKind]int64{}
	for i := range want {
		want[i].Seq = int64(i + 1)
		counts[want[i].Kind]++
	}
	if !slices.Equal(ops, want) {
		t.Errorf("calls were\n%v, want\n%v", ops, want)
	}
	counts[OpAny] = int64(len(want))
	for kind := range opKinds {
		if got := f.Count(kind); got != counts[kind] || kind != OpAny && got == 0 {
			t.Errorf("%d calls of %v, want %d", got, kind, counts[kind])
		}
	}
}

// TestFaultyFailsEveryKind: with Err nothing is done, with Done too all is.
func TestFaultyFailsEveryKind(t *testing.T) {
	calls := map[OpKind]func(FS) error{
		OpOpen:    func(f FS) error { _, err := f.OpenFile("f", os.O_RDWR); return err },
		OpCreate:  func(f FS) error { _, err := f.OpenFile("new", os.O_RDWR|os.O_CREATE); return err },
		OpSyncDir: func(f FS) error { return f.SyncDir(".") },
		OpRename:  func(f FS) error { return f.Rename("f", "g") },
		OpRemove:  func(f FS) error { return f.Remove("f") },
		OpMkdir:   func(f FS) error { return f.Mkdir("dir") },
		OpLink:    func(f FS) error { return f.Link("f", "g") },
		OpReadDir: func(f FS) error { _, err := f.ReadDir("."); return err },
		OpStat:    func(f FS) error { _, err := f.Stat("f"); return err },
		OpLock:    func(f FS) error { _, err := f.Lock("LOCK", "me"); return err },

		OpRead:     onFile(func(f File) error { return second(f.ReadAt(make([]byte, 3), 0)) }),
		OpWrite:    onFile(func(f File) error { return second(f.WriteAt([]byte("xyz"), 0)) }),
		OpSync:     onFile(func(f File) error { return f.Sync() }),
		OpTruncate: onFile(func(f File) error { return f.Truncate(1) }),
		OpAllocate: onFile(func(f File) error { return f.Allocate(1000) }),
		OpMap:      onFile(func(f File) error { _, err := f.Map(1); return err }),
	}
	changes := []OpKind{OpCreate, OpSyncDir, OpRename, OpRemove, OpMkdir, OpLink, OpLock, OpWrite, OpSync, OpTruncate, OpAllocate}
	state := func(m *Mem) string {
		return strings.Join(append(tree(m), append(tree(m.Crash(CrashOptions{})), string(rune(m.Used())))...), "\n")
	}
	for kind, call := range calls {
		for _, done := range []bool{false, true} {
			mem := NewMem()
			check(t, mem.WriteFile("f", []byte("abc")))
			check(t, must(mem.OpenFile("unsynced", os.O_RDWR|os.O_CREATE)).Close())
			must(must(mem.OpenFile("f", os.O_RDWR)).WriteAt([]byte("d"), 3))
			before := state(mem)
			faulty := NewFaulty(mem, func(op Op) Fault {
				if op.Kind == kind {
					return Fault{Err: syscall.EIO, Done: done}
				}
				return Fault{}
			})
			err := call(faulty)
			if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), kind.String()) || !strings.Contains(err.Error(), "mem:/") {
				t.Errorf("%v: %v", kind, err)
			}
			changed := state(mem) != before
			if want := done && slices.Contains(changes, kind); changed != want {
				t.Errorf("%v, done %v: changed %v\nbefore:\n%s\nafter:\n%s", kind, done, changed, before, state(mem))
			}
		}
	}
}

func onFile(do func(File) error) func(FS) error {
	return func(fsys FS) error {
		f, err := fsys.OpenFile("f", os.O_RDWR)
		if err != nil {
			return err
		}
		return do(f)
	}
}

func TestFaultyCloseCloses(t *testing.T) {
	mem := NewMem()
	faulty := NewFaulty(mem, FailFrom(OpClose, "", 1, syscall.EIO))
	f := must(faulty.OpenFile("f", os.O_RDWR|os.O_CREATE))
	if err := f.Close(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if err := f.Sync(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("still open: %v", err)
	}
}

func TestFaultyShortReadsAndWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bufs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 5), 0, 6).Draw(t, "bufs")
		short := rapid.IntRange(-1, 40).Draw(t, "short")
		all := bytes.Join(bufs, nil)
		want := all[:max(0, min(short, len(all)))]
		mem := NewMem()
		faulty := NewFaulty(mem, func(op Op) Fault {
			if op.Kind == OpRead || op.Kind == OpWrite {
				return Fault{Err: syscall.EIO, Short: short}
			}
			return Fault{}
		})
		verify := func(what string, n int, err error, got []byte) {
			if n != len(want) || !errors.Is(err, syscall.EIO) || !bytes.Equal(got, want) {
				t.Fatalf("%s: %d, %v, %q; want %q", what, n, err, got, want)
			}
		}
		f := must(faulty.OpenFile("vec", os.O_RDWR|os.O_CREATE))
		n, err := f.WriteVecAt(bufs, 0)
		verify("vector", n, err, must(mem.ReadFile("vec")))
		if !bytes.Equal(bytes.Join(bufs, nil), all) {
			t.Fatal("the caller's buffers were changed")
		}
		f = must(faulty.OpenFile("plain", os.O_RDWR|os.O_CREATE))
		n, err = f.WriteAt(all, 0)
		verify("plain", n, err, must(mem.ReadFile("plain")))
		check(t, mem.WriteFile("plain", all))
		p := make([]byte, len(all))
		n, err = f.ReadAt(p, 0)
		verify("read", n, err, p[:n])
	})
}

func TestFaultyFlipsWhatIsRead(t *testing.T) {
	mem := NewMem()
	check(t, mem.WriteFile("f", []byte("abcd")))
	faulty := NewFaulty(mem, func(op Op) Fault { return Fault{Flip: []int{0, 10, 8*5 + 1, 1000}} })
	f := must(faulty.OpenFile("f", os.O_RDONLY))
	p := []byte("......")
	n, err := f.ReadAt(p, 0)
	if n != 4 || err != io.EOF || string(p) != "`fcd.." {
		t.Errorf("%d, %v, %q", n, err, p)
	}
	if got := textOf(mem, "f"); got != "abcd" {
		t.Errorf("the file became %q", got)
	}
}

// TestFaultyBlocksOneCall: whoever waits in a call holds up nobody else.
func TestFaultyBlocksOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		mem := NewMem()
		faulty := NewFaulty(mem, func(op Op) Fault {
			if op.Kind == OpWrite {
				return Fault{Block: gate}
			}
			return Fault{}
		})
		f := must(faulty.OpenFile("f", os.O_RDWR|os.O_CREATE))
		var wg sync.WaitGroup
		written := false
		wg.Go(func() {
			must(f.WriteAt([]byte("x"), 0))
			written = true
		})
		synctest.Wait()
		if written || textOf(mem, "f") != "" {
			t.Error("the write did not wait")
		}
		must(f.Size())
		f.ReadAt(make([]byte, 1), 0)
		check(t, f.Sync())
		close(gate)
		wg.Wait()
		if textOf(mem, "f") != "x" {
			t.Error("the write was lost")
		}
	})
}

// TestFaultySyncFailures: the two kinds of kernel there are.
func TestFaultySyncFailures(t *testing.T) {
	for _, drop := range []bool{false, true} {
		mem := NewMem()
		check(t, mem.WriteFile("f", nil))
		n := 0
		inner := NewFaulty(mem, func(op Op) Fault {
			if op.Kind == OpSync {
				if n++; n == 1 {
					return Fault{Err: syscall.EIO, DropOnSyncFail: drop}
				}
			}
			return Fault{}
		})
		f := must(NewFaulty(inner, nil).OpenFile("f", os.O_RDWR))
		must(f.WriteAt([]byte("abc"), 0))
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if got := textOf(mem.Crash(CrashOptions{}), "f"); got != "" {
			t.Errorf("drop %v: a failed sync made %q durable", drop, got)
		}
		check(t, f.Sync())
		want := "abc"
		if drop {
			want = "\x00\x00\x00"
		}
		if got := textOf(mem.Crash(CrashOptions{}), "f"); got != want {
			t.Errorf("drop %v: after a later sync %q is durable", drop, got)
		}
		if got := textOf(mem, "f"); got != "abc" {
			t.Errorf("drop %v: reads show %q", drop, got)
		}
	}
	// Through a wrapper the loss must reach the file as well.
	mem := NewMem()
	check(t, mem.WriteFile("f", nil))
	outer := NewFaulty(NewFaulty(mem, nil), func(op Op) Fault {
		if op.Kind == OpSync && op.Seq == 3 {
			return Fault{Err: syscall.EIO, DropOnSyncFail: true}
		}
		return Fault{}
	})
	f := must(outer.OpenFile("f", os.O_RDWR))
	must(f.WriteAt([]byte("abc"), 0))
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	check(t, f.Sync())
	if got := textOf(mem.Crash(CrashOptions{}), "f"); got != "\x00\x00\x00" {
		t.Errorf("%q is durable", got)
	}
}

func TestFaultyRules(t *testing.T) {
	op := func(kind OpKind, name string) Op { return Op{Kind: kind, Name: name} }
	move := Op{Kind: OpRename, Name: "topics/t.tmp", To: "topics/t.json"}
	tests := []struct {
		name string
		rule func(Op) Fault
		ops  []Op
		want string // one byte a call: x fails
	}{
		{"second", FailNth(OpSync, "", 2, syscall.EIO), []Op{op(OpSync, "a"), op(OpWrite, "a"), op(OpSync, "b"), op(OpSync, "a")}, "..x."},
		{"from the second", FailFrom(OpSync, "", 2, syscall.EIO), []Op{op(OpSync, "a"), op(OpWrite, "a"), op(OpSync, "b"), op(OpSync, "a")}, "..xx"},
		{"any kind", FailFrom(OpAny, "a", 1, syscall.EIO), []Op{op(OpSync, "a"), op(OpWrite, "b"), op(OpRead, "a")}, "x.x"},
		{"last element", FailFrom(OpAny, "*.log", 1, syscall.EIO), []Op{op(OpRead, "t/0/1.log"), op(OpRead, "t/0/1.index")}, "x."},
		{"whole name", FailFrom(OpAny, "t/*/*.log", 1, syscall.EIO), []Op{op(OpRead, "t/0/1.log"), op(OpRead, "u/0/1.log"), op(OpRead, "1.log")}, "x.."},
		{"source", FailFrom(OpRename, "*.tmp", 1, syscall.EIO), []Op{move}, "x"},
		{"target", FailFrom(OpRename, "*.json", 1, syscall.EIO), []Op{move}, "x"},
		{"no target", FailFrom(OpAny, "?", 1, syscall.EIO), []Op{op(OpRead, "ab"), op(OpRead, "a")}, ".x"},
	}
	for _, tt := range tests {
		got := ""
		for _, op := range tt.ops {
			if tt.rule(op).Err != nil {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a malformed glob went unnoticed")
		}
	}()
	FailNth(OpAny, "[", 1, syscall.EIO)
}
