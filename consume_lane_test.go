package varve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve/internal/vfs"
)

// A lane that has done everything holds no record, no key and no context.
func TestIdleLaneHoldsNothing(t *testing.T) {
	for name, o := range map[string]ConsumeOptions{
		"in order": {}, "by key": {ByKey: true}, "later": {AckLater: true}, "later, by key": {AckLater: true, ByKey: true},
		"dead": {ByKey: true, OnFailure: DeadLetter, DeadLetters: "dead", Retry: Retry{Attempts: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := OpenFS(vfs.NewMem(), Options{Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				topic, _ := e.CreateTopic("t", TopicConfig{})
				e.CreateTopic("dead", TopicConfig{})
				for i := range 500 {
					if _, err := topic.Publish(context.Background(), Record{Key: fmt.Append(nil, i)}); err != nil {
						t.Fatal(err)
					}
				}
				s, err := e.Consume(context.Background(), "g", []string{"t"}, func(_ context.Context, d Delivery) error {
					time.AfterFunc(time.Second, func() { d.Done(nil) })
					if d.Offset%50 == 0 && d.Attempt < 3 {
						return ErrNoRecords
					}
					return nil
				}, o)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				l := s.current()[0]
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.place != 500 || l.active != 0 || l.ready != 0 || l.window.bytes != 0 {
					t.Errorf("at %d, %d under way, %d ready, %d bytes", l.place, l.active, l.ready, l.window.bytes)
				}
				if len(l.keys) != 0 || len(l.alone) != 0 || len(l.window.ring) > 0 || len(l.turns) > 0 || len(l.read) > 0 {
					t.Errorf("it holds %d keys, %d strands, room for %d records", len(l.keys), len(l.alone), len(l.window.ring))
				}
			})
		})
	}
}

// lone is an engine with a topic of three records, and a subscription whose handler takes a
// second and returns err.
func lone(t *testing.T, err error) (*Engine, *Subscription) {
	t.Helper()
	e, oerr := OpenFS(vfs.NewMem(), Options{Logger: slog.New(slog.DiscardHandler)})
	if oerr != nil {
		t.Fatal(oerr)
	}
	topic, terr := e.CreateTopic("t", TopicConfig{})
	if terr != nil {
		t.Fatal(terr)
	}
	for i := range 3 {
		if _, err := topic.Publish(context.Background(), Record{Key: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	s, cerr := e.Consume(context.Background(), "g", []string{"t"}, func(context.Context, Delivery) error {
		time.Sleep(time.Second)
		return err
	}, ConsumeOptions{ByKey: true, Retry: Retry{First: time.Hour, Most: time.Hour}})
	if cerr != nil {
		t.Fatal(cerr)
	}
	return e, s
}

// A stop leaves no alarm behind, of what waited already and of what fails while it waits.
func TestStopLeavesNoAlarm(t *testing.T) {
	for name, at := range map[string]time.Duration{"waiting": time.Minute, "at work": time.Second / 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, s := lone(t, ErrNoRecords)
				defer e.Close()
				time.Sleep(at)
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
				e.consumers.alarms.mu.Lock()
				defer e.consumers.alarms.mu.Unlock()
				if n := len(e.consumers.alarms.list); n > 0 {
					t.Errorf("%d alarms are left", n)
				}
			})
		})
	}
}

// A stop that cannot commit says so.
func TestStopThatCannotCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, s := lone(t, nil)
		defer e.Close()
		g := s.member.Load().group
		g.mu.Lock()
		g.ended = true
		g.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		time.Sleep(time.Hour)
		if err := s.Stop(ctx); !errors.Is(err, errEnded) {
			t.Errorf("stop: %v", err)
		}
	})
}
