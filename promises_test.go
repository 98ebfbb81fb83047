package varve_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// gatedSyncs lets the syncs of log files through one by one.
type gatedSyncs struct {
	begun chan struct{}
	pass  chan struct{}
	on    atomic.Bool
}

func (g *gatedSyncs) rule(op vfs.Op) vfs.Fault {
	if !g.on.Load() || !syncsRecords(op) {
		return vfs.Fault{}
	}
	g.begun <- struct{}{}
	return vfs.Fault{Block: g.pass}
}

func openOnePartition(t *testing.T, disk vfs.FS, config map[string]string) *varve.Partition {
	t.Helper()
	e, err := varve.OpenFS(disk, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	p, err := topic.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A sync covers what was written before it began, and nothing else is acknowledged
// or shown by it: a record that is appended while a sync is under way waits for the
// next one.
func TestNothingIsAcknowledgedBeforeItsOwnSync(t *testing.T) {
	g := &gatedSyncs{begun: make(chan struct{}), pass: make(chan struct{})}
	p := openOnePartition(t, vfs.NewFaulty(vfs.NewMem(), g.rule), nil)
	g.on.Store(true)
	publish := func(value string) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := p.Publish(context.Background(), varve.Record{Value: []byte(value)})
			done <- err
		}()
		return done
	}
	first := publish("first")
	<-g.begun // its sync is under way
	second := publish("second")
	for p.LogEnd() < 2 {
		time.Sleep(time.Millisecond)
	}
	g.pass <- struct{}{}
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	<-g.begun // the sync of the second
	if end, durable := p.End(), p.DurableEnd(); end != 1 || durable != 1 {
		t.Errorf("before the second sync the published end is %d, the durable end %d", end, durable)
	}
	select {
	case err := <-second:
		t.Errorf("acknowledged before its sync: %v", err)
	default:
	}
	g.on.Store(false)
	g.pass <- struct{}{}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if p.End() != 2 {
		t.Errorf("the published end is %d", p.End())
	}
}

// A publish whose context ends says what is known: not stored, where the appender
// had not begun with it; maybe, where it had.
func TestCancelledPublishSaysWhatIsKnown(t *testing.T) {
	g := &gatedSyncs{begun: make(chan struct{}), pass: make(chan struct{})}
	p := openOnePartition(t, vfs.NewFaulty(vfs.NewMem(), g.rule), nil)
	g.on.Store(true)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := p.Publish(ctx, varve.Record{Value: []byte("x")})
		done <- err
	}()
	<-g.begun // written, and waiting for its sync
	cancel()
	err := <-done
	var maybe *varve.MaybeStoredError
	if !errors.As(err, &maybe) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while its sync was under way: %v", err)
	}
	g.on.Store(false)
	g.pass <- struct{}{}
	if _, err := p.Publish(ctx, varve.Record{Value: []byte("y")}); !errors.Is(err, context.Canceled) || errors.As(err, &maybe) {
		t.Errorf("cancelled before: %v", err)
	}
	if _, err := p.Publish(context.Background(), varve.Record{Value: []byte("z")}); err != nil || p.End() != 2 {
		t.Errorf("the end is %d, %v: only the first and the last were to be stored", p.End(), err)
	}
}

// One that waits in the queue behind a write that does not end can be taken back.
func TestQueuedPublishCanBeTakenBack(t *testing.T) {
	var on atomic.Bool
	begun, pass := make(chan struct{}), make(chan struct{})
	p := openOnePartition(t, vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") && on.CompareAndSwap(true, false) {
			close(begun)
			return vfs.Fault{Block: pass}
		}
		return vfs.Fault{}
	}), nil)
	on.Store(true)
	held := make(chan error, 1)
	go func() {
		_, err := p.Publish(context.Background(), varve.Record{Value: []byte("held")})
		held <- err
	}()
	<-begun
	ctx, cancel := context.WithCancel(context.Background())
	queued := make(chan error, 1)
	go func() {
		_, err := p.Publish(ctx, varve.Record{Value: []byte("queued")})
		queued <- err
	}()
	cancel()
	err := <-queued
	var maybe *varve.MaybeStoredError
	if !errors.Is(err, context.Canceled) || errors.As(err, &maybe) {
		t.Errorf("cancelled in the queue: %v", err)
	}
	close(pass)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	if _, err := p.Publish(context.Background(), varve.Record{Value: []byte("last")}); err != nil || p.End() != 2 {
		t.Errorf("the end is %d, %v", p.End(), err)
	}
}

// Times that no timestamp can say are before or after everything.
func TestTimesBeyondTimestamps(t *testing.T) {
	p := openOnePartition(t, vfs.NewMem(), map[string]string{"retention.ms": "-1"})
	for _, ts := range []int64{5, math.MaxInt64, -7, math.MinInt64} {
		if _, err := p.Publish(context.Background(), varve.Record{Timestamp: ts}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		at   time.Time
		want varve.Offset
	}{
		{time.Unix(1<<62, 0), 4},
		{time.UnixMilli(math.MaxInt64).Add(1), 4},
		{time.UnixMilli(math.MaxInt64), 1},
		{time.UnixMilli(math.MaxInt64).Add(-1), 1},
		{time.UnixMilli(math.MinInt64), 0},
		{time.UnixMilli(math.MinInt64).Add(-1), 0},
		{time.Unix(-1<<62, 0), 0},
		{time.Unix(0, 5_000_001), 1},
		{time.UnixMilli(-8), 0},
	} {
		if off, err := p.OffsetFor(context.Background(), c.at); err != nil || off != c.want {
			t.Errorf("%v is found at %d, %v; expected %d", c.at, off, err, c.want)
		}
	}
}

// Records without content are spread over the partitions like others.
func TestEmptyRecordsAreSpread(t *testing.T) {
	e, err := varve.OpenFS(vfs.NewMem(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	topic, err := e.CreateTopic("t", varve.TopicConfig{Partitions: 4, Config: map[string]string{"durability": "os"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if _, err := topic.Publish(context.Background(), varve.Record{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, st := range topic.Stats().Partitions {
		if st.End == 0 {
			t.Errorf("partition %d got nothing of 5000 records", st.Index)
		}
	}
}

// Metadata of a partition that is lost after a clean stop is noticed at the next
// start and made anew from the checkpoint: a crash later finds it.
func TestPartitionMetadataIsMadeAnewAfterACleanStop(t *testing.T) {
	for name, spoil := range map[string]func(m *vfs.Mem, file string){
		"garbled": func(m *vfs.Mem, file string) { m.WriteFile(file, []byte("garbage")) },
		"missing": func(m *vfs.Mem, file string) { m.Remove(file) },
	} {
		t.Run(name, func(t *testing.T) {
			m := vfs.NewMem()
			e, err := varve.OpenFS(m, quiet)
			if err != nil {
				t.Fatal(err)
			}
			topic, err := e.CreateTopic("t", varve.TopicConfig{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := topic.Partition(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Publish(context.Background(), make([]varve.Record, 9)...); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Trim(4); err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			spoil(m, "topics/t/0/partition.json")
			spoil(m, "topics/t/0/partition.json.copy")
			p = openOnePartition(t, m, nil)
			if p.Err() != nil || p.Start() != 4 || p.End() != 9 {
				t.Fatalf("after the damage: [%d, %d), %v", p.Start(), p.End(), p.Err())
			}
			p = openOnePartition(t, m.Clone(), nil) // as after a kill
			if p.Err() != nil || p.Start() != 4 || p.End() != 9 {
				t.Errorf("after a kill: [%d, %d), %v", p.Start(), p.End(), p.Err())
			}
		})
	}
}

// A directory that may not be read is not called damaged.
func TestUnreadableIsNotDamaged(t *testing.T) {
	m := vfs.NewMem()
	openOnePartition(t, m, nil).Topic()
	_, err := varve.OpenFS(vfs.NewFaulty(m.Clone(), func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpOpen && strings.HasPrefix(op.Name, "FORMAT") {
			return vfs.Fault{Err: syscall.EACCES}
		}
		return vfs.Fault{}
	}), quiet)
	if !errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("the error is %v", err)
	}
}
