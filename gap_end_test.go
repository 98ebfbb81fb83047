package varve_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// A reader that comes to a gap which goes as far as the log does is at its end: it waits
// there, and does not ask over and over.
func TestReaderWaitsBehindAGapAtTheEnd(t *testing.T) {
	const dir = "topics/t/0"
	m := vfs.NewMem()
	e, _ := openOn(t, m)
	topic, err := e.EnsureTopic("t", varve.TopicConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := topic.Publish(context.Background(), text("ours %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, e)
	for _, f := range m.Files() {
		if strings.HasPrefix(f, dir) { // with what says that they were there
			if err := m.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	putTheirs(t, m, dir, 0, 0, 1, 2) // of ten offsets that were given out
	e, _ = openOn(t, m)
	defer mustClose(t, e)
	topic, err = e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	r, err := topic.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if rec, ok, err := r.Poll(); !ok || err != nil || rec.Offset != varve.Offset(i) {
			t.Fatalf("record %d: %v, %t, %v", i, rec, ok, err)
		}
	}
	if rec, ok, err := r.Poll(); ok || err != nil || r.Offset(0) != 10 {
		t.Errorf("behind them: %v, %t, %v, the reader is at %d", rec, ok, err, r.Offset(0))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for records") {
		t.Errorf("waiting gives %v", err)
	}
	if _, err := topic.Publish(context.Background(), text("more")); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.Next(context.Background()); err != nil || rec.Offset != 10 {
		t.Errorf("the next is %v (%v)", rec, err)
	}
}
