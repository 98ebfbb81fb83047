package varve_test

import (
	"context"
	"fmt"
	"maps"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// brokenRoll is a way in which the making of a segment fails.
type brokenRoll struct {
	name   string
	fault  func(op vfs.Op, cause error) (vfs.Fault, bool)
	leaves bool // an empty file, for want of a removal that works
}

var brokenRolls = []brokenRoll{
	{"length cannot be read", func(op vfs.Op, cause error) (vfs.Fault, bool) {
		return vfs.Fault{Err: cause}, op.Kind == vfs.OpStat
	}, true},
	{"made, and reported as failed", func(op vfs.Op, cause error) (vfs.Fault, bool) {
		return vfs.Fault{Err: cause, Done: true}, op.Kind == vfs.OpCreate
	}, false},
	{"made, and cannot be removed", func(op vfs.Op, cause error) (vfs.Fault, bool) {
		return vfs.Fault{Err: cause, Done: op.Kind == vfs.OpCreate}, op.Kind == vfs.OpCreate || op.Kind == vfs.OpRemove
	}, true},
}

// A roll that fails when its file is there already, once and many times: the log goes on
// in the segment it has, and the file, which holds nothing, is in nobody's way, at the next
// roll, after a stop, a kill and a power cut, on every level.
func TestFailedRollLeavesNothingInTheWay(t *testing.T) {
	causes := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.EINTR}
	for _, broken := range brokenRolls {
		for i, cause := range causes {
			for _, level := range allLevels {
				for _, more := range []int{0, 2, 20} { // rolled on top of it
					for _, often := range []int64{1, 3} {
						if testing.Short() && (i+more)%3 > 0 {
							continue
						}
						name := fmt.Sprintf("%s/%v/%s/%d more/%d times", broken.name, cause, level, more, often)
						synctest.Test(t, func(t *testing.T) { failedRoll(t, name, broken, cause, level, more, often) })
					}
				}
			}
		}
	}
}

func failedRoll(t *testing.T, what string, broken brokenRoll, cause error, level string, more int, often int64) {
	disk := vfs.NewMem()
	var armed atomic.Bool
	var name atomic.Pointer[string]
	var failed atomic.Int64
	e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if !armed.Load() || path.Ext(op.Name) != ".log" {
			return vfs.Fault{}
		}
		if op.Kind == vfs.OpCreate && (name.Load() == nil || *name.Load() != op.Name) {
			if failed.Load() == often {
				armed.Store(false)
				return vfs.Fault{}
			}
			failed.Add(1)
			name.Store(&op.Name)
		}
		if name.Load() == nil || *name.Load() != op.Name {
			return vfs.Fault{}
		}
		if fault, hit := broken.fault(op, cause); hit {
			return fault
		}
		return vfs.Fault{}
	}))
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability="+level, "segment.bytes=400", "retention.ms=-1")})
	if err != nil {
		t.Fatal(err)
	}
	p := partOf(t, topic, 0)
	want := make(map[varve.Offset]string)
	publish := func(n int) {
		t.Helper()
		for range n {
			value := fmt.Sprintf("value %d %s", len(want), strings.Repeat("x", 60))
			off, err := p.Publish(context.Background(), text("%s", value))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want[off] = value
		}
	}
	publish(5)
	time.Sleep(time.Minute) // a checkpoint
	armed.Store(true)
	for failed.Load() < often || failed.Load() == 0 {
		publish(1)
	}
	armed.Store(false)
	if left := emptyLogs(disk); len(left) > 0 != broken.leaves {
		t.Errorf("%s: it leaves %q", what, left)
	}
	publish(more)
	if err := p.WaitDurable(context.Background(), p.LogEnd()); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	killed, cut := disk.Clone(), disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
	lost := disk.Crash(vfs.CrashOptions{Names: vfs.NamesLost})
	mustClose(t, e)
	for how, left := range map[string]*vfs.Mem{"stopped": disk, "killed": killed, "cut off": cut, "cut off, names lost": lost} {
		checkAfterFailedRoll(t, what+", "+how, left, want)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// checkAfterFailedRoll starts on a disk twice, the first time with files that cannot be
// removed.
func checkAfterFailedRoll(t *testing.T, what string, disk *vfs.Mem, want map[varve.Offset]string) {
	t.Helper()
	for start := range 3 {
		e, logged := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if info, err := disk.Stat(op.Name); start == 0 && op.Kind == vfs.OpRemove && err == nil && path.Ext(op.Name) == ".log" && info.Size() == 0 {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}))
		p := partOf(t, mustTopic(t, e, "t"), 0)
		if err := p.Err(); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, logged.buf.String())
		}
		if got := stored(t, p); !maps.Equal(got, want) {
			t.Errorf("%s, start %d: there are %d records, expected %d\n%s", what, start+1, len(got), len(want), logged.buf.String())
		}
		if line := logged.first("level=ERROR"); line != "" {
			t.Errorf("%s, start %d: %s", what, start+1, line)
		}
		for range 4 {
			value := fmt.Sprintf("value %d %s", len(want), strings.Repeat("y", 60))
			off, err := p.Publish(context.Background(), text("%s", value))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			want = maps.Clone(want)
			want[off] = value
		}
		mustClose(t, e)
		if start == 0 {
			continue
		}
		if left := emptyLogs(disk); len(left) > 0 {
			t.Errorf("%s, start %d: there are still %q", what, start+1, left)
		}
	}
}

// emptyLogs are the log files without a byte.
func emptyLogs(disk *vfs.Mem) (found []string) {
	for _, f := range disk.Files() {
		if info, err := disk.Stat(f); err == nil && path.Ext(f) == ".log" && info.Size() == 0 {
			found = append(found, f)
		}
	}
	return found
}
