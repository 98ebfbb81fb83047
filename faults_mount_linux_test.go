package varve_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// smallDisk mounts a file system of its own, of 32 MiB: ext4 in a file, or where that
// cannot be had, memory.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 32<<20); err != nil {
		t.Fatal(err)
	}
	made, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput()
	if err == nil {
		made, err = exec.Command("mount", "-o", "loop", image, dir).CombinedOutput()
	}
	if err != nil {
		if merr := syscall.Mount("none", dir, "tmpfs", 0, "size=32m"); merr != nil {
			t.Skipf("this machine mounts no file system for a test: ext4 in a file: %v: %s; tmpfs: %v", err, made, merr)
		}
		t.Logf("on tmpfs, for there is no ext4: %v: %s", err, made)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "data")
}

// A real file system that is full to the last byte: publishes fail with the reason,
// what was acknowledged is read, by offset and by time through mapped indexes, without
// a memory fault; topics are made, trims and retention work, a stop and a start need no
// space, and publishes go on when there is some.
func TestFullRealDisk(t *testing.T) {
	dir := smallDisk(t)
	options := varve.Options{Logger: silent(), JournalBytes: 2 << 20, CacheBytes: -1}
	e, err := varve.Open(dir, options)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("segment.bytes=1000000", "index.interval.bytes=512", "retention.ms=-1")})
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("v", 10_000)
	publish := func() error {
		_, err := topic.Publish(context.Background(), varve.Record{Value: []byte(value)})
		return err
	}
	n := varve.Offset(0)
	for ; err == nil && n < 10_000; n++ {
		err = publish()
	}
	if n--; !errors.Is(err, syscall.ENOSPC) || errors.Is(err, varve.ErrReadOnly) {
		t.Fatalf("after %d records: %v", n, err)
	}
	// Somebody else takes the reserve too.
	hog, err := os.Create(filepath.Join(dir, "..", "hog"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		if _, err := hog.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2]
		}
	}
	check := func(when string) {
		t.Helper()
		p := partOf(t, topic, 0)
		start := p.Start()
		if got := varve.Offset(len(collect(t, p.Records(context.Background(), varve.Earliest())))); got != n-start || p.End() != n {
			t.Errorf("%s: %d records of %d, the end is %d", when, got, n-start, p.End())
		}
		for off := start; off < n; off += 97 {
			for rec, err := range p.Records(context.Background(), varve.At(off)) {
				if err != nil || rec.Offset != off || string(rec.Value) != value {
					t.Errorf("%s: at %d: offset %d, %v", when, off, rec.Offset, err)
				}
				if at, err := p.OffsetFor(context.Background(), time.UnixMilli(rec.Timestamp)); err != nil || at > off {
					t.Errorf("%s: the time of %d is at %d, %v", when, off, at, err)
				}
				break
			}
		}
	}
	check("full")
	if err := publish(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full to the last byte: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("a stop: %v", err)
	}
	if e, err = varve.Open(dir, options); err != nil {
		t.Fatal(err)
	}
	if topic, err = e.Topic("t"); err != nil {
		t.Fatal(err)
	}
	check("opened again")
	if _, err := partOf(t, topic, 0).Trim(n / 2); err != nil {
		t.Errorf("a trim: %v", err)
	}
	check("trimmed")
	if err := publish(); err != nil {
		t.Errorf("with space again: %v", err)
	}
	n++
	check("with space again")
	if err := errors.Join(e.Close(), hog.Close()); err != nil {
		t.Error(err)
	}
}
