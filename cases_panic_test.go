package varve_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// A callback of PublishAsync that panics does so in the goroutine of whoever appends for
// it. Where that is a publisher that recovers, as one below an HTTP server does, nobody
// may be left waiting.
func TestPanicOfACallbackHangsNobody(t *testing.T) {
	var on atomic.Bool
	begun, pass := make(chan struct{}), make(chan struct{})
	e, err := varve.OpenFS(vfs.NewFaulty(vfs.NewMem(), func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".log") && on.CompareAndSwap(true, false) {
			close(begun)
			return vfs.Fault{Block: pass}
		}
		return vfs.Fault{}
	}), quiet)
	if err != nil {
		t.Fatal(err)
	}
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability=os")})
	if err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	recovered := make(chan any, 1)
	go func() {
		defer func() { recovered <- recover() }()
		topic.Publish(context.Background(), text("appends for all"))
	}()
	<-begun
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	publisher := topic.Publisher(varve.PublisherOptions{})
	told := make(chan error, 1)
	for _, done := range []func(varve.Place, error){
		func(varve.Place, error) { panic("callback") },
		func(_ varve.Place, err error) { told <- err },
	} {
		if err := publisher.PublishAsync(ctx, text("x"), done); err != nil {
			t.Fatal(err)
		}
	}
	close(pass)
	if got := <-recovered; got != "callback" {
		t.Errorf("the publisher recovered %v", got)
	}
	// What follows an engine that hangs ends with ctx; to close it would not.
	if err := publisher.Flush(ctx); err != nil {
		t.Fatalf("flush: %v", err)
	}
	if err := <-told; err != nil {
		t.Errorf("the one behind it: %v", err)
	}
	if _, err := topic.Publish(ctx, text("later")); err != nil {
		t.Fatalf("a publish after it: %v", err)
	}
	mustClose(t, e)
}

// A Clock that panics, where the time of a record has to be held against it, does so in the
// call of PublishAsync, which has nothing in flight then; whoever was to be told is.
func TestPanicOfTheClockLeavesNothingInFlight(t *testing.T) {
	var on atomic.Bool
	o := quiet
	o.RetentionInterval = 1000 * time.Hour
	o.Clock = func() time.Time {
		if on.Load() && bytes.Contains(debug.Stack(), []byte("PublishAsync")) { // not a goroutine of the engine
			panic("clock")
		}
		return time.Now()
	}
	e, err := varve.OpenFS(vfs.NewMem(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, e)
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("message.timestamp.after.max.ms=1000")})
	if err != nil {
		t.Fatal(err)
	}
	publisher := topic.Publisher(varve.PublisherOptions{})
	var told []error
	func() {
		defer func() {
			if got := recover(); got != "clock" {
				t.Errorf("it recovered %v", got)
			}
		}()
		on.Store(true)
		publisher.PublishAsync(context.Background(), dated(1, "x"), func(_ varve.Place, err error) { told = append(told, err) })
	}()
	on.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = publisher.Flush(ctx)
	if len(told) != 1 || told[0] == nil || !errors.Is(err, told[0]) {
		t.Errorf("it was told %v; flush: %v", told, err)
	}
}
