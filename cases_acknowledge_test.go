package varve_test

import (
	"context"
	"sync"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// An acknowledgement on stable storage covers the name of the file too, also
// where another goroutine was about to make it durable and was held up.
func TestAcknowledgementCoversTheNameOfTheFile(t *testing.T) {
	v := newValve(func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir && op.Name == "topics/t/0" })
	r := newRig(t, background, func(r *rig) { r.rule = v.rule })
	p := r.one("segment.bytes=300", "durability=os", "retention.ms=-1")
	surely := p.Topic().Publisher(varve.PublisherOptions{Ack: varve.Fsync})
	if pl, err := surely.Publish(context.Background(), text("first")); err != nil {
		t.Fatal(err)
	} else {
		r.note(p, pl.Offset, text("first"))
	}
	v.shut.Store(true)
	for i := range 5 { // rolls; the finishing of the old segment is held at the directory
		r.publish(p, text("%d", i))
	}
	<-v.reached
	pl, err := surely.Publish(context.Background(), text("sure"))
	if err != nil {
		t.Fatal(err)
	}
	r.note(p, pl.Offset, text("sure"))
	left := r.disk.Crash(vfs.CrashOptions{})
	close(v.gate)
	r.close()
	r.disk = left
	r.open()
	if end := r.part("t", 0).End(); end <= pl.Offset {
		t.Errorf("offset %d was on stable storage; after a power cut the end is %d", pl.Offset, end)
	}
}

// What a start after a kill takes for durable is: the files that the killed
// process made and had not synced, their bytes and their names.
func TestStartAfterAKillMakesDurable(t *testing.T) {
	for _, level := range []string{"os", "interval", "fsync"} {
		for _, size := range []string{"150", "1000000"} {
			r := newRig(t, background)
			p := r.one("segment.bytes="+size, "durability="+level, "retention.ms=-1", "flush.ms=86400000")
			for round := range 3 {
				for i := range 7 {
					r.publish(p, text("round %d record %d", round, i))
				}
				r.kill()
				p = r.part("t", 0)
				if p.DurableEnd() != p.End() || p.End() != varve.Offset(7*(round+1)) {
					t.Errorf("%s: after a kill the end is %d, durable %d", level, p.End(), p.DurableEnd())
				}
				r.cut(vfs.CrashOptions{Seed: uint64(round)})
				p = r.part("t", 0)
				if p.End() != varve.Offset(7*(round+1)) {
					t.Fatalf("%s, segments of %s, round %d: a power cut after the start took it back to %d", level, size, round, p.End())
				}
			}
		}
	}
}

// A rolled segment that is finished before its bytes were published is as
// visible as any: nothing is passed over when the end moves past it.
func TestFinishedSegmentIsVisible(t *testing.T) {
	v := newValve(func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir && op.Name == "topics/t/0" })
	r := newRig(t, background, func(r *rig) { r.rule = v.rule })
	p := r.one("segment.bytes=300", "retention.ms=-1")
	v.shut.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() { r.publish(p, text("held")) })
	<-v.reached // a round of syncs is under way; what comes now is the next one's
	for i := range 12 {
		wg.Go(func() { r.publish(p, text("%d", i)) })
	}
	for i := 0; i < 200 && p.LogEnd() < 13; i++ { // how far they come is the log's business
		give()
	}
	give() // the first segments are finished now, while that round is still held
	close(v.gate)
	wg.Wait()
	if n := len(collect(t, p.Records(context.Background(), varve.Earliest()))); n != 13 {
		t.Errorf("%d of 13 records are readable", n)
	}
}
