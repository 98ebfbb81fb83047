package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// TestMemIsLikeDir runs random programs on a Mem and on the real file system of
// the machine, which is the model: results, kinds of errors and the tree at the
// end must be the same.
func TestMemIsLikeDir(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		real := must(os.MkdirTemp(root, "run"))
		defer os.RemoveAll(real)
		p := pair{real: Dir(real), mem: NewMem()}
		if rapid.Bool().Draw(t, "something there") {
			for _, d := range []string{"d", "d/e", "e"} {
				same(t, "mkdir "+d, p.real.Mkdir(d), p.mem.Mkdir(d))
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p.step(t)
		}
		a, b := tree(p.real), tree(p.mem)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("real:\n%s\nmem:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
		}
		for _, h := range p.handles {
			h.real.Close()
		}
	})
}

type pair struct {
	real, mem FS
	handles   []struct{ real, mem File }
}

var (
	someName = rapid.SampledFrom([]string{
		"a", "b", "d", "e", "d/a", "d/b", "e/a", "d/e", "d/e/a", "d/e/b", "a/x", "a/x/y", "d/e/a/x", ".", "..", strings.Repeat("n", 256),
	})
	someFlag = rapid.SampledFrom([]int{
		os.O_RDONLY, os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE, os.O_WRONLY | os.O_CREATE,
		os.O_RDWR | os.O_CREATE | os.O_EXCL, os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_CREATE,
	})
	someBytes = rapid.SliceOfN(rapid.Byte(), 1, 20)
	somePos   = rapid.Int64Range(0, 60)
)

func (p *pair) step(t *rapid.T) {
	what := rapid.SampledFrom([]string{
		"open", "open", "mkdir", "mkdir", "readdir", "stat", "rename", "rename", "link", "remove", "removeall", "syncdir",
		"read", "write", "write", "vec", "size", "truncate", "allocate", "sync", "map", "close",
	}).Draw(t, "what")
	if p.onHandle(t, what) {
		return
	}
	name := someName.Draw(t, "name")
	switch what {
	case "open":
		flag := someFlag.Draw(t, "flag")
		real, realErr := p.real.OpenFile(name, flag)
		mem, memErr := p.mem.OpenFile(name, flag)
		same(t, what+" "+name, realErr, memErr)
		if realErr == nil {
			p.handles = append(p.handles, struct{ real, mem File }{real, mem})
		}
	case "mkdir":
		same(t, what+" "+name, p.real.Mkdir(name), p.mem.Mkdir(name))
	case "readdir":
		real, realErr := p.real.ReadDir(name)
		mem, memErr := p.mem.ReadDir(name)
		same(t, what+" "+name, realErr, memErr, entries(real), entries(mem))
	case "stat":
		real, realErr := p.real.Stat(name)
		mem, memErr := p.mem.Stat(name)
		same(t, what+" "+name, realErr, memErr)
		if realErr == nil && name != "." {
			same(t, what+" "+name, nil, nil, infoText(real), infoText(mem))
		}
	case "rename", "link":
		to := someName.Draw(t, "to")
		do := FS.Rename
		if what == "link" {
			do = FS.Link
		}
		_, missing := p.real.Stat(name)
		realErr, memErr := do(p.real, name, to), do(p.mem, name, to)
		if missing != nil && realErr != nil && memErr != nil {
			return // which of two errors comes first is not part of the contract
		}
		same(t, what+" "+name+" "+to, realErr, memErr)
	case "remove":
		same(t, what+" "+name, p.real.Remove(name), p.mem.Remove(name))
	case "removeall":
		same(t, what+" "+name, p.real.RemoveAll(name), p.mem.RemoveAll(name))
	case "syncdir":
		same(t, what+" "+name, p.real.SyncDir(name), p.mem.SyncDir(name))
	}
}

func (p *pair) onHandle(t *rapid.T, what string) bool {
	if !slices.Contains([]string{"read", "write", "vec", "size", "truncate", "allocate", "sync", "map", "close"}, what) {
		return false
	}
	if len(p.handles) == 0 {
		return true
	}
	h := p.handles[rapid.IntRange(0, len(p.handles)-1).Draw(t, "handle")]
	pos := somePos.Draw(t, "pos")
	what += " " + h.real.Name()
	switch strings.Fields(what)[0] {
	case "read":
		a, b := make([]byte, 30), make([]byte, 30)
		n, realErr := h.real.ReadAt(a, pos)
		m, memErr := h.mem.ReadAt(b, pos)
		same(t, what, realErr, memErr, a[:n], b[:m])
	case "write":
		data := someBytes.Draw(t, "data")
		n, realErr := h.real.WriteAt(data, pos)
		m, memErr := h.mem.WriteAt(data, pos)
		same(t, what, realErr, memErr, n, m)
	case "vec":
		bufs := rapid.SliceOfN(someBytes, 1, 4).Draw(t, "bufs")
		n, realErr := h.real.WriteVecAt(bufs, pos)
		m, memErr := h.mem.WriteVecAt(bufs, pos)
		same(t, what, realErr, memErr, n, m)
	case "size":
		n, realErr := h.real.Size()
		m, memErr := h.mem.Size()
		same(t, what, realErr, memErr, n, m)
	case "truncate":
		same(t, what, h.real.Truncate(pos), h.mem.Truncate(pos))
	case "allocate":
		same(t, what, h.real.Allocate(pos+1), h.mem.Allocate(pos+1))
	case "sync":
		same(t, what, h.real.Sync(), h.mem.Sync())
	case "map":
		a, realErr := h.real.Map(pos)
		b, memErr := h.mem.Map(pos)
		same(t, what, realErr, memErr)
		if realErr == nil {
			same(t, what, nil, nil, string(a.Bytes()), string(b.Bytes()))
			a.Close()
		}
	case "close":
		same(t, what, h.real.Close(), h.mem.Close())
	}
	return true
}

// same compares two outcomes: errors, then values in pairs.
func same(t *rapid.T, what string, realErr, memErr error, values ...any) {
	t.Helper()
	if a, b := errorKind(realErr), errorKind(memErr); a != b {
		t.Fatalf("%s: real says %v (%s), mem says %v (%s)", what, realErr, a, memErr, b)
	}
	for i := 0; i < len(values); i += 2 {
		if !reflect.DeepEqual(values[i], values[i+1]) {
			t.Fatalf("%s: real gives %v, mem gives %v", what, values[i], values[i+1])
		}
	}
}

func errorKind(err error) string {
	if err == nil {
		return "ok"
	}
	kinds := []error{
		fs.ErrNotExist, fs.ErrExist, fs.ErrClosed, io.EOF, io.ErrUnexpectedEOF,
		syscall.ENOTDIR, syscall.EISDIR, syscall.ENOTEMPTY, syscall.EPERM, syscall.ENAMETOOLONG,
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return "invalid" // a call this handle or name does not take: EINVAL, EBADF and words
}

func entries(list []fs.DirEntry) (names []string) {
	for _, e := range list {
		names = append(names, fmt.Sprintf("%s %v", e.Name(), e.IsDir()))
	}
	return names
}

func infoText(info fs.FileInfo) string {
	size := info.Size()
	if info.IsDir() {
		size = 0
	}
	return fmt.Sprintf("%s %d %v %v", info.Name(), size, info.IsDir(), info.Mode())
}

// tree lists every name with its content.
func tree(fsys FS) []string { return subtree(fsys, ".") }

func subtree(fsys FS, dir string) (lines []string) {
	for _, e := range must(fsys.ReadDir(dir)) {
		name := strings.TrimPrefix(dir+"/"+e.Name(), "./")
		if e.IsDir() {
			lines = append(append(lines, name+"/"), subtree(fsys, name)...)
			continue
		}
		f := must(fsys.OpenFile(name, os.O_RDONLY))
		content := make([]byte, must(f.Size()))
		must(f.ReadAt(content, 0))
		f.Close()
		lines = append(lines, fmt.Sprintf("%s %q", name, content))
	}
	return lines
}
