//go:build unix

package varve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/varvelog/varve"
)

func init() {
	children["publish on"] = publishOn
	children["memory"] = publishMuch
}

// publishOn publishes without end and says which offsets were acknowledged.
func publishOn(dir string, out io.Writer) error {
	e, err := varve.Open(dir, quiet)
	if err != nil {
		return err
	}
	topic, err := e.EnsureTopic("t", varve.TopicConfig{Config: config("segment.bytes=2000", "retention.ms=-1")})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		place, err := topic.Publish(context.Background(), text("%d", i))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, place.Offset)
	}
}

// A process that is stopped, and goes on later, has acknowledged nothing wrong: nothing
// in an engine takes the time that has passed for an answer. While it is stopped the
// directory is still its own.
func TestStoppedProcessGoesOn(t *testing.T) {
	dir := t.TempDir()
	cmd := childCommand(t, "publish on", dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acked, out := 0, bufio.NewScanner(stdout)
	next := func(n int) {
		for range n {
			if !out.Scan() || out.Text() != strconv.Itoa(acked) {
				t.Fatalf("acknowledged was %q behind %d", out.Text(), acked-1)
			}
			acked++
		}
	}
	for range 5 {
		next(100)
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var locked *varve.LockedError
		if _, err := varve.Open(dir, quiet); !errors.As(err, &locked) {
			t.Errorf("beside a stopped process: %v", err)
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	next(100)
	cmd.Process.Kill()
	for out.Scan() {
		acked++
	}
	cmd.Wait()
	e, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, e)
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	got := valuesOf(t, partOf(t, topic, 0))
	for i, val := range got {
		if val != strconv.Itoa(i) {
			t.Fatalf("offset %d holds %s", i, val)
		}
	}
	if len(got) < acked || len(got) > acked+1 {
		t.Errorf("%d were acknowledged, %d are there", acked, len(got))
	}
}

// publishMuch has many publishers and readers at work and says how much memory that
// took at most.
func publishMuch(dir string, out io.Writer) error {
	e, err := varve.Open(dir, varve.Options{Logger: silent()})
	if err != nil {
		return err
	}
	topic, err := e.CreateTopic("t", varve.TopicConfig{
		Partitions: 16, Config: config("segment.bytes=8000000", "retention.bytes=16000000", "durability=interval"),
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 8 {
		go func() {
			for _, err := range topic.Follow(ctx, varve.Earliest()) {
				if err != nil && !goesOn(err) {
					return
				}
			}
		}()
	}
	value := noise(1, 10_000)
	failed := make(chan error, 8)
	for g := range 8 {
		go func() {
			pub := topic.Publisher(varve.PublisherOptions{Codec: allCodecs[g%len(allCodecs)], MaxInFlight: 4 << 20})
			var err error
			for i := 0; i < 8000 && err == nil; i++ {
				err = pub.PublishAsync(ctx, varve.Record{Key: strconv.AppendInt(nil, int64(i), 10), Value: value}, nil)
			}
			failed <- errors.Join(err, pub.Flush(ctx))
		}()
	}
	for range 8 {
		if err := <-failed; err != nil {
			return err
		}
	}
	fmt.Fprintln(out, peakMemory())
	cancel()
	return e.Close()
}

// With its default options, an engine under as much load as it takes stays within a
// fixed amount of memory: publishers wait, and nobody is killed.
func TestMemoryUnderLoad(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("-short or -race: publishes 640 MB and measures its memory, which the race detector multiplies; make test runs it without")
	}
	cmd := childCommand(t, "memory", t.TempDir())
	cmd.Env = append([]string{"GOMEMLIMIT=200MiB"}, cmd.Env...)
	peak, err := strconv.ParseInt(strings.TrimSpace(runChild(t, cmd)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d MiB were resident", peak>>20)
	if peak == 0 && runtime.GOOS == "linux" || peak > 256<<20 {
		t.Errorf("%d bytes were resident", peak)
	}
}

// A directory that is moved away while it is open is written to no more under its old
// name: nothing is made there, what has files open goes on, the rest is refused. What
// was acknowledged is where the directory went.
func TestDirectoryMovedAway(t *testing.T) {
	base := t.TempDir()
	dir, moved := filepath.Join(base, "data"), filepath.Join(base, "moved")
	e, err := varve.Open(dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("segment.bytes=1000", "retention.ms=-1")})
	if err != nil {
		t.Fatal(err)
	}
	want := fill(t, topic, "before", 10)
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		val := fmt.Sprint("after ", i)
		if _, err := topic.Publish(context.Background(), text("%s", val)); err == nil {
			want = append(want, val)
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("publish: %v", err)
		}
	}
	if _, err := e.CreateTopic("new", varve.TopicConfig{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("making a topic: %v", err)
	}
	e.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is something under the old name: %q", listTree(t, dir))
	}
	e, err = varve.Open(moved, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, e)
	if topic, err = e.Topic("t"); err != nil {
		t.Fatal(err)
	}
	if got := valuesOf(t, partOf(t, topic, 0)); len(got) != len(want) {
		t.Errorf("%d records are there, %d were acknowledged", len(got), len(want))
	}
}
