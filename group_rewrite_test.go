package varve

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/varvelog/varve/internal/vfs"
)

// The commits of a group are written anew behind a commit that is under way, not beside it:
// a place of before it would stand behind it in the log, and count.
func TestRewriteWaitsForCommits(t *testing.T) {
	disk := vfs.NewMem()
	var shut atomic.Bool
	reached, gate := make(chan struct{}), make(chan struct{})
	fsys := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".wal") && shut.CompareAndSwap(true, false) {
			close(reached)
			return vfs.Fault{Block: gate}
		}
		return vfs.Fault{}
	})
	opt := Options{Logger: slog.New(slog.DiscardHandler), JournalBytes: 256 << 10}
	open := func(fsys vfs.FS) *Engine {
		e, err := OpenFS(fsys, opt)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open(fsys)
	topic, err := e.CreateTopic("t", TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := topic.Publish(context.Background(), Record{Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(off Offset) error {
		return e.CommitOffsets(context.Background(), "g", Commit{Topic: "t", Offset: off})
	}
	if err := commit(3); err != nil {
		t.Fatal(err)
	}
	committed := func(when string, e *Engine) {
		t.Helper()
		if list, err := e.Commits("g"); err != nil || len(list) != 1 || list[0].Offset != 5 {
			t.Errorf("%s: the commits are %+v, %v", when, list, err)
		}
	}
	done := make(chan error, 2)
	shut.Store(true)
	go func() { done <- commit(5) }()
	<-reached
	go func() {
		_, err := e.groups.find("g").rewrite()
		done <- err
	}()
	for range 5000 { // it comes as far as it gets
		runtime.Gosched()
	}
	close(gate)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	committed("at once", e)
	killed := disk.Clone()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	e = open(killed)
	committed("after a kill", e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
