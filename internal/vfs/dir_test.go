package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestNamesStayInside(t *testing.T) {
	bad := []string{"", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "./a", "a/", "a//b", "a/./b", "a\x00b", "a\xff"}
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		check(t, must(fsys.OpenFile("a", os.O_RDWR|os.O_CREATE)).Close())
		for _, name := range bad {
			for op, err := range everyCall(fsys, name) {
				if !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s: %s %q: %v, want it refused", kind, op, name, err)
				}
			}
		}
		for _, op := range []string{"rename from", "rename to", "link from", "link to", "remove", "removeall"} {
			if err := everyCall(fsys, ".")[op]; !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: %s of the root: %v, want it refused", kind, op, err)
			}
		}
	}
}

func everyCall(fsys FS, name string) map[string]error {
	errs := map[string]error{}
	_, errs["open"] = fsys.OpenFile(name, os.O_RDONLY)
	_, errs["create"] = fsys.OpenFile(name, os.O_RDWR|os.O_CREATE)
	errs["mkdir"] = fsys.Mkdir(name)
	_, errs["readdir"] = fsys.ReadDir(name)
	_, errs["stat"] = fsys.Stat(name)
	errs["rename from"] = fsys.Rename(name, "b")
	errs["rename to"] = fsys.Rename("a", name)
	errs["link from"] = fsys.Link(name, "b")
	errs["link to"] = fsys.Link("a", name)
	errs["remove"] = fsys.Remove(name)
	errs["removeall"] = fsys.RemoveAll(name)
	errs["syncdir"] = fsys.SyncDir(name)
	_, errs["lock"] = fsys.Lock(name, "me")
	return errs
}

func FuzzNamesStayInside(f *testing.F) {
	for _, s := range []string{"a", "a/b", "..", "a/../..", "/a", `a\..\..`, "C:x", "a\x00"} {
		f.Add(s)
	}
	d := Dir("root").(*dir)
	f.Fuzz(func(t *testing.T, name string) {
		path, err := d.path("open", name)
		if err != nil {
			return
		}
		rel, err := filepath.Rel(d.root, path)
		if err != nil || !filepath.IsLocal(rel) || strings.ContainsRune(path, 0) {
			t.Errorf("%q leads to %q, %v", name, path, err)
		}
		if filepath.ToSlash(rel) != name {
			t.Errorf("%q is another spelling of %q", name, rel)
		}
	})
}

func TestFlagsRefused(t *testing.T) {
	bad := map[string]int{
		"append":                   os.O_RDWR | os.O_CREATE | os.O_APPEND,
		"sync":                     os.O_RDWR | os.O_SYNC,
		"truncate while reading":   os.O_RDONLY | os.O_TRUNC,
		"exclusive without create": os.O_RDWR | os.O_EXCL,
		"both accesses":            os.O_RDWR | os.O_WRONLY,
	}
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		check(t, must(fsys.OpenFile("a", os.O_RDWR|os.O_CREATE)).Close())
		for what, flag := range bad {
			if f, err := fsys.OpenFile("a", flag); !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%s: %s: %v, %v", kind, what, f, err)
			}
		}
	}
}

// TestErrorsNameTheFile: a person must find it by the text alone.
func TestErrorsNameTheFile(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem(), "faulty": NewFaulty(NewMem(), nil)} {
		f := must(fsys.OpenFile("a", os.O_RDONLY|os.O_CREATE))
		_, readErr := f.ReadAt(make([]byte, 1), -1)
		_, writeErr := f.WriteAt([]byte("x"), 0)
		_, vecErr := f.WriteVecAt([][]byte{{1}, {2}}, 0)
		_, mapErr := f.Map(10)
		path := fsys.Path("a")
		errs := map[string]error{"read": readErr, "write": writeErr, "vec": vecErr, "map": mapErr, "truncate": f.Truncate(-1), "allocate": f.Allocate(-1)}
		check(t, f.Close())
		errs["sync"], errs["close"] = f.Sync(), f.Close()
		for op, err := range everyCall(fsys, "a/b") {
			if op != "removeall" {
				errs[op] = err
			}
		}
		for op, err := range errs {
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %s: %q does not name %s", kind, op, err, path)
			}
			var pathErr *fs.PathError
			var linkErr *os.LinkError
			if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
				t.Errorf("%s: %s: %T", kind, op, err)
			}
		}
	}
}

func TestMkdirRoot(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "data"))
	if _, err := d.Stat("."); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	check(t, d.Mkdir("."))
	check(t, d.Mkdir("topics"))
	if err := d.Mkdir("."); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func TestRelativeRootIsFixed(t *testing.T) {
	t.Chdir(t.TempDir())
	d := Dir("data")
	check(t, d.Mkdir("."))
	t.Chdir(t.TempDir())
	must(d.Stat("."))
}

func TestMapOutlivesItsFile(t *testing.T) {
	for kind, fsys := range map[string]FS{"dir": Dir(t.TempDir()), "mem": NewMem()} {
		t.Run(kind, func(t *testing.T) {
			f := must(fsys.OpenFile("a", os.O_RDWR|os.O_CREATE))
			must(f.WriteAt([]byte("sealed"), 0))
			m := must(f.Map(4))
			empty := must(f.Map(0))
			if _, err := f.Map(7); err == nil {
				t.Error("mapped past the end")
			}
			if _, err := f.Map(-1); err == nil {
				t.Error("mapped a negative size")
			}
			check(t, f.Close())
			if string(m.Bytes()) != "seal" || len(empty.Bytes()) != 0 {
				t.Errorf("mapped %q and %q", m.Bytes(), empty.Bytes())
			}
			for range 2 {
				check(t, m.Close())
				check(t, empty.Close())
			}
		})
	}
}

// TestCloseWhileReading: no call may reach a descriptor that is another file's by now.
func TestCloseWhileReading(t *testing.T) {
	d := Dir(t.TempDir())
	for _, name := range []string{"a", "b"} {
		f := must(d.OpenFile(name, os.O_RDWR|os.O_CREATE))
		must(f.WriteAt([]byte(name), 0))
		check(t, f.Close())
	}
	for range 200 {
		f := must(d.OpenFile("a", os.O_RDWR))
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				p := make([]byte, 1)
				for {
					if _, err := f.ReadAt(p, 0); err != nil {
						return
					}
					if p[0] != 'a' {
						t.Errorf("read %q from another file", p)
						return
					}
					if _, err := f.WriteVecAt([][]byte{p}, 0); err != nil {
						if !errors.Is(err, fs.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		check(t, f.Close())
		check(t, must(d.OpenFile("b", os.O_RDWR)).Close())
		wg.Wait()
	}
}
