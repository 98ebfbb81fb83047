package varve_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// valuesOf reads all of a partition.
func valuesOf(t testing.TB, p *varve.Partition) []string {
	t.Helper()
	var all []string
	for _, rec := range collect(t, p.Records(context.Background(), varve.Earliest())) {
		all = append(all, string(rec.Value))
	}
	return all
}

// What recovery has cut does not come back: a round that was not finished is not
// read again once records were published over it, also when there is no checkpoint
// that says so.
func TestUnfinishedRoundIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		var writes atomic.Int64
		var left *vfs.Mem
		gate := make(chan struct{}) // no file of the log reaches the disk
		faulty := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".wal") && writes.Add(1) == 2 { // the mark behind the round
				left = disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
			}
			if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		})
		e, err := varve.OpenFS(faulty, quiet)
		if err != nil {
			t.Fatal(err)
		}
		topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability=os", "segment.bytes=200", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if _, err := topic.Publish(context.Background(), text("old %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		strong := topic.Publisher(varve.PublisherOptions{Ack: varve.Fsync})
		if _, err := strong.Publish(context.Background(), text("old 4")); err != nil { // of all segments so far, in one round
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		close(gate)
		mustClose(t, e)
		if left == nil {
			t.Fatal("no mark was written")
		}
		// The first frame, of the first segment, did not reach the disk whole.
		data, err := left.ReadFile("wal/0000000001.wal")
		if err != nil {
			t.Fatal(err)
		}
		at := strings.Index(string(data), "old 0")
		if at < 0 || strings.Index(string(data), "old 4") < 0 {
			t.Fatal("the round does not hold the records")
		}
		if err := left.FlipBit("wal/0000000001.wal", int64(8*at)); err != nil {
			t.Fatal(err)
		}
		e, _ = openOn(t, vfs.NewFaulty(left, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, "checkpoint") {
				return vfs.Fault{Err: syscall.EIO}
			}
			return vfs.Fault{}
		}))
		topic, err = e.Topic("t")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := topic.Partition(0)
		want := valuesOf(t, p)
		if len(want) >= 5 {
			t.Fatalf("after the crash there are %q", want)
		}
		strong = topic.Publisher(varve.PublisherOptions{Ack: varve.Fsync})
		for i := range 3 {
			if _, err := strong.Publish(context.Background(), text("new %d", i)); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("new %d", i))
		}
		again := left.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
		mustClose(t, e)
		e, logged := openOn(t, again)
		if topic, err = e.Topic("t"); err != nil {
			t.Fatal(err)
		}
		p, _ = topic.Partition(0)
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		if got := valuesOf(t, p); !slices.Equal(got, want) {
			t.Errorf("there are %q, expected %q\n%s", got, want, logged.buf.String())
		}
		mustClose(t, e)
	})
}

// A flip in the journal, or in a log, of what was durable is damage and no torn end,
// from the mark on that an idle engine writes: nothing is cut, and what the other of
// the two has is served.
func TestFlipsBehindTheMarkAreNoTornEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		e, _ := openOn(t, disk)
		topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 6 {
			if _, err := topic.Publish(context.Background(), text("record %d", i)); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("record %d", i))
		}
		time.Sleep(20 * time.Millisecond)
		left := disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept})
		mustClose(t, e)
		const log, journal = "topics/t/0/00000000000000000000.log", "wal/0000000001.wal"
		for i, value := range want {
			for _, where := range [][]string{{log}, {journal}, {log, journal}} {
				m := left.Clone()
				for _, name := range where {
					data, err := m.ReadFile(name)
					if err == nil {
						err = m.FlipBit(name, int64(8*strings.Index(string(data), value)))
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				e, logged := openOn(t, m)
				topic, err := e.Topic("t")
				if err != nil {
					t.Fatal(err)
				}
				p, _ := topic.Partition(0)
				var got []string
				var damage *varve.CorruptError
				for rec, err := range p.Records(context.Background(), varve.Earliest()) {
					if err != nil && !errors.As(err, &damage) {
						t.Fatal(err)
					}
					if err == nil {
						got = append(got, string(rec.Value))
					}
				}
				expect := slices.Clone(want)
				if len(where) == 2 {
					expect = slices.Delete(expect, i, i+1)
				}
				if !slices.Equal(got, expect) || p.End() != 6 || (damage != nil) != (len(where) == 2) {
					t.Errorf("%q flipped in %v: %q up to %d, %v\n%s", value, where, got, p.End(), damage, logged.buf.String())
				}
				mustClose(t, e)
			}
		}
	})
}
