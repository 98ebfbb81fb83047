package varve_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/segment"
)

// A start that fails for a read error says so, and is not taken in: what cannot be
// looked at is not missing. A mark of a clean stop that cannot be read is never taken
// for none, for then files that were put into a log would be torn ones.
func TestReadErrorsAtAStartAreNamed(t *testing.T) {
	clean, unclean, _ := filled(t)
	for left, disk := range map[string]*vfs.Mem{"clean": clean, "unclean": unclean} {
		for _, kind := range []vfs.OpKind{vfs.OpOpen, vfs.OpStat, vfs.OpRead, vfs.OpReadDir} {
			for n, failed := int64(1), true; failed; n++ {
				var seen atomic.Int64
				var name string
				e, _, err := tryOpenOn(vfs.NewFaulty(disk.Clone(), func(op vfs.Op) vfs.Fault {
					if op.Kind == kind && seen.Add(1) == n {
						name = op.Name
						return vfs.Fault{Err: syscall.EIO}
					}
					return vfs.Fault{}
				}))
				failed = seen.Load() >= n
				switch {
				case err == nil:
					e.Close() // calls of the close count as well, and may fail it
					if failed && name == "clean" && left == "clean" && kind != vfs.OpReadDir {
						t.Errorf("%s: %v of %s failed, and the mark was taken for none", left, kind, name)
					}
				case !errors.Is(err, syscall.EIO):
					t.Errorf("%s: %v of %s failed: %v", left, kind, name, err)
				}
			}
		}
	}
}

// After a clean stop no directory is listed twice, no document read twice, and no segment
// looked into: that is what such a start costs.
func TestCleanStartLooksOnce(t *testing.T) {
	clean, _, _ := filled(t)
	var mu sync.Mutex
	looks := make(map[string]int)
	e, _, err := tryOpenOn(vfs.NewFaulty(clean, func(op vfs.Op) vfs.Fault {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfs.OpOpen || op.Kind == vfs.OpReadDir {
			looks[op.Name]++
		}
		return vfs.Fault{}
	}))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	for name, n := range looks {
		if inTopics := strings.HasPrefix(name, "topics"); inTopics && (n > 1 || strings.HasSuffix(name, segment.LogSuffix)) {
			t.Errorf("looked into %s %d times", name, n)
		}
	}
	mu.Unlock()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
