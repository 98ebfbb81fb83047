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
		if at < 0 || !strings.Contains(string(data), "old 4") {
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

// lost is what a power cut leaves that takes everything that was not synced.
func lost(disk *vfs.Mem) *vfs.Mem { return disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept}) }

func mustTopic(t testing.TB, e *varve.Engine, name string) *varve.Topic {
	t.Helper()
	topic, err := e.EnsureTopic(name, varve.TopicConfig{Config: config("retention.ms=-1")})
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

// fill publishes n records one by one, each acknowledged, and returns their values.
func fill(t testing.TB, topic *varve.Topic, what string, n int) []string {
	t.Helper()
	var all []string
	for i := range n {
		value := fmt.Sprintf("%s %d %s", what, i, strings.Repeat("x", 100))
		if _, err := topic.Publish(context.Background(), text("%s", value)); err != nil {
			t.Fatal(err)
		}
		all = append(all, value)
	}
	return all
}

// checkValues opens an engine on a disk and holds topics against what they must hold.
func checkValues(t testing.TB, disk *vfs.Mem, want map[string][]string) *logLines {
	t.Helper()
	e, logged := openOn(t, disk)
	defer mustClose(t, e)
	for name, values := range want {
		topic, err := e.Topic(name)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := topic.Partition(0)
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		if got := valuesOf(t, p); !slices.Equal(got, values) {
			t.Errorf("topic %s has %d records, expected %d\n%s", name, len(got), len(values), logged.buf.String())
		}
	}
	return logged
}

// A journal that is full, because no checkpoint can be written, costs speed and
// nothing else: the files of the logs take over.
func TestFullJournalFallsBackToTheFiles(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, "checkpoint") {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}))
	topic := mustTopic(t, e, "t")
	want := fill(t, topic, "record", 200) // of a page in the journal each
	left := lost(disk)
	size := 0
	for _, name := range left.Files() {
		if strings.HasPrefix(name, "wal/") {
			data, err := left.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			size += len(data)
		}
	}
	if size > smallJournal || size < smallJournal/2 {
		t.Errorf("the journal has %d bytes", size)
	}
	mustClose(t, e)
	checkValues(t, left, map[string][]string{"t": want})
}

// A sync of the journal that failed is final for whatever is to be made durable by
// it, until the next start. What was acknowledged is there, then and before.
func TestFailedJournalIsFinal(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		disk := vfs.NewMem()
		var armed atomic.Bool
		e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".wal") && armed.CompareAndSwap(true, false) {
				return vfs.Fault{Err: syscall.EIO, DropOnSyncFail: dropped}
			}
			return vfs.Fault{}
		}))
		a, b := mustTopic(t, e, "a"), mustTopic(t, e, "b")
		weak, err := e.CreateTopic("weak", varve.TopicConfig{Config: config("durability=os", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		wantA, wantB := fill(t, a, "a", 3), fill(t, b, "b", 3)
		armed.Store(true)
		var maybe *varve.MaybeStoredError
		for i, topic := range []*varve.Topic{a, a, b, b} {
			_, err := topic.Publish(context.Background(), text("lost"))
			if !errors.Is(err, varve.ErrReadOnly) || !errors.Is(err, syscall.EIO) {
				t.Errorf("publish %d after the failure: %v", i, err)
			}
			if first := i%2 == 0; errors.As(err, &maybe) != first {
				t.Errorf("publish %d: may it be stored: %v", i, err)
			}
		}
		for _, topic := range []*varve.Topic{a, b} {
			p, _ := topic.Partition(0)
			if got := valuesOf(t, p); len(got) != 3 {
				t.Errorf("%s has %d records for readers", topic.Name(), len(got))
			}
		}
		fill(t, weak, "weak", 2)
		left := lost(disk)
		e.Close()
		e, logged := openOn(t, left)
		for name, want := range map[string][]string{"a": wantA, "b": wantB} {
			topic, err := e.Topic(name)
			if err != nil {
				t.Fatal(err)
			}
			p, _ := topic.Partition(0)
			if got := valuesOf(t, p); len(got) < 3 || !slices.Equal(got[:3], want) {
				t.Errorf("after a start %s has %q\n%s", name, got, logged.buf.String())
			}
			fill(t, topic, "goes on", 2)
		}
		mustClose(t, e)
	}
}

// A file of the journal that cannot be read at all is set aside and told of; what the
// logs have is served, and the next start says nothing.
func TestUnreadableJournalFileIsSetAside(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	want := fill(t, mustTopic(t, e, "t"), "record", 5)
	left := disk.Clone()
	mustClose(t, e)
	data, err := left.ReadFile("wal/0000000001.wal")
	if err != nil {
		t.Fatal(err)
	}
	copy(data, make([]byte, 4096))
	if err := left.WriteFile("wal/0000000001.wal", data); err != nil {
		t.Fatal(err)
	}
	logged := checkValues(t, left, map[string][]string{"t": want})
	if logged.first("a part of the journal is missing") == "" {
		t.Errorf("nothing was said:\n%s", logged.buf.String())
	}
	if kept, err := left.ReadFile("wal/0000000001.wal.damaged"); err != nil || len(kept) != len(data) {
		t.Errorf("%d bytes are kept, %v", len(kept), err)
	}
	logged = checkValues(t, left, map[string][]string{"t": want})
	if said := logged.first("a part of the journal is missing"); said != "" {
		t.Errorf("said again: %s", said)
	}
}

// What the journal has of a topic that cannot be opened is kept until it can,
// whatever happens to the others meanwhile.
func TestJournalOfABrokenTopicIsKept(t *testing.T) {
	synctest.Test(t, testJournalOfABrokenTopicIsKept)
}

func testJournalOfABrokenTopicIsKept(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	wantA := fill(t, mustTopic(t, e, "a"), "a", 5)
	wantB := fill(t, mustTopic(t, e, "b"), "b", 5)
	left := lost(disk)
	mustClose(t, e)
	good, err := left.ReadFile("topics/b/topic.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"topics/b/topic.json", "topics/b/topic.json.copy"} {
		if err := left.WriteFile(name, []byte("garbage")); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		e, _ := openOn(t, left)
		if _, err := e.Topic("b"); err == nil {
			t.Fatal("topic b can be opened")
		}
		a, err := e.Topic("a")
		if err != nil {
			t.Fatal(err)
		}
		for range 5 { // more than one file of the journal, and checkpoints
			wantA = append(wantA, fill(t, a, fmt.Sprint("more", round), 25)...)
			time.Sleep(10 * time.Second)
		}
		next := lost(left)
		if round == 1 {
			mustClose(t, e)
			next = lost(left)
		} else {
			mustClose(t, e)
		}
		left = next
	}
	for _, name := range []string{"topics/b/topic.json", "topics/b/topic.json.copy"} {
		if err := left.WriteFile(name, good); err != nil {
			t.Fatal(err)
		}
	}
	checkValues(t, left, map[string][]string{"a": wantA, "b": wantB})
}

// What was carried over was on stable storage, its last round too: a bit of it that flips
// is damage, which is told, and no torn end.
func TestCarriedRoundsAreNoTornEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		e, _ := openOn(t, disk)
		want := fill(t, mustTopic(t, e, "b"), "b", 5)
		left := lost(disk)
		mustClose(t, e)
		files := []string{"topics/b/topic.json", "topics/b/topic.json" + copySuffix}
		good, err := left.ReadFile(files[0])
		for _, name := range files {
			err = errors.Join(err, left.WriteFile(name, []byte("garbage")))
		}
		if err != nil {
			t.Fatal(err)
		}
		e, _ = openOn(t, left) // carries them over
		time.Sleep(time.Second)
		killed := lost(left)
		mustClose(t, e)
		flipped := 0
		for _, name := range killed.Files() {
			data, err := killed.ReadFile(name)
			if at := strings.Index(string(data), want[4]); strings.HasPrefix(name, "wal/") && at >= 0 {
				err = errors.Join(err, killed.FlipBit(name, int64(8*at)))
				flipped++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if flipped == 0 { // the file that was retired may have it as well
			t.Fatal("the last record is in no file of the journal")
		}
		for _, name := range files {
			if err := killed.WriteFile(name, good); err != nil {
				t.Fatal(err)
			}
		}
		e, logged := openOn(t, killed)
		p := partOf(t, mustTopic(t, e, "b"), 0)
		var got []string
		var gap *varve.CorruptError
		for rec, err := range p.Records(context.Background(), varve.Earliest()) {
			if err == nil {
				got = append(got, string(rec.Value))
			} else if !errors.As(err, &gap) {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want[:4]) || p.End() != 5 || gap == nil || logged.first("journal is damaged") == "" {
			t.Errorf("there are %d records up to %d, and %v\n%s", len(got), p.End(), gap, logged.buf.String())
		}
		mustClose(t, e)
	})
}

// A log that is left out of the checkpoints, because the disk failed it, keeps what
// the journal has of it: from its beginning, or from its last checkpoint on.
func TestJournalOfAFailedLogIsKept(t *testing.T) {
	for _, known := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			disk := vfs.NewMem()
			var armed atomic.Bool
			e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
				if armed.Load() && op.Kind == vfs.OpSync && strings.HasPrefix(op.Name, "topics/a/0/") && strings.HasSuffix(op.Name, ".log") {
					return vfs.Fault{Err: syscall.EIO, DropOnSyncFail: true}
				}
				return vfs.Fault{}
			}))
			a, b := mustTopic(t, e, "a"), mustTopic(t, e, "b")
			var wantA, wantB []string
			if known {
				wantA = fill(t, a, "first", 2)
				time.Sleep(10*time.Second + 50*time.Millisecond) // the janitor is idle then
			}
			armed.Store(true)
			wantA = append(wantA, fill(t, a, "a", 5)...)
			for range 8 {
				wantB = append(wantB, fill(t, b, "b", 20)...)
				time.Sleep(10 * time.Second) // a checkpoint, which fails log a
			}
			if _, err := a.Publish(context.Background(), text("x")); !errors.Is(err, varve.ErrReadOnly) {
				t.Errorf("publish to the failed log: %v", err)
			}
			left := lost(disk)
			e.Close()
			checkValues(t, left, map[string][]string{"a": wantA, "b": wantB})
		})
	}
}

// What was waited for survives a power cut, on each level; what is not there cannot
// be waited for, and a wait that is given up waits no more.
func TestWaitedForIsDurable(t *testing.T) {
	for _, level := range []string{"os", "interval", "fsync"} {
		disk := vfs.NewMem()
		gate := make(chan struct{})
		var hold atomic.Bool
		e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if hold.Load() && syncsRecords(op) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}))
		topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability="+level, "flush.ms=86400000", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := topic.Partition(0)
		want := fill(t, topic, level, 5)
		if err := p.WaitDurable(context.Background(), 5); err != nil || p.DurableEnd() != 5 {
			t.Errorf("%s: %v, durable up to %d", level, err, p.DurableEnd())
		}
		left := lost(disk)
		var out *varve.OutOfRangeError
		if err := p.WaitDurable(context.Background(), 6); !errors.As(err, &out) || out.End != 5 {
			t.Errorf("%s: waiting for what is not there: %v", level, err)
		}
		hold.Store(true)
		if _, err := topic.Publisher(varve.PublisherOptions{Ack: varve.OS}).Publish(context.Background(), text("more")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		given := make(chan error)
		go func() { given <- p.WaitDurable(ctx, 6) }()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: given up: %v", level, err)
		}
		hold.Store(false)
		close(gate)
		mustClose(t, e)
		checkValues(t, left, map[string][]string{"t": want})
	}
}
