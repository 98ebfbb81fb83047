package varve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

var allLevels = []string{"fsync", "interval", "os"}

// levelTopics makes a topic of each level, with ten records, and returns their
// partitions.
func levelTopics(r *rig, settings ...string) (parts []*varve.Partition) {
	for _, level := range allLevels {
		r.topic(level, 1, append(settings, "durability="+level)...)
		parts = append(parts, r.part(level, 0))
		for i := range 10 {
			r.publish(parts[len(parts)-1], text("%s %d", level, i))
		}
	}
	return parts
}

// whole reads a partition and holds it against the book.
func (r *rig) whole(when string, p *varve.Partition) {
	r.t.Helper()
	if got, want := len(collect(r.t, p.Records(context.Background(), varve.Earliest()))), int(p.End()-p.Start()); got != want {
		r.t.Errorf("%s: %d records of %s are read, there are %d", when, got, bookName(p), want)
	}
	r.verifyPartition(p)
}

// A disk with any amount of space left, under a whole engine: publishes of each level
// fail with the reason until there is space again, no topic is half made, everything
// is readable, a trim and retention make room, a stop and a start need none, and then
// publishes work again without a restart.
func TestFullDiskOfAnEngine(t *testing.T) {
	for free := int64(0); free < 3000; free += 211 * int64(stride(4)) {
		for _, stop := range []string{"none", "clean", "kill", "cut"} {
			r := newRig(t, background, func(r *rig) { r.loud, r.opt.ReserveBytes = true, -1 })
			parts := levelTopics(r, "segment.bytes=400", "index.interval.bytes=1", "retention.ms=-1")
			r.disk.Limit(r.disk.Used() + free)
			for _, p := range parts {
				fillUp(r, p)
				r.whole("full", p)
			}
			if _, err := r.engine.CreateTopic("new", varve.TopicConfig{Partitions: 3}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%d free: making a topic on a full disk: %v", free, err)
			}
			switch stop {
			case "clean":
				r.reopen()
			case "kill", "cut":
				left := r.disk.Clone()
				if stop == "cut" {
					left = r.disk.Crash(vfs.CrashOptions{Names: vfs.NamesKept})
				}
				left.Limit(r.disk.Used())
				r.close()
				r.disk = left
				r.open()
				if stop == "cut" {
					r.losesWeak()
				}
			}
			if len(r.engine.Topics()) != 3 {
				t.Errorf("%d free, %s: there are %d topics", free, stop, len(r.engine.Topics()))
			}
			for i, level := range allLevels {
				p := r.part(level, 0)
				r.whole("full, "+stop, p)
				if i == 0 {
					if _, err := p.Trim(p.End()); err != nil {
						t.Errorf("%d free, %s: trim: %v", free, stop, err)
					}
					continue
				}
				if err := p.Topic().Alter(config("retention.bytes=0")); err != nil {
					t.Errorf("%d free, %s: alter: %v", free, stop, err)
				}
			}
			r.retain()
			for _, level := range allLevels {
				r.publish(r.part(level, 0), text("made"))
			}
			r.disk.Limit(-1)
			for _, level := range allLevels {
				r.publish(r.part(level, 0), text("with space again"))
			}
			r.topic("new", 3)
			r.reopen()
			r.close()
			r.acked = nil
			if t.Failed() {
				t.Fatalf("%d bytes were free, stop %s\n%s", free, stop, r.logged.buf.String())
			}
			r.disk = vfs.NewMem()
		}
	}
}

// fillUp publishes until that fails for lack of space.
func fillUp(r *rig, p *varve.Partition) {
	r.t.Helper()
	for n := 0; ; n++ {
		off, err := p.Publish(context.Background(), text("fill %d", n))
		switch {
		case err == nil && n < 10_000:
			r.note(p, off, text("fill %d", n))
			continue
		case !errors.Is(err, syscall.ENOSPC) || errors.Is(err, varve.ErrReadOnly):
			r.t.Fatalf("a publish to %s on a full disk: %v", bookName(p), err)
		}
		return
	}
}

// losesWeak takes out of the book what a power cut has taken of the weak levels.
func (r *rig) losesWeak() {
	for _, level := range allLevels[1:] {
		end := r.part(level, 0).End()
		maps.DeleteFunc(r.acked[level+"/0"], func(off varve.Offset, _ varve.Record) bool { return off >= end })
	}
}

// A disk that refuses a write for whatever reason, or the making of a file, costs that
// publish and no other: nothing of it is stored, and the next one works.
func TestRefusedWritesPass(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EPERM} {
		for _, kind := range []vfs.OpKind{vfs.OpWrite, vfs.OpCreate} {
			for _, short := range []int{0, 1, 40, 1 << 20} {
				var armed atomic.Bool
				r := newRig(t, background, func(r *rig) {
					r.rule = func(op vfs.Op) vfs.Fault {
						if armed.Load() && op.Kind == kind && strings.HasSuffix(op.Name, ".log") {
							return vfs.Fault{Err: cause, Short: short}
						}
						return vfs.Fault{}
					}
				})
				for _, p := range levelTopics(r, "segment.bytes=200", "retention.ms=-1") {
					armed.Store(true)
					end, stored := p.LogEnd(), logBytes(r, p)
					for range 3 {
						off, err := p.Publish(context.Background(), text("refused"))
						if err == nil && kind == vfs.OpCreate { // it may grow the old file
							r.note(p, off, text("refused"))
							end++
							continue
						}
						if !errors.Is(err, cause) || errors.Is(err, varve.ErrReadOnly) || p.LogEnd() != end || logBytes(r, p) != stored {
							t.Errorf("%v of a %v: %v, the log ends at %d, its files have %d bytes, had %d", cause, kind, err, p.LogEnd(), logBytes(r, p), stored)
						}
					}
					armed.Store(false)
					if off := r.publish(p, text("taken")); off != end {
						t.Errorf("%v of a %v: the next record is at %d, want %d", cause, kind, off, end)
					}
				}
			}
		}
	}
}

// logBytes is the length of all log files of a partition.
func logBytes(r *rig, p *varve.Partition) (n int) {
	for _, name := range segmentFiles(r.disk, "topics/"+bookName(p)) {
		data, err := r.disk.ReadFile(name)
		if err != nil {
			r.t.Fatal(err)
		}
		n += len(data)
	}
	return n
}

// A file system that the kernel has made read-only under the engine: everything that
// was published is read on, publishes fail with the reason, nothing hangs, and the next
// start on a disk that can be written has all that was acknowledged.
func TestReadOnlyDisk(t *testing.T) {
	var armed atomic.Bool
	r := newRig(t, background, func(r *rig) {
		r.loud = true
		r.rule = func(op vfs.Op) vfs.Fault {
			if armed.Load() && (changesDisk(op.Kind) || op.Kind == vfs.OpLock) {
				return vfs.Fault{Err: syscall.EROFS}
			}
			return vfs.Fault{}
		}
	})
	parts := levelTopics(r, "segment.bytes=400", "retention.ms=-1")
	armed.Store(true)
	for _, p := range parts {
		for range 3 {
			if _, err := p.Publish(context.Background(), text("refused")); !errors.Is(err, syscall.EROFS) {
				t.Errorf("a publish to %s: %v", bookName(p), err)
			}
		}
		if _, err := p.Trim(1); !errors.Is(err, syscall.EROFS) || p.Start() != 0 {
			t.Errorf("a trim of %s: %v, the start is %d", bookName(p), err, p.Start())
		}
		r.whole("read-only", p)
	}
	if _, err := r.engine.CreateTopic("new", varve.TopicConfig{}); !errors.Is(err, syscall.EROFS) {
		t.Errorf("making a topic: %v", err)
	}
	if err := r.engine.DeleteTopic("os"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("deleting a topic: %v", err)
	}
	within(t, "close", func() { r.engine.Close() })
	r.engine = nil
	if _, err := varve.OpenFS(vfs.NewFaulty(r.disk, r.rule), r.opt); !errors.Is(err, syscall.EROFS) {
		t.Errorf("a start: %v", err)
	}
	armed.Store(false)
	r.open()
	for _, level := range allLevels {
		r.publish(r.part(level, 0), text("on a disk that can be written"))
	}
}

// roomFS is a file system on which so many more files can be opened.
type roomFS struct {
	vfs.FS
	room, refused *atomic.Int64
	cause         error
}

type roomFile struct {
	vfs.File
	room *atomic.Int64
}

func (f roomFS) OpenFile(name string, flag int) (vfs.File, error) {
	if f.room.Add(-1) < 0 {
		f.room.Add(1)
		f.refused.Add(1)
		return nil, &os.PathError{Op: "open", Path: f.Path(name), Err: f.cause}
	}
	file, err := f.FS.OpenFile(name, flag)
	if err != nil {
		f.room.Add(1)
		return nil, err
	}
	return roomFile{file, f.room}, nil
}

func (f roomFile) Close() error {
	f.room.Add(1)
	return f.File.Close()
}

// The process has as many files open as it may, but for a few: publishes, rolls, reads
// of any segment and checkpoints go on, with files that the engine closes for them.
func TestNoDescriptorsToSpare(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.ENFILE} {
		var room, refused atomic.Int64
		room.Store(1 << 30)
		disk := vfs.NewMem()
		e, _ := openOn(t, roomFS{disk, &room, &refused, cause})
		want := map[string][]string{}
		var parts []*varve.Partition
		for _, level := range allLevels {
			topic, err := e.CreateTopic(level, varve.TopicConfig{Config: config("durability="+level, "segment.bytes=500", "retention.ms=-1")})
			if err != nil {
				t.Fatal(err)
			}
			want[level] = fill(t, topic, level, 10)
			parts = append(parts, partOf(t, topic, 0))
		}
		room.Store(3)
		for range 20 {
			for _, p := range parts {
				level := p.Topic().Name()
				want[level] = append(want[level], fill(t, p.Topic(), level, 3)...)
				if got := valuesOf(t, p); !slices.Equal(got, want[level]) {
					t.Fatalf("%v: %s: %d records are read, there are %d", cause, level, len(got), len(want[level]))
				}
			}
		}
		if refused.Load() == 0 {
			t.Error("nothing was refused")
		}
		if n := len(parts[0].Stats().Segments); n < 10 {
			t.Errorf("%v: %d segments: nothing was rolled", cause, n)
		}
		left := disk.Clone()
		mustClose(t, e)
		checkValues(t, left, want)
	}
}

// Closing a file may fail, of whatever kind it is: what was in it is on stable storage by
// then, or its sync says that it is not. Nothing hangs on it, no change of a topic, no
// checkpoint, no stop and no start, and it is not tried again. Derived files are not synced
// in front of their close: there it may be the late error of a write, and counts as one.
func TestFailedCloseIsOfNoConsequence(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EINTR} {
		synctest.Test(t, func(t *testing.T) { failCloses(t, cause) })
	}
}

// closedUnsynced says that nothing has synced what is written to a file when it is closed.
func closedUnsynced(name string) bool {
	for _, suffix := range []string{".index", ".timeindex", "leader-epoch-checkpoint.tmp", "seals.tmp"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

func failCloses(t *testing.T, cause error) {
	var armed atomic.Bool
	kinds := make(map[string]int)
	var mu sync.Mutex
	r := newRig(t, background, func(r *rig) {
		armed.Store(true)
		r.opt.OpenFiles = 4
		r.rule = func(op vfs.Op) vfs.Fault {
			if !armed.Load() || op.Kind != vfs.OpClose || closedUnsynced(op.Name) {
				return vfs.Fault{}
			}
			mu.Lock()
			defer mu.Unlock()
			kinds[strings.TrimLeft(path.Base(op.Name), "0123456789")]++
			return vfs.Fault{Err: cause}
		}
	})
	for _, p := range levelTopics(r, "segment.bytes=250", "retention.ms=-1") {
		for i := range 40 {
			r.publish(p, text("%d", i))
		}
		r.whole("closes fail", p)
	}
	p := r.part("fsync", 0)
	topic := p.Topic()
	if err := topic.Alter(config("segment.bytes=300")); err != nil {
		t.Errorf("alter: %v", err)
	}
	if err := topic.AddPartitions(2); err != nil {
		t.Errorf("add partitions: %v", err)
	}
	if _, err := p.Trim(5); err != nil {
		t.Errorf("trim: %v", err)
	}
	for i := range 20 {
		r.publish(p, text("after the trim %d", i))
	}
	r.topic("gone", 1)
	if err := r.engine.DeleteTopic("gone"); err != nil {
		t.Errorf("delete: %v", err)
	}
	time.Sleep(time.Minute) // checkpoints
	r.reopen()
	p = r.part("fsync", 0)
	r.whole("after a stop", p)
	r.publish(p, text("after a stop"))
	armed.Store(false)
	r.cut(vfs.CrashOptions{Names: vfs.NamesKept})
	r.whole("after a power cut", r.part("fsync", 0))
	for _, level := range allLevels[1:] {
		if err := r.engine.DeleteTopic(level); err != nil {
			t.Error(err)
		}
		r.forget(level)
	}
	r.close()
	for _, kind := range []string{".log", ".wal.tmp", "topic.json", "topic.json.copy", "partition.json", "partition.json.copy", "partition.json.tmp", "FORMAT.tmp", "checkpoint.tmp", "clean", "seals"} {
		if kinds[kind] == 0 {
			t.Errorf("no close of a file %s failed, but of %v", kind, kinds)
		}
	}
}

// A sync of the journal failed, the process started again on the same machine, where
// the page cache shows what never reached the disk, went on, and the power went later:
// what was acknowledged before and after is there.
func TestFailedJournalThenAStartThenACut(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		for _, clean := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { failedJournalThenACut(t, dropped, clean) })
		}
	}
}

func failedJournalThenACut(t *testing.T, dropped, clean bool) {
	disk := vfs.NewMem()
	var armed atomic.Bool
	e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		switch {
		case op.Kind != vfs.OpSync:
		case strings.HasSuffix(op.Name, ".wal") && armed.CompareAndSwap(true, false):
			return vfs.Fault{Err: syscall.EIO, DropOnSyncFail: dropped}
		case strings.HasSuffix(op.Name, ".log"): // the journal alone has them
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}))
	want := fill(t, mustTopic(t, e, "t"), "before", 5)
	armed.Store(true)
	topic, _ := e.Topic("t")
	if _, err := topic.Publish(context.Background(), text("lost or not")); !errors.Is(err, varve.ErrReadOnly) {
		t.Fatalf("publish: %v", err)
	}
	same := disk.Clone() // the page cache is that of the same machine
	e.Close()
	e, _ = openOn(t, same)
	p := partOf(t, mustTopic(t, e, "t"), 0)
	shown := valuesOf(t, p)
	if len(shown) < 5 || len(shown) > 6 || !slices.Equal(shown[:5], want) {
		t.Fatalf("after the start there is %q", shown)
	}
	shown = append(shown, fill(t, p.Topic(), "after", 3)...)
	left := lost(same)
	if clean {
		mustClose(t, e)
		left = lost(same)
	} else {
		mustClose(t, e)
	}
	checkValues(t, left, map[string][]string{"t": shown})
}

// A read that fails while an engine starts after a crash, each of them in turn: what
// cannot be read refuses, the start or the partition, nothing is cut or made anew, and
// the next start has everything. So it is where the journal alone has the records.
func TestReadErrorAtAStartLosesNothing(t *testing.T) {
	_, kept, _ := filled(t)
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	for _, name := range []string{"a", "b"} {
		fill(t, mustTopic(t, e, name), name, 5)
	}
	journaled := lost(disk)
	mustClose(t, e)
	for name, left := range map[string]*vfs.Mem{"kept": kept, "in the journal": journaled} {
		t.Run(name, func(t *testing.T) {
			e, _ := openOn(t, left.Clone())
			want := ask(t, e)
			mustClose(t, e)
			for _, kind := range []vfs.OpKind{vfs.OpRead, vfs.OpOpen, vfs.OpReadDir, vfs.OpStat, vfs.OpMap} {
				for n := int64(1); failOneRead(t, left, want, kind, n) && !t.Failed(); n++ {
				}
			}
		})
	}
}

// failOneRead fails the nth call of a kind at a start, false when there are fewer.
func failOneRead(t *testing.T, left *vfs.Mem, want answers, kind vfs.OpKind, n int64) bool {
	disk := left.Clone()
	var name atomic.Pointer[string]
	var seen atomic.Int64
	var opened atomic.Bool
	e, _, err := tryOpenOn(vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		if op.Kind == kind && !opened.Load() && seen.Add(1) == n {
			name.Store(&op.Name)
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}))
	opened.Store(true)
	if name.Load() == nil {
		e.Close()
		return false
	}
	what := fmt.Sprintf("%v %d, of %s", kind, n, *name.Load())
	if err == nil {
		for part, a := range ask0(t, e) {
			if w := want[part]; fmt.Sprint(a) != fmt.Sprint(w) {
				t.Errorf("%s: %s", what, difference(answers{part: a}, answers{part: w}))
			}
		}
		e.Close()
	}
	e, logged := openOn(t, disk)
	defer mustClose(t, e)
	if got := ask(t, e); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s, then another start: %s\n%s", what, difference(got, want), logged.buf.String())
	}
	return true
}

// A disk that answers after a minute: publishes wait for it and no longer than their
// contexts, readers and other levels do not wait, what waits in memory is bounded, and
// nobody is told that something is stored before it is.
func TestStalledDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		var stalled atomic.Bool
		gate := make(chan struct{})
		e, _ := openOn(t, vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
			if stalled.Load() && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) {
				return vfs.Fault{Block: gate}
			}
			return vfs.Fault{}
		}))
		strong := mustTopic(t, e, "strong")
		weak, err := e.CreateTopic("weak", varve.TopicConfig{Config: config("durability=os", "retention.ms=-1")})
		if err != nil {
			t.Fatal(err)
		}
		want := fill(t, strong, "before", 3)
		stalled.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var maybe *varve.MaybeStoredError
		if _, err := strong.Publish(ctx, text("late")); !errors.As(err, &maybe) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a publish with a deadline: %v", err)
		}
		told := make(chan error, 1)
		go func() {
			_, err := strong.Publish(context.Background(), text("patient"))
			told <- err
		}()
		pub := strong.Publisher(varve.PublisherOptions{MaxInFlight: 10_000})
		taken := 0
		for ctx, cancel := context.WithTimeout(context.Background(), time.Second); ; taken++ {
			if err := pub.PublishAsync(ctx, text("async"), nil); err != nil {
				cancel()
				break
			}
		}
		if taken == 0 || taken > 10_000/500 {
			t.Errorf("%d records were taken", taken)
		}
		fill(t, weak, "weak", 3)
		time.Sleep(time.Minute)
		if got := valuesOf(t, partOf(t, strong, 0)); !slices.Equal(got, want) {
			t.Errorf("readers see %q", got)
		}
		select {
		case err := <-told:
			t.Errorf("told before the disk had answered: %v", err)
		default:
		}
		close(gate)
		if err := <-told; err != nil {
			t.Error(err)
		}
		if err := pub.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		if end := partOf(t, strong, 0).End(); end != varve.Offset(3+2+taken) {
			t.Errorf("the end is %d", end)
		}
		mustClose(t, e)
	})
}
