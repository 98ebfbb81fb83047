package varve_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// Two passes of retention at the same time make room once.
func TestTwoPassesMakeRoomOnce(t *testing.T) {
	for range 20 {
		r := newRig(t, background, func(r *rig) { r.opt.MaxBytes = 3000 })
		p := r.one("segment.bytes=300", "retention.ms=-1")
		for i := range 60 {
			r.publish(p, text("%d", i))
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(r.retain)
		}
		all.Wait()
		if bytes := p.Stats().Bytes; bytes > 3000 || bytes < 3000-400 {
			t.Errorf("%d bytes are left of a budget of 3000", bytes)
		}
	}
}

// A segment that cannot be deleted is not read any more, keeps nothing else from
// going, and goes when it can, at the latest with the next start. (liftbridge#439)
func TestUndeletableSegmentGoesLater(t *testing.T) {
	for _, restart := range []bool{false, true} {
		var sick atomic.Bool
		r := newRig(t, background, func(r *rig) {
			r.loud = true // a segment may not be finished yet when its files are held
			r.rule = func(op vfs.Op) vfs.Fault {
				if sick.Load() && op.Kind == vfs.OpRemove && strings.Contains(op.Name, "00000003.") {
					return vfs.Fault{Err: syscall.EPERM}
				}
				return vfs.Fault{}
			}
		})
		p := r.one("segment.bytes=250", "retention.ms=-1")
		for i := range 17 {
			r.publish(p, text("%d", i))
		}
		bases := segmentBases(r)
		sick.Store(true)
		if _, err := p.Trim(15); err != nil {
			t.Fatal(err)
		}
		left := segmentBases(r)
		if len(bases) < 5 || len(left) >= len(bases) || left[0] != 3 && bases[1] == 3 {
			t.Errorf("the segments were %v and are %v", bases, left)
		}
		if p.Start() != 15 || len(collect(t, p.Records(context.Background(), varve.Earliest()))) != 2 {
			t.Errorf("the start is %d", p.Start())
		}
		if r.logged.first("cannot delete") == "" {
			t.Error("the log does not say so")
		}
		r.retain()
		if restart {
			r.reopen()
			p = r.part("t", 0)
			r.retain()
		}
		sick.Store(false)
		r.retain()
		for _, base := range segmentBases(r) {
			if base == 3 {
				t.Error("it is still there")
			}
		}
		if p.Start() != 15 {
			t.Errorf("the start is %d", p.Start())
		}
	}
}

func segmentBases(r *rig) (bases []int) {
	for _, f := range r.disk.Files() {
		var base int
		if n, _ := fmt.Sscanf(filepath.Base(f), "%d.log", &base); n == 1 && strings.HasSuffix(f, ".log") {
			bases = append(bases, base)
		}
	}
	return bases
}

// A topic that cannot be deleted is there as before; one that cannot be made leaves
// nothing in the way.
func TestFailedCatalogCallsLeaveThingsAsTheyWere(t *testing.T) {
	var kind atomic.Int64
	r := newRig(t, background, func(r *rig) {
		r.loud = true
		r.rule = func(op vfs.Op) vfs.Fault {
			if int64(op.Kind) == kind.Load() && kind.Load() != 0 && strings.HasPrefix(op.Name, "topics") {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}
	})
	p := r.one()
	r.publish(p, text("before"))
	kind.Store(int64(vfs.OpRename))
	if err := r.engine.DeleteTopic("t"); !errors.Is(err, syscall.EIO) {
		t.Errorf("deleting gives %v", err)
	}
	kind.Store(0)
	p = r.part("t", 0)
	r.publish(p, text("after"))
	if got := collect(t, p.Records(context.Background(), varve.Earliest())); len(got) != 2 {
		t.Errorf("there are %d records", len(got))
	}
	for _, k := range []vfs.OpKind{vfs.OpMkdir, vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename} {
		kind.Store(int64(k))
		if _, err := r.engine.CreateTopic("new", varve.TopicConfig{Partitions: 3}); !errors.Is(err, syscall.EIO) {
			t.Errorf("making a topic while %s fails gives %v", k, err)
		}
		kind.Store(0)
		if _, err := r.engine.Topic("new"); !errors.Is(err, varve.ErrNoTopic) {
			t.Errorf("after %s failed the topic is %v", k, err)
		}
		if _, err := r.engine.CreateTopic("new", varve.TopicConfig{Partitions: 3}); err != nil {
			t.Errorf("after %s failed, making it again gives %v", k, err)
		}
		if err := r.engine.DeleteTopic("new"); err != nil {
			t.Error(err)
		}
	}
}

// A topic that could not be deleted is opened again under leader epochs that have risen,
// and a power cut does not make the log forget that: the records that it takes are those of
// another epoch than the ones that were there.
func TestTopicTakenBackKeepsItsEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpRename && op.Name == "topics/t" {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}))
		topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability=os", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		before := partOf(t, topic, 0).Stats().Epoch
		if err := e.DeleteTopic("t"); !errors.Is(err, syscall.EIO) {
			t.Fatalf("deleting says %v", err)
		}
		topic = mustTopic(t, e, "t")
		fill(t, topic, "record", 3)
		seen := partOf(t, topic, 0).Stats().Epoch
		left := lost(disk)
		mustClose(t, e)
		e, _ = openOn(t, left)
		p := partOf(t, mustTopic(t, e, "t"), 0)
		if p.End() != 0 || seen <= before || p.Stats().Epoch <= seen {
			t.Errorf("there are %d records of leader epoch %d; it was %d, and %d when they were lost", p.End(), p.Stats().Epoch, before, seen)
		}
		mustClose(t, e)
	})
}
