package varve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
)

var quiet = varve.Options{Logger: silent(), JournalBytes: smallJournal}

// listTree lists everything below a directory of this machine.
func listTree(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A data directory that is none: one clear error, and nothing is made, changed or
// left behind.
func TestOpenOfWhatIsNoDataDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(dir string) error // makes what is in the way
		open    string                 // below the directory
		says    string
	}{
		"a file": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "data"), []byte("text"), 0o600) }, "data", "not a directory"},
		"below a file": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "data"), []byte("text"), 0o600) },
			"data/below", "not a directory"},
		"somebody's directory": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "thesis.odt"), nil, 0o600) },
			".", "thesis.odt"},
		"a link to nowhere": {func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "data")) }, "data", "data"},
		"a directory called FORMAT": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "FORMAT"), 0o700) },
			".", "FORMAT"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.prepare(dir); err != nil {
				t.Fatal(err)
			}
			before := listTree(t, dir)
			e, err := varve.Open(filepath.Join(dir, c.open), quiet)
			if err == nil {
				e.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is %q, want one line with %q", err, c.says)
			}
			if after := listTree(t, dir); !slices.Equal(before, after) {
				t.Errorf("there was %q, there is %q", before, after)
			}
		})
	}
	if _, err := varve.Open("", quiet); err == nil {
		t.Error("opened a directory without a name")
	}
}

// What a file system brings along, or a half-made start leaves, is no obstacle.
func TestOpenOfAnEmptyDirectory(t *testing.T) {
	deep := filepath.Join(t.TempDir(), "not", "there", "yet")
	e, err := varve.Open(deep, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, there := range [][]string{nil, {"lost+found/"}, {".DS_Store"}, {"LOCK"}, {"lost+found/", ".hidden", "LOCK"}, {"topics/"}} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range there {
			var err error
			if path := filepath.Join(dir, name); strings.HasSuffix(name, "/") {
				err = os.Mkdir(path, 0o700)
			} else {
				err = os.WriteFile(path, nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			e, err := varve.Open(dir, quiet)
			if err != nil {
				t.Fatalf("with %q: %v", there, err)
			}
			if err := e.Close(); err != nil {
				t.Fatalf("with %q: %v", there, err)
			}
		}
	}
}

// snapshotOf is the content of all files of a disk.
func snapshotOf(t testing.TB, disk *vfs.Mem) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range disk.Files() {
		data, err := disk.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}

// A directory of a newer varve is refused by a typed error, untouched to the
// last byte, the lock file included.
func TestOpenOfANewerDirectoryTouchesNothing(t *testing.T) {
	r := newRig(t)
	r.publish(r.one(), text("x"))
	r.close()
	disk := r.disk.Clone()
	if err := twin.Save(disk, "FORMAT", 7, fmt.Appendf(nil, `{"version":%d,"shiny":true}`, varve.FormatVersion+1)); err != nil {
		t.Fatal(err)
	}
	before := snapshotOf(t, disk)
	var writes atomic.Int64
	faulty := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
		switch op.Kind {
		case vfs.OpOpen, vfs.OpRead, vfs.OpReadDir, vfs.OpStat, vfs.OpClose:
		default:
			writes.Add(1)
			t.Logf("%v of %s", op.Kind, op.Name)
		}
		return vfs.Fault{}
	})
	for range 2 {
		_, err := varve.OpenFS(faulty, quiet)
		var newer *varve.VersionError
		if !errors.As(err, &newer) || newer.Found != varve.FormatVersion+1 || newer.Supported != varve.FormatVersion {
			t.Errorf("the error is %v", err)
		}
	}
	if writes.Load() > 0 {
		t.Errorf("%d calls to the file layer change something", writes.Load())
	}
	after := snapshotOf(t, disk)
	for name := range after {
		if before[name] != after[name] {
			t.Errorf("%s has changed", name)
		}
	}
	r.open()
}

// So is one of a version that there never was.
func TestOpenOfADirectoryOfNoVersion(t *testing.T) {
	for _, body := range []string{`{"version":0}`, `{"version":-1}`, `{}`} {
		disk := vfs.NewMem()
		if err := twin.Save(disk, "FORMAT", 7, []byte(body)); err != nil {
			t.Fatal(err)
		}
		before := snapshotOf(t, disk)
		if _, err := varve.OpenFS(disk, quiet); err == nil || !strings.Contains(err.Error(), "FORMAT: there is no format version") {
			t.Errorf("%s: the error is %v", body, err)
		}
		if after := snapshotOf(t, disk); !maps.Equal(before, after) {
			t.Errorf("%s: the directory has changed", body)
		}
	}
}

// A directory that cannot be written, from the first call or from any later one:
// an error, no goroutine and no lock left, and nothing half-made in the way of
// the next open.
func TestOpenOfADirectoryThatCannotBeWritten(t *testing.T) {
	changes := func(op vfs.Op) bool {
		switch op.Kind {
		case vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpSyncDir, vfs.OpRename, vfs.OpRemove, vfs.OpMkdir, vfs.OpTruncate, vfs.OpLock:
			return true
		}
		return false
	}
	for _, cause := range []error{syscall.EROFS, syscall.EACCES, syscall.EIO, syscall.ENOSPC} {
		for n := int64(1); ; n++ {
			disk := vfs.NewMem()
			var seen atomic.Int64
			failed := false
			faulty := vfs.NewFaulty(disk, func(op vfs.Op) vfs.Fault {
				if changes(op) && seen.Add(1) >= n {
					failed = true
					return vfs.Fault{Err: cause}
				}
				return vfs.Fault{}
			})
			e, err := varve.OpenFS(faulty, quiet)
			if err == nil {
				e.Close()
				if n < 3 {
					t.Errorf("%v: an empty directory that takes %d changes was opened", cause, n-1)
				}
				if !failed {
					break // n is beyond all that an open does
				}
				continue
			}
			if !errors.Is(err, cause) {
				t.Errorf("%v from change %d on: %v", cause, n, err)
			}
			if n == 1 && len(disk.Files()) > 0 {
				t.Errorf("%v: left are %q", cause, disk.Files())
			}
			e, err = varve.OpenFS(disk, quiet) // the lock is free, and nothing is in the way
			if err != nil {
				t.Fatalf("%v from change %d on, then space again: %v", cause, n, err)
			}
			if err := e.Close(); err != nil {
				t.Errorf("%v from change %d on: close: %v", cause, n, err)
			}
		}
	}
}

// Whoever has the directory open keeps it: a second open in this process gets an
// error that names the holder, and disturbs nothing.
func TestOpenTwiceInOneProcess(t *testing.T) {
	dir := t.TempDir()
	first, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := first.EnsureTopic("t", varve.TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		_, err := varve.Open(dir, quiet)
		var locked *varve.LockedError
		if !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprintf("process %d ", os.Getpid())) {
			t.Errorf("a second open: %v", err)
		}
		if _, err := topic.Publish(context.Background(), text("%d", i)); err != nil {
			t.Errorf("the first engine: %v", err)
		}
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Close(); !errors.Is(err, varve.ErrClosed) {
		t.Errorf("a second close: %v", err)
	}
	second, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatalf("after close: %v", err)
	}
	if topic, err = second.Topic("t"); err != nil || topic.Stats().Records != 3 {
		t.Errorf("after close: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// Two opens of one directory at once, the first held at each of its calls in turn,
// on a new directory and on a used one: one of the two gets it, the other is told
// that it is locked, and nothing else. Where the second is closed meanwhile the
// first goes on from what that has left.
func TestOpenBesideAnOpen(t *testing.T) {
	for _, used := range []bool{false, true} {
		for _, meanwhile := range []bool{false, true} {
			for n := int64(1); openBesideAnOpen(t, used, meanwhile, n); n++ {
			}
		}
	}
}

// openBesideAnOpen holds the first open at its nth call; false when it makes
// fewer.
func openBesideAnOpen(t *testing.T, used, meanwhile bool, n int64) bool {
	where := fmt.Sprintf("used %t, closed meanwhile %t, held at call %d", used, meanwhile, n)
	disk := vfs.NewMem()
	wins := uint64(0)
	use := func(e *varve.Engine) {
		if e == nil {
			return
		}
		wins++
		if _, err := e.EnsureTopic("t", varve.TopicConfig{}); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if err := e.Close(); err != nil {
			t.Errorf("%s: close: %v", where, err)
		}
	}
	if used {
		e, err := varve.OpenFS(disk, quiet)
		if err != nil {
			t.Fatal(err)
		}
		use(e)
	}
	var seen atomic.Int64
	v := newValve(func(vfs.Op) bool { return seen.Add(1) == n })
	v.shut.Store(true)
	type opened struct {
		e   *varve.Engine
		err error
	}
	first := make(chan opened, 1)
	go func() {
		e, err := varve.OpenFS(vfs.NewFaulty(disk, v.rule), quiet)
		first <- opened{e, err}
	}()
	select {
	case <-v.reached:
	case a := <-first:
		v.shut.Store(false)
		if a.err != nil {
			t.Error(a.err)
		}
		use(a.e)
		return false
	}
	e, err := varve.OpenFS(disk, quiet)
	both := err == nil && meanwhile
	if both {
		use(e)
	}
	close(v.gate)
	a := <-first
	var locked *varve.LockedError
	for _, err := range []error{err, a.err} {
		if err != nil && !errors.As(err, &locked) {
			t.Errorf("%s: %v", where, err)
		}
	}
	if !both {
		use(e)
	}
	use(a.e)
	if opened := (err == nil) != (a.err == nil); opened == both {
		t.Errorf("%s: %v, and %v", where, a.err, err)
	}
	if doc, _, err := twin.Read(disk, "FORMAT", twin.Identity{}); err != nil || doc.Generation != wins {
		t.Errorf("%s: %d starts are counted, there were %d: %v", where, doc.Generation, wins, err)
	}
	return true
}

// After a clean stop an open looks at no segment, and does as little for two
// thousand of them as for twenty.
func TestOpenAfterACleanStopReadsNoSegment(t *testing.T) {
	calls := map[int]int64{}
	for _, each := range []int{10, 1000} {
		var ofSegments atomic.Int64
		r := newRig(t, background, func(r *rig) {
			r.rule = func(op vfs.Op) vfs.Fault {
				touches := op.Kind != vfs.OpStat && op.Kind != vfs.OpReadDir
				if touches && (strings.HasSuffix(op.Name, ".log") || strings.HasSuffix(op.Name, "index")) {
					ofSegments.Add(1)
				}
				return vfs.Fault{}
			}
		})
		for i := range 2 {
			r.topic(fmt.Sprintf("t%d", i), 3, "segment.bytes=64", "durability=os", "retention.ms=-1")
			for k := range 3 {
				p := r.part(fmt.Sprintf("t%d", i), k)
				for n := range each / 3 {
					r.publish(p, text("%d", n))
				}
			}
		}
		r.close()
		ofSegments.Store(0)
		r.open()
		if n := ofSegments.Load(); n > 0 {
			t.Errorf("%d segments: the open made %d calls for their files", 2*each, n)
		}
		calls[each] = r.faulty.Count(vfs.OpAny)
		for i := range 2 { // and the answers are right
			for k := range 3 {
				if p := r.part(fmt.Sprintf("t%d", i), k); p.Start() != 0 || p.End() != varve.Offset(each/3) {
					t.Errorf("there is [%d, %d), want [0, %d)", p.Start(), p.End(), each/3)
				}
			}
		}
		if n := ofSegments.Load(); n > 0 {
			t.Errorf("asking for the ends made %d calls for segments", n)
		}
	}
	if calls[1000] > calls[10]+20 {
		t.Errorf("20 segments cost %d calls, 2000 cost %d", calls[10], calls[1000])
	}
}

// Readers that are parked, and readers of far more than the cache holds, do not
// make memory grow to the size of the store (nats-io/nats-server#5740,
// oxia-db/oxia#348).
func TestMemoryIsBoundedWhateverIsStored(t *testing.T) {
	dir := t.TempDir()
	e, err := varve.Open(dir, varve.Options{Logger: silent(), CacheBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const topics, perTopic, size = 16, 8, 1 << 20 // 128 MiB, of which a tenth on disk
	value := bytes.Repeat(noise(1, 1000), size/1000)
	var parked []*varve.Reader
	for i := range topics {
		topic, err := e.EnsureTopic(fmt.Sprintf("t%d", i), varve.TopicConfig{
			Config: config("segment.bytes=1000000", "durability=os", "compression.type=lz4", "max.message.bytes=2000000"),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range perTopic {
			if _, err := topic.Publish(context.Background(), varve.Record{Value: value}); err != nil {
				t.Fatal(err)
			}
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range topics {
		topic, err := e.Topic(fmt.Sprintf("t%d", i))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rec, err := range topic.Records(context.Background(), varve.Earliest()) {
			if err != nil || !bytes.Equal(rec.Value, value) {
				t.Fatalf("%d bytes, %v", len(rec.Value), err)
			}
			n++
		}
		if n != perTopic {
			t.Errorf("%d records, want %d", n, perTopic)
		}
		for range 100 {
			rd, err := topic.Reader(varve.Latest())
			if err != nil {
				t.Fatal(err)
			}
			if _, ok, err := rd.Poll(); ok || err != nil {
				t.Fatal(ok, err)
			}
			parked = append(parked, rd)
		}
	}
	after := heap()
	t.Logf("heap %d KiB before, %d KiB after reading %d MiB", before>>10, after>>10, topics*perTopic*size>>20)
	if after > before+16<<20 && !raceDetector {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	runtime.KeepAlive(parked)
}

// Opening and closing leaves no goroutine, also when the open fails.
func TestOpenAndCloseLeaveNoGoroutine(t *testing.T) {
	disk := vfs.NewMem()
	count := func() int {
		for range 100 {
			runtime.Gosched()
		}
		return runtime.NumGoroutine()
	}
	before := count()
	for i := range 200 {
		n := int64(i % 40)
		e, err := varve.OpenFS(vfs.NewFaulty(disk, vfs.FailFrom(vfs.OpAny, "", 10+n, syscall.EIO)), quiet)
		if err == nil {
			e.Close()
		}
		if e, err = varve.OpenFS(disk, quiet); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if _, err := e.EnsureTopic("t", varve.TopicConfig{Partitions: 3}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	after := count()
	for range 100000 { // goroutines that were told to end have not all ended yet
		if after <= before {
			break
		}
		after = count()
	}
	if after > before {
		t.Errorf("%d goroutines became %d", before, after)
	}
}

// What is missing of a directory that was stopped cleanly is told of: a topic, and
// the version.
func TestWhatIsMissingIsTold(t *testing.T) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	mustTopic(t, e, "a")
	gone := mustTopic(t, e, "b")
	mustClose(t, e)
	if err := disk.RemoveAll("topics/b"); err != nil {
		t.Fatal(err)
	}
	e, logged := openOn(t, disk)
	if said := logged.first("topic is missing"); !strings.Contains(said, gone.ID().String()) {
		t.Errorf("of the topic it says %q", said)
	}
	if err := e.DeleteTopic("a"); err != nil {
		t.Fatal(err)
	}
	mustTopic(t, e, "c")
	mustClose(t, e)
	e, logged = openOn(t, disk)
	if said := logged.first("missing"); said != "" {
		t.Errorf("of what was deleted it says %q", said)
	}
	mustClose(t, e)
	for _, name := range []string{"FORMAT", "FORMAT.copy"} {
		if err := disk.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	e, logged = openOn(t, disk)
	if logged.first("FORMAT and its copy are missing") == "" {
		t.Error("of the version it says nothing")
	}
	mustClose(t, e)
}
