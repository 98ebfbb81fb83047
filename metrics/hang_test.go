package metrics_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/metrics"
)

// stuckDisk is a disk on which writes, or syncs, do not come back for a while.
type stuckDisk struct {
	vfs.FS
	writes, syncs atomic.Bool
	stuck         chan struct{} // receives for each that does not
	free          chan struct{} // closed when they come back
}

type stuckFile struct {
	vfs.File
	disk *stuckDisk
}

func (d *stuckDisk) OpenFile(name string, flag int) (vfs.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &stuckFile{f, d}, nil
}

func (d *stuckDisk) wait(stuck *atomic.Bool) {
	if stuck.Load() {
		d.stuck <- struct{}{}
		<-d.free
	}
}

func (f *stuckFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.wait(&f.disk.writes)
	return f.File.WriteAt(b, at)
}

func (f *stuckFile) WriteVecAt(bufs [][]byte, at int64) (int, error) {
	f.disk.wait(&f.disk.writes)
	return f.File.WriteVecAt(bufs, at)
}

func (f *stuckFile) Sync() error {
	f.disk.wait(&f.disk.syncs)
	return f.File.Sync()
}

// While the disk does not answer, who appends, rolls, commits or syncs waits with locks
// held. A scrape needs none of them: it would wait here for ever.
func TestScrapeWhileTheDiskDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		stick func(*stuckDisk)
		calls int // that get stuck, at least
	}{
		{"writes", func(d *stuckDisk) { d.writes.Store(true) }, 2}, // to the segment of weak, to the journal
		{"syncs", func(d *stuckDisk) { d.syncs.Store(true) }, 1},   // of the journal
	} {
		t.Run(c.name, func(t *testing.T) {
			disk := &stuckDisk{FS: vfs.NewMem(), stuck: make(chan struct{}, 100), free: make(chan struct{})}
			r := newRig(t, disk, varve.Options{})
			weak := r.topic("weak", 1, map[string]string{"durability": "os"})
			r.publish(weak, 0, 1)
			strong := r.topic("strong", 1, nil)
			r.publish(strong, 0, 1)
			r.commit("billing", "strong", 0, 1)
			c.stick(disk)

			var busy sync.WaitGroup
			busy.Go(func() { r.publish(weak, 0, 5) })
			busy.Go(func() { r.publish(strong, 0, 5) })
			for range c.calls {
				<-disk.stuck
			}
			busy.Go(func() { r.commit("billing", "strong", 0, 0) })
			busy.Go(func() {
				if err := r.engine.RunRetention(); err != nil {
					t.Error(err)
				}
			})
			scraped := make(chan map[string]float64)
			go func() { scraped <- r.scrape(metrics.Options{}) }()
			var got map[string]float64
			select {
			case got = <-scraped:
			case <-time.After(time.Minute):
				t.Error("the scrape waits for the disk")
			}
			disk.writes.Store(false)
			disk.syncs.Store(false)
			close(disk.free)
			busy.Wait()
			if got == nil {
				got = <-scraped
			}
			if c.name == "syncs" && got["varve_disk_sync_wait_seconds"] <= 0 {
				t.Error("no sync seems to wait")
			}
			expect(t, got, map[string]float64{"varve_up": 1, `varve_group_lag_records{group="billing"}`: 0})
			expect(t, r.scrape(metrics.Options{}), map[string]float64{
				`varve_topic_appended_records_total{topic="strong"}`: 6,
				`varve_group_lag_records{group="billing"}`:           6,
			})
		})
	}
}

// slowAssignor takes its time, with the lock of its group held.
type slowAssignor struct {
	group.Uniform
	begun, free chan struct{}
}

func (a *slowAssignor) Assign(s group.Spec) (group.Target, bool) {
	a.begun <- struct{}{}
	<-a.free
	return a.Uniform.Assign(s)
}

// Commits wait for the lock of their group, and so do appends of theirs: a scrape does not
// take it.
func TestScrapeWhileAGroupIsBusy(t *testing.T) {
	slow := &slowAssignor{begun: make(chan struct{}, 1), free: make(chan struct{})}
	r := newRig(t, vfs.NewMem(), varve.Options{Groups: varve.GroupOptions{Assignor: slow}})
	r.publish(r.topic("orders", 1, nil), 0, 2)
	r.commit("billing", "orders", 0, 1)
	joined := make(chan error)
	go func() {
		_, err := r.engine.Join(context.Background(), "billing", []string{"orders"}, varve.JoinOptions{})
		joined <- err
	}()
	<-slow.begun
	scraped := make(chan map[string]float64, 1)
	go func() { scraped <- r.scrape(metrics.Options{}) }()
	select {
	case got := <-scraped:
		expect(t, got, map[string]float64{`varve_group_lag_records{group="billing"}`: 1})
	case <-time.After(time.Minute):
		t.Error("the scrape waits for the group")
	}
	close(slow.free)
	if err := <-joined; err != nil {
		t.Error(err)
	}
}
