package varve

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// drivers is how many subscriptions do at a time what their groups ask of them. They wait
// for the disk, and never for a handler.
const drivers = 2

// consumers are the subscriptions of an engine and what works for them.
//
//	field     guarded by   written by
//	engine, workers, drivers, alarms   (immutable)   newConsumers
//	all       mu           begin; the end of a subscription
//	closed    mu           stop
//	running   atomic       strands
type consumers struct {
	engine  *Engine
	workers *crew // call handlers
	drivers *crew
	alarms  alarms

	mu     sync.Mutex
	all    map[*Subscription]struct{}
	closed bool

	running atomic.Int64 // handlers
}

func newConsumers(e *Engine) *consumers {
	return &consumers{
		engine: e, workers: newCrew(e.opt.Groups.Workers), drivers: newCrew(drivers),
		all: map[*Subscription]struct{}{},
	}
}

func (c *consumers) begin(ctx context.Context, groupID string, topics []string, h Handler, o ConsumeOptions) (*Subscription, error) {
	s := newSubscription(c, groupID, topics, h, o)
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.all[s] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if err := s.join(ctx); err != nil {
		s.finish(err)
		return nil, err
	}
	s.unbind = context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.Background(), c.engine.opt.Groups.StopTimeout)
		defer cancel()
		if err := s.Stop(within); err != nil {
			c.engine.log.Warn("subscription did not stop well", "group", groupID, "err", err)
		}
	})
	s.joined.Store(true)
	s.wake()
	return s, nil
}

func (c *consumers) remove(s *Subscription) {
	c.mu.Lock()
	delete(c.all, s)
	c.mu.Unlock()
}

// stop stops all subscriptions, and lets there be no more.
func (c *consumers) stop() error {
	c.mu.Lock()
	c.closed = true
	all := slices.Collect(maps.Keys(c.all))
	c.mu.Unlock()
	within, cancel := context.WithTimeout(context.Background(), c.engine.opt.Groups.StopTimeout)
	defer cancel()
	for _, s := range all {
		s.beginStop()
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, s.Stop(within))
	}
	return errors.Join(errs...)
}
