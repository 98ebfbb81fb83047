package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// asNobody runs f without the rights of root, which may read everything.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread() // it goes for this thread alone
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	f()
	if err := syscall.Setfsuid(0); err != nil {
		t.Fatal(err) // and the thread is not used again
	}
	runtime.UnlockOSThread()
}

// openBut gives everybody the right to read a tree, and none to read path.
func openBut(t *testing.T, root, path string) {
	t.Helper()
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o755)
		switch {
		case p == path:
			mode = 0
		case !info.IsDir():
			mode = 0o644
		}
		return os.Chmod(p, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Dir(root), 0o755) // made for the test alone
	t.Cleanup(func() { os.Chmod(path, 0o700) })
}

// What may not be read is a fault that has a name, and all else is checked.
func TestVerifyGoesOnPastTheUnreadable(t *testing.T) {
	root := t.TempDir()
	for _, topic := range []string{"clicks", "orders", "views"} {
		produceOne(t, root, topic)
	}
	topics := filepath.Join(root, "topics")
	for _, c := range []struct {
		path string
		ok   int // partitions without a fault
		want string
	}{
		{"orders", 2, "cannot be read: permission denied"},
		{"orders/0", 2, "cannot be read: permission denied"},
		{"orders/0/00000000000000000000.log", 2, "position 0, offset 0: cannot be read: permission denied"},
		{"orders/0/seals", 2, ""},
		{"orders/topic.json", 3, "permission denied"},
	} {
		path := filepath.Join(topics, filepath.FromSlash(c.path))
		if _, err := os.Stat(path); err != nil {
			write(t, path, nil)
		}
		openBut(t, root, path)
		var out bytes.Buffer
		asNobody(t, func() {
			found, err := findPartitions([]string{topics}, true)
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
				return
			}
			v := &verify{ctx: context.Background(), app: &app{out: &output{w: &out}, err: &out}, bar: &progress{}}
			if err := v.run(found); err == nil || v.faults != 1 {
				t.Errorf("%s: %d faults, error %v", c.path, v.faults, err)
			}
		})
		if !strings.Contains(out.String(), path) || !strings.Contains(out.String(), c.want) || strings.Count(out.String(), ": ok\n") != c.ok {
			t.Errorf("%s:\n%s", c.path, out.String())
		}
		os.Chmod(path, 0o755)
	}
}

func produceOne(t *testing.T, root, topic string) {
	t.Helper()
	p := startVarve(t, root, "produce", topic, "--create")
	p.in.Write([]byte("one\n"))
	p.in.Close()
	if p.end() != 0 {
		t.Fatal(p.stderr.String())
	}
}

// So it is in a dump.
func TestDumpGoesOnPastTheUnreadable(t *testing.T) {
	for _, suffix := range []string{".log", ".index", ".timeindex", ""} {
		l := newTestLog(t, true)
		bases := l.three(t, true)
		path := l.path(bases[1], suffix)
		if suffix == "" {
			path = filepath.Join(l.dir, "partition.json")
		}
		openBut(t, filepath.Dir(filepath.Dir(l.dir)), path)
		var out bytes.Buffer
		d := newDump(&out, true, false)
		asNobody(t, func() {
			found, err := findPartitions([]string{l.dir}, false)
			if err == nil {
				err = d.all(context.Background(), found)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		})
		d.out.Flush()
		wantFaults, batches := int64(1), 18
		switch suffix {
		case ".log":
			batches = 12
		case "":
			wantFaults = 0 // of which a dump does not speak
		}
		if d.faults != wantFaults || strings.Count(out.String(), `"type":"batch"`) != batches ||
			wantFaults > 0 && !strings.Contains(out.String(), `"path":"`+path+`",`) {
			t.Errorf("%s: %d faults\n%s", path, d.faults, out.String())
		}
	}
}
