package varve_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
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
