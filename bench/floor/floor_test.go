package floor

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func create(t *testing.T) *Log {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &Log{File: f}
}

func TestReadChecksWhatAppendWrote(t *testing.T) {
	l := create(t)
	var want int64
	for i := range 100 {
		b := bytes.Repeat([]byte{byte(i)}, i*7)
		if err := l.Append(b, b); err != nil {
			t.Fatal(err)
		}
		want += 2 * int64(8+len(b))
	}
	for _, size := range []int{701, 1000, 4096, 1 << 20} { // 99*7+8 is the largest
		if got, err := l.Read(make([]byte, size)); got != want || !errors.Is(err, io.EOF) {
			t.Errorf("through %d bytes: read %d of %d, %v", size, got, want, err)
		}
	}
}

func TestReadFindsEveryFlippedBit(t *testing.T) {
	l := create(t)
	if err := l.Append([]byte("one batch"), []byte("and another")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(l.File.Name())
	if err != nil {
		t.Fatal(err)
	}
	for at := range data {
		bad := bytes.Clone(data)
		bad[at] ^= 1
		if err := os.WriteFile(l.File.Name(), bad, 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := l.Read(make([]byte, 64))
		if errors.Is(err, io.EOF) && got == int64(len(data)) {
			t.Errorf("a flip at %d is not noticed", at)
		}
	}
}

// Two callers who wait together share a sync, and both are told of its failure.
func TestServeSharesASync(t *testing.T) {
	l := create(t)
	syncs := 0
	l.Sync = func(*os.File) error {
		syncs++
		return errors.New("no sync")
	}
	batches, done := make(chan []byte, 2), make(chan error, 2)
	batches <- []byte("a")
	batches <- []byte("b")
	close(batches)
	var wg sync.WaitGroup
	wg.Go(func() { l.Serve(batches, done) })
	for range 2 {
		if err := <-done; err == nil || !strings.Contains(err.Error(), "no sync") {
			t.Errorf("told %v", err)
		}
	}
	wg.Wait()
	if syncs != 1 {
		t.Errorf("%d syncs for two callers who wait together", syncs)
	}
}
