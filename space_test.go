package varve_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Records leave the reserve free: with it everything but a publish works on a full
// disk, and publishes work again as soon as there is space. What was refused takes no
// offset, and nothing that was acknowledged is lost, by a power cut neither.
func TestReserveIsKept(t *testing.T) {
	const reserve = 200 << 10
	disk := vfs.NewMem()
	disk.Limit(3 << 20)
	open := func() *varve.Engine {
		e, err := varve.OpenFS(disk, varve.Options{
			Logger: slog.New(slog.DiscardHandler), CacheBytes: -1, RetentionInterval: 1000 * time.Hour,
			JournalBytes: smallJournal, ReserveBytes: reserve,
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("retention.ms=-1", "segment.bytes=100000")})
	if err != nil {
		t.Fatal(err)
	}
	publish := func() error {
		_, err := topic.Publish(context.Background(), text("%s", strings.Repeat("x", 2000)))
		return err
	}
	n := varve.Offset(0)
	for ; n < 5000; n++ {
		if err = publish(); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, varve.ErrReadOnly) || !strings.Contains(err.Error(), "are kept so") {
		t.Fatalf("after %d records: %v", n, err)
	}
	const derived = 64 << 10 // indexes, seals and checkpoints that came meanwhile
	if free, _, _ := disk.Space(); free < reserve-derived {
		t.Errorf("%d bytes are left of %d", free, reserve)
	}
	for _, name := range []string{"a", "b", "c"} { // what needs a little goes on
		if _, err := e.CreateTopic(name, varve.TopicConfig{}); err != nil {
			t.Error(err)
		}
	}
	if err := topic.Alter(map[string]string{"retention.bytes": "1000000"}); err != nil {
		t.Error(err)
	}
	p := partOf(t, topic, 0)
	if got := varve.Offset(len(valuesOf(t, p))); got != n || p.End() != n {
		t.Errorf("%d records of %d are there, the end is %d", got, n, p.End())
	}
	mustClose(t, e)
	disk = disk.Crash(vfs.CrashOptions{})
	e = open()
	if topic, err = e.Topic("t"); err != nil {
		t.Fatal(err)
	}
	p = partOf(t, topic, 0)
	if got := varve.Offset(len(valuesOf(t, p))); got != n {
		t.Errorf("after a power cut %d records of %d are there", got, n)
	}
	if err := e.RunRetention(); err != nil {
		t.Error(err)
	}
	if p.Start() == 0 {
		t.Error("retention has made no space")
	}
	if err := publish(); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if p.End() != n+1 {
		t.Errorf("the end is %d, expected %d", p.End(), n+1)
	}
	mustClose(t, e)
}

// A disk that stops answering is seen while publishes wait for it, and everything goes
// on when it answers again.
func TestStalledDiskIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stall atomic.Bool
		answer := make(chan struct{})
		disk := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpSync && stall.Load() {
				return vfs.Fault{Block: answer}
			}
			return vfs.Fault{}
		})
		e, said := openOn(t, disk)
		topic := mustTopic(t, e, "t")
		fill(t, topic, "before", 3)
		before := e.Disk()
		if before.Syncs == 0 || before.Slow != 0 || before.Waiting != 0 || before.Free <= 0 || before.Reserve <= 0 {
			t.Errorf("at first: %+v", before)
		}
		stall.Store(true)
		done := make(chan error)
		go func() {
			_, err := topic.Publish(context.Background(), text("waits"))
			done <- err
		}()
		time.Sleep(7 * time.Second)
		if now := e.Disk(); now.Waiting < 6*time.Second || now.Slow != 0 {
			t.Errorf("while it stands still: %+v", now)
		}
		if said.first("disk does not answer") == "" {
			t.Errorf("the log says %s", said.buf.String())
		}
		stall.Store(false)
		close(answer)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if after := e.Disk(); after.Slow == 0 || after.Longest < 6*time.Second || after.Waiting != 0 || after.Syncs <= before.Syncs {
			t.Errorf("afterwards: %+v", after)
		}
		if said.first("disk has answered") == "" {
			t.Errorf("the log says %s", said.buf.String())
		}
		mustClose(t, e)
	})
}

// The reserve is left by what comes in large pieces too: by batches that are larger than
// it, and by new files of the journal.
func TestReserveIsKeptFromLargePieces(t *testing.T) {
	const reserve, limit = 300 << 10, 8 << 20
	for _, size := range []int{700 << 10, 40 << 10} { // into the segment, through the journal
		disk := vfs.NewMem()
		disk.Limit(limit)
		e, err := varve.OpenFS(disk, varve.Options{
			Logger: slog.New(slog.DiscardHandler), CacheBytes: -1, RetentionInterval: 1000 * time.Hour,
			JournalBytes: 4 << 20, ReserveBytes: reserve,
		})
		if err != nil {
			t.Fatal(err)
		}
		topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("retention.ms=-1", "segment.bytes=100000000", "max.message.bytes=10000000")})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; err == nil && n < 1000; n++ {
			_, err = topic.Publish(context.Background(), text("%s", strings.Repeat("x", size)))
			const derived = 64 << 10 // indexes, seals and checkpoints that came meanwhile
			if free, _, _ := disk.Space(); free < reserve-derived {
				t.Errorf("%d records of %d bytes: %d bytes are left of %d", n+1, size, free, reserve)
				break
			}
		}
		if n < 3 || !errors.Is(err, syscall.ENOSPC) && !t.Failed() {
			t.Errorf("%d records of %d bytes: %v", n, size, err)
		}
		mustClose(t, e)
	}
}
