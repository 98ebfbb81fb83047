package varve_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// slowRound is an engine whose next sync of the journal waits, so that what is published
// meanwhile is in no file yet, and whose segments refuse what they are to take then.
type slowRound struct {
	*rig
	hold, refuse atomic.Bool
	held         chan struct{} // closed when the sync waits
	goOn         chan struct{} // closed by end
	busy         chan error    // of what the round has
	refused      func(op vfs.Op) vfs.Fault
}

func newSlowRound(t *testing.T) *slowRound {
	s := &slowRound{held: make(chan struct{}), goOn: make(chan struct{}), busy: make(chan error, 1)}
	s.refused = func(op vfs.Op) vfs.Fault {
		if op.Kind == vfs.OpWrite {
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}
	s.rig = newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			switch {
			case op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".wal") && s.hold.CompareAndSwap(true, false):
				close(s.held)
				return vfs.Fault{Block: s.goOn}
			case strings.HasSuffix(op.Name, ".log") && s.refuse.Load():
				return s.refused(op)
			}
			return vfs.Fault{}
		}
	})
	return s
}

// during publishes a record to partition 1, and while that round is held, one to partition 0,
// which no round has then. What becomes of that comes by the channel.
func (s *slowRound) during(p *varve.Partition, rec varve.Record) <-chan error {
	busy := s.part("t", 1)
	s.hold.Store(true)
	go func() {
		_, err := busy.Publish(context.Background(), text("busy"))
		s.busy <- err
	}()
	<-s.held
	told, end := make(chan error, 1), p.LogEnd()
	go func() {
		_, err := p.Publish(context.Background(), rec)
		told <- err
	}()
	for p.LogEnd() == end {
		time.Sleep(time.Millisecond)
	}
	s.refuse.Store(true)
	return told
}

// end lets the round go on.
func (s *slowRound) end() {
	close(s.goOn)
	if err := <-s.busy; err != nil {
		s.t.Error(err)
	}
	s.note(s.part("t", 1), 0, text("busy"))
}

// Somebody else than a round has the file take what waits for its round, and the file neither
// takes it nor can be cut back, while that round begins: it may be stored, and that is told.
func TestLeftBehindWhileARoundBegins(t *testing.T) {
	s := newSlowRound(t)
	s.loud = true
	s.topic("t", 2, "retention.ms=-1")
	p := s.part("t", 0)
	s.publish(p, text("in front"))
	writing, goOn := make(chan struct{}), make(chan struct{})
	s.refused = func(op vfs.Op) vfs.Fault {
		switch op.Kind {
		case vfs.OpWrite:
			close(writing)
			return vfs.Fault{Err: syscall.EIO, Done: true, Block: goOn}
		case vfs.OpTruncate:
			return vfs.Fault{Err: syscall.EIO}
		}
		return vfs.Fault{}
	}
	told := s.during(p, text("left behind"))
	weaker := p.Topic().Publisher(varve.PublisherOptions{ByPartition: true, Ack: varve.OS})
	go weaker.PublishAll(context.Background(), []varve.Record{text("behind it")})
	<-writing
	s.end()
	time.Sleep(20 * time.Millisecond) // a round may begin; where it does not, the test is weaker
	close(goOn)
	err := <-told
	var maybe *varve.MaybeStoredError
	if !errors.As(err, &maybe) || !errors.Is(err, varve.ErrReadOnly) {
		t.Errorf("a publish of which a file may have kept something: %v", err)
	}
	s.note(p, 1, text("left behind"))
	left := s.disk.Clone()
	s.engine.Close() // it says that not all is in the files
	s.engine, s.disk, s.rule = nil, left, nil
	s.open()
}

// A publisher is told of a conflict only with what stays, and is durable: it may wait for what
// stands in its way, or take it for its own.
func TestConflictIsWithWhatStays(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		s := newSlowRound(t)
		s.topic("t", 2, "retention.ms=-1")
		p := s.part("t", 0)
		s.publish(p, text("in front"))
		told := s.during(p, text("in the way"))
		s.refuse.Store(refuse)
		second, conflicting := text("if it is the second"), make(chan error, 1)
		go func() {
			_, err := p.PublishIf(context.Background(), 1, second)
			conflicting <- err
		}()
		select {
		case err := <-conflicting:
			t.Errorf("a conflict with what may yet be refused: %v", err)
			conflicting <- err
		case <-time.After(10 * time.Millisecond): // long enough for one that does not wait, mostly
		}
		s.end()
		err := <-conflicting
		var conflict *varve.ConflictError
		if isConflict := errors.As(err, &conflict); isConflict == refuse || isConflict && (conflict.Next != 2 || p.DurableEnd() != 2) {
			t.Errorf("refused %v: %v, and everything up to %d is durable", refuse, err, p.DurableEnd())
		}
		stored := int64(2)
		if err := <-told; refuse {
			if stored = 1; !errors.Is(err, syscall.EIO) || errors.Is(err, varve.ErrReadOnly) {
				t.Errorf("a publish that the segment refuses: %v", err)
			}
		} else if err != nil {
			t.Error(err)
		} else {
			s.note(p, 1, text("in the way"))
		}
		if got := p.Stats().Counters.Records; got != stored {
			t.Errorf("%d records are counted of %d that are stored", got, stored)
		}
		if s.refuse.Store(false); refuse {
			if _, err := p.PublishIf(context.Background(), 1, second); err != nil {
				t.Errorf("a publish in its place: %v", err)
			}
			s.note(p, 1, second)
		}
	}
}

// A level that is lowered shows readers nothing that the file refuses.
func TestWeakerLevelShowsNothingRefused(t *testing.T) {
	s := newSlowRound(t)
	s.topic("t", 2, "retention.ms=-1")
	p := s.part("t", 0)
	s.publish(p, text("in front"))
	told := s.during(p, text("refused"))
	if err := p.Topic().Alter(map[string]string{"durability": "os"}); err != nil {
		t.Fatal(err)
	}
	if end := p.End(); end != 1 {
		t.Errorf("readers see up to %d", end)
	}
	s.end()
	if err := <-told; !errors.Is(err, syscall.EIO) {
		t.Errorf("a publish that the segment refuses: %v", err)
	}
	if p.End() != 1 || p.LogEnd() != 1 {
		t.Errorf("readers see up to %d, the log ends at %d", p.End(), p.LogEnd())
	}
}
