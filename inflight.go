package varve

import (
	"context"
	"sync"
	"sync/atomic"
)

// inFlight is the account of what PublishAsync has taken and the log has not settled.
//
//	field          guarded by   written by
//	limit          (immutable)  newPublisher
//	bytes          atomic       reserve; Settled (under mu, so that nobody waits for what was)
//	failed, free   mu           Settled, flush, waitLocked
type inFlight struct {
	limit int64
	bytes atomic.Int64 // 0: nothing is in flight, for a record without content counts too

	mu     sync.Mutex
	failed error         // the first since the last flush
	free   chan struct{} // closed, and nil again, when something was settled
}

// reserve waits until bytes more may be in flight. A record larger than the bound
// may go alone.
func (f *inFlight) reserve(ctx context.Context, bytes int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		now := f.bytes.Load()
		if now > 0 && now+bytes > f.limit {
			if err := f.wait(ctx, func() bool { return f.bytes.Load() == now }); err != nil {
				return err
			}
		} else if f.bytes.CompareAndSwap(now, now+bytes) {
			return nil
		}
	}
}

// wait waits until something was settled, while there is a reason to under mu.
func (f *inFlight) wait(ctx context.Context, reason func() bool) error {
	f.mu.Lock()
	if !reason() {
		f.mu.Unlock()
		return nil
	}
	if f.free == nil {
		f.free = make(chan struct{})
	}
	free := f.free
	f.mu.Unlock()
	defer lend(ctx).back()
	select {
	case <-free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settled takes bytes out of the account.
func (f *inFlight) Settled(bytes int64, err error) {
	f.mu.Lock()
	f.bytes.Add(-bytes)
	if f.failed == nil {
		f.failed = err
	}
	if f.free != nil {
		close(f.free)
		f.free = nil
	}
	f.mu.Unlock()
}

// flush waits until there is nothing in flight, and returns the first failure since
// the last one.
func (f *inFlight) flush(ctx context.Context) error {
	for f.bytes.Load() > 0 {
		if err := f.wait(ctx, func() bool { return f.bytes.Load() > 0 }); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.failed
	f.failed = nil
	return err
}
