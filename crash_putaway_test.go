package varve_test

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve/internal/vfs"
)

// No checkpoint passes over a topic that is being deleted while a power cut may still bring
// it back: the journal has its records until then, whether the deletion goes on or fails.
func TestCheckpointBesideADeletion(t *testing.T) {
	for _, at := range []struct {
		name string
		op   vfs.OpKind
		err  error
		ever bool // from then on
	}{
		{"the name is not durable", vfs.OpSyncDir, nil, false},
		{"and fails to be", vfs.OpSyncDir, syscall.EIO, false},
		{"and fails to be, again and again", vfs.OpSyncDir, syscall.EIO, true},
		{"the rename is under way", vfs.OpRename, nil, false},
		{"and fails", vfs.OpRename, syscall.EIO, false},
	} {
		t.Run(at.name, func(t *testing.T) {
			var armed, failing atomic.Bool
			held, gate := make(chan struct{}), make(chan struct{})
			r := newRig(t, background, func(r *rig) {
				r.loud = at.err != nil
				r.rule = func(op vfs.Op) vfs.Fault {
					of := op.Name == "topics" || strings.HasPrefix(op.To, "topics/~deleted")
					if op.Kind == at.op && of && armed.CompareAndSwap(true, false) {
						failing.Store(at.ever)
						close(held)
						return vfs.Fault{Block: gate, Err: at.err}
					}
					if op.Kind == at.op && of && failing.Load() {
						return vfs.Fault{Err: at.err}
					}
					return vfs.Fault{}
				}
			})
			r.topic("gone", 1, "retention.ms=-1")
			r.topic("stays", 1, "retention.ms=-1")
			for range 5 {
				r.publish(r.part("gone", 0), text("acknowledged"))
			}
			armed.Store(true)
			deleted := make(chan error, 1)
			go func() { deleted <- r.engine.DeleteTopic("gone") }()
			<-held
			// Enough for the journal to ask for checkpoints, and time to write them.
			p, large := r.part("stays", 0), text("%s", strings.Repeat("x", 8<<10))
			much := func() {
				for range 60 {
					if _, err := p.Publish(context.Background(), large); err != nil {
						t.Fatal(err)
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			if !at.ever {
				much()
			}
			left := r.disk.Crash(vfs.CrashOptions{Names: vfs.NamesLost})
			close(gate)
			if err := <-deleted; (err != nil) != (at.err != nil) {
				t.Errorf("delete: %v", err)
			}
			if at.ever { // what comes behind it does not forget that
				much()
				left = r.disk.Crash(vfs.CrashOptions{Names: vfs.NamesLost})
			}
			failing.Store(false)
			e, _ := openOn(t, left)
			defer mustClose(t, e)
			topic, err := e.Topic("gone")
			if err != nil {
				t.Fatalf("after a power cut in front of the end of the deletion: %v", err)
			}
			back, err := topic.Partition(0)
			if err != nil || back.Start() != 0 || back.End() != 5 {
				t.Errorf("it has the records from %d to %d of 5 (%v)", back.Start(), back.End(), err)
			}
			r.engine.Close()
			r.engine = nil
			r.disk, r.rule = vfs.NewMem(), nil
			clear(r.acked)
			r.open()
		})
	}
}
