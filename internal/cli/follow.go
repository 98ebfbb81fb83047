package cli

import (
	"context"
	"math"
	"sync"

	"github.com/varvelog/varve"
)

// followed is what a followed stream sends: a record, an error on the way, or at
// last its end.
type followed struct {
	stream *stream
	record varve.Record
	err    error
	end    bool
}

// followAll prints all streams as records come, each in its own order. A signal
// is the usual way to end it and no failure, unless it was to end by itself.
func (c *consumer) followAll(parent context.Context, streams []*stream) error {
	ctx, cancel := context.WithCancel(parent)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	ch := make(chan followed, 1024)
	for _, s := range streams {
		running.Go(func() { s.follow(ctx, ch) })
	}
	for open := len(streams); open > 0; {
		f, err := c.receive(ctx, ch)
		switch {
		case ctx.Err() != nil && c.endless():
			return nil
		case ctx.Err() != nil:
			return context.Cause(parent)
		case err != nil:
		case f.end:
			open--
		case f.err != nil:
			err = c.gap(f.stream.part, f.err)
		default:
			err = c.emit(&f.record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endless says that nothing but a signal ends a --follow.
func (c *consumer) endless() bool { return c.count == math.MaxInt64 && c.to == nil }

// receive takes the next thing that came; what was printed is flushed before it
// waits.
func (c *consumer) receive(ctx context.Context, ch <-chan followed) (followed, error) {
	select {
	case f := <-ch:
		return f, nil
	default:
	}
	if err := c.printer.flush(); err != nil {
		return followed{}, err
	}
	select {
	case f := <-ch:
		return f, nil
	case <-ctx.Done():
		return followed{}, ctx.Err()
	}
}

// follow sends what comes until the stream's end or ctx's.
func (s *stream) follow(ctx context.Context, ch chan<- followed) {
	send := func(f followed) bool {
		f.stream = s
		select {
		case ch <- f:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for s.next() < s.end {
		r, err := s.reader.Next(ctx)
		if err == nil && r.Offset >= s.end {
			break
		}
		if !send(followed{record: r, err: err}) {
			return
		}
		if _, _, goesOn := lost(err); err != nil && !goesOn {
			return
		}
	}
	send(followed{end: true})
}
