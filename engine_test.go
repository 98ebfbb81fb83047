package varve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// goldenRecord is a record of the golden directories, as it is kept beside them.
type goldenRecord struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       []byte      `json:"key"`
	Value     []byte      `json:"value"`
	Headers   [][2]string `json:"headers,omitempty"`
}

// Directories that earlier versions of varve wrote open, and hold the records that
// were put into them. A directory is never rewritten: each version of the format
// adds its own, made by testdata/golden/make.
func TestGoldenDirectories(t *testing.T) {
	dirs, err := filepath.Glob("testdata/golden/v*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no golden directories: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for _, left := range []string{"data", "crashed"} {
				from := filepath.Join(dir, left)
				if _, err := os.Stat(from); err != nil && left == "crashed" {
					continue // version 1 has no journal
				}
				data := t.TempDir()
				if err := os.CopyFS(data, os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
				compareGolden(t, data, readGolden(t, filepath.Join(dir, "records.json")))
			}
		})
	}
}

// A directory of version 1 becomes one of this version with the first start, whenever
// the power goes meanwhile.
func TestUpgradeMayBeCutAnywhere(t *testing.T) {
	want := readGolden(t, "testdata/golden/v1/records.json")
	disk := vfs.NewMem()
	err := fs.WalkDir(os.DirFS("testdata/golden/v1/data"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if d.IsDir() {
			return disk.Mkdir(name)
		}
		data, err := os.ReadFile(filepath.Join("testdata/golden/v1/data", name))
		if err != nil {
			return err
		}
		return disk.WriteFile(name, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	disk = disk.Crash(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept, Names: vfs.NamesKept}) // all of it is durable
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	for cut := int64(1); ; cut += step {
		before := disk.Clone()
		reached := false
		var left *vfs.Mem
		e, err := varve.OpenFS(vfs.NewFaulty(before, func(op vfs.Op) vfs.Fault {
			switch {
			case !changesDisk(op.Kind) || op.Seq < cut:
				return vfs.Fault{}
			case !reached:
				reached = true
				left = before.Crash(vfs.CrashOptions{Seed: uint64(cut), Unsynced: vfs.UnsyncedPages, Names: vfs.NamesRandom})
			}
			return vfs.Fault{Err: syscall.EIO}
		}), quiet)
		if err == nil {
			e.Close()
		}
		if !reached {
			return
		}
		e, err = varve.OpenFS(left, quiet)
		if err != nil {
			t.Fatalf("cut at call %d: %v", cut, err)
		}
		for name, recs := range want {
			topic, err := e.Topic(name)
			if err != nil {
				t.Fatalf("cut at call %d: %v", cut, err)
			}
			if got, want := fmt.Sprint(recordsOf(t, topic)), fmt.Sprint(recs); got != want {
				t.Fatalf("cut at call %d: topic %s:\ngot  %s\nwant %s", cut, name, got, want)
			}
		}
		mustClose(t, e)
	}
}

func readGolden(t *testing.T, name string) map[string][]goldenRecord {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]goldenRecord
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	return want
}

// compareGolden opens a copy twice: as it was left, stopped cleanly, and without
// anything that is derived.
func compareGolden(t *testing.T, dir string, want map[string][]goldenRecord) {
	for _, how := range []string{"clean", "recovered"} {
		e, err := varve.Open(dir, quiet)
		if err != nil {
			t.Fatal(err)
		}
		for name, recs := range want {
			topic, err := e.Topic(name)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := fmt.Sprint(recordsOf(t, topic)), fmt.Sprint(recs); got != want {
				t.Errorf("%s, topic %s:\ngot  %s\nwant %s", how, name, got, want)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		derived := []string{"checkpoint", "clean", "topics/*/*/seals", "topics/*/*/*.index", "topics/*/*/*.timeindex", "topics/*/*/leader-epoch-checkpoint"}
		for _, pattern := range derived {
			names, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, n := range names {
				os.Remove(n)
			}
		}
	}
}

func recordsOf(t *testing.T, topic *varve.Topic) []goldenRecord {
	t.Helper()
	var out []goldenRecord
	for i := range topic.Partitions() {
		p, err := topic.Partition(i)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range p.Records(context.Background(), varve.Earliest()) {
			if err != nil {
				t.Fatal(err)
			}
			g := goldenRecord{Partition: r.Partition, Offset: int64(r.Offset), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				g.Headers = append(g.Headers, [2]string{h.Key, string(h.Value)})
			}
			out = append(out, g)
		}
	}
	return out
}

// An engine that is closed says so at every call.
func TestClosedEngine(t *testing.T) {
	e, err := varve.OpenFS(vfs.NewMem(), quiet)
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
	r, err := p.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	calls := map[string]func() error{
		"Close":         e.Close,
		"CreateTopic":   func() error { _, err := e.CreateTopic("u", varve.TopicConfig{}); return err },
		"EnsureTopic":   func() error { _, err := e.EnsureTopic("t", varve.TopicConfig{}); return err },
		"Topic":         func() error { _, err := e.Topic("t"); return err },
		"DeleteTopic":   func() error { return e.DeleteTopic("t") },
		"RunRetention":  e.RunRetention,
		"Alter":         func() error { return topic.Alter(map[string]string{"retention.ms": "1"}) },
		"AddPartitions": func() error { return topic.AddPartitions(2) },
		"Publish":       func() error { _, err := topic.Publish(ctx, varve.Record{Value: []byte("x")}); return err },
		"PublishIf":     func() error { _, err := p.PublishIf(ctx, 0, varve.Record{Value: []byte("x")}); return err },
		"Trim":          func() error { _, err := p.Trim(0); return err },
		"OffsetFor":     func() error { _, err := p.OffsetFor(ctx, time.Now()); return err },
		"Reader":        func() error { _, err := p.Reader(varve.Earliest()); return err },
		"Reader.Next":   func() error { _, err := r.Next(ctx); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, varve.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

// A callback may ask the partition anything: no lock is held while it runs, also
// when the disk has just failed the partition.
func TestCallbacksMayAskThePartition(t *testing.T) {
	for name, kind := range map[string]vfs.OpKind{"sync fails": vfs.OpSync, "cut back fails": vfs.OpTruncate, "all goes well": vfs.OpLink} {
		t.Run(name, func(t *testing.T) {
			var failing atomic.Bool
			disk := vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
				hit := syncsRecords(op) && kind == vfs.OpSync ||
					strings.HasSuffix(op.Name, ".log") && kind == vfs.OpTruncate && (op.Kind == vfs.OpTruncate || op.Kind == vfs.OpWrite)
				if failing.Load() && hit {
					return vfs.Fault{Err: syscall.EIO}
				}
				return vfs.Fault{}
			})
			e, err := varve.OpenFS(disk, quiet)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			topic, err := e.CreateTopic("t", varve.TopicConfig{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := topic.Partition(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Publish(context.Background(), varve.Record{Value: []byte("first")}); err != nil {
				t.Fatal(err)
			}
			failing.Store(true)
			told := make(chan struct{})
			pub := topic.Publisher(varve.PublisherOptions{})
			for range 3 {
				err := pub.PublishAsync(context.Background(), varve.Record{Value: []byte("x")}, func(varve.Place, error) {
					p.Stats()
					if _, err := p.Trim(0); err != nil {
						t.Error(err)
					}
					topic.Config()
					told <- struct{}{}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				<-told
			}
		})
	}
}
