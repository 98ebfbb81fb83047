package varve

import (
	"context"
	"sync"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// joinBytes is the largest record that shares a batch with others, in bytes before
// compression: what joins is copied while others wait to.
const joinBytes = 4 << 10

// joins says whether a record can share a batch, and how it is compressed there. One that
// is refused, for whatever reason, goes alone, and is told the reason.
func (p *Partition) joins(rec *Record, how *publishing) (record.Codec, bool) {
	if p.broken != nil {
		return 0, false
	}
	cfg := p.topic.config()
	if record.BatchOverhead+mostSize(rec) > int64(min(joinBytes, cfg.log.MaxBatchBytes)) {
		return 0, false
	}
	if rec.Timestamp != 0 && cfg.boundsTime() {
		if now := p.log.Now(); cfg.checkTime(rec.Timestamp, now) != "" {
			return 0, false
		}
	}
	if cfg.fromClient {
		return how.codec, true
	}
	return cfg.codec, true
}

// waiter waits for one record.
type waiter struct {
	at   Place
	err  error
	told chan struct{} // receives once
	tell func(Place, error)
}

// waiterPool keeps waiters for the next publish, as requestPool does requests.
type waiterPool struct{ pool sync.Pool }

func (q *waiterPool) get() *waiter {
	if w, ok := q.pool.Get().(*waiter); ok {
		return w
	}
	w := &waiter{told: make(chan struct{}, 1)}
	w.tell = func(at Place, err error) {
		w.at, w.err = at, err
		w.told <- struct{}{}
	}
	return w
}

// wait returns when it was told, or with the error of a context that ended before.
func (w *waiter) wait(ctx context.Context) error {
	select {
	case <-w.told:
		return nil
	default:
	}
	defer lend(ctx).back()
	done := ctx.Done()
	if done == nil { // a plain receive is half the work of a select
		<-w.told
		return nil
	}
	select {
	case <-w.told:
		return nil
	case <-done:
		return ctx.Err()
	}
}

// publishOne sends a record and waits for it.
func (p *Partition) publishOne(ctx context.Context, rec *Record, how publishing) (Offset, error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	codec, ok := p.joins(rec, &how)
	if !ok {
		r := p.topic.engine.requests.get()
		r.one[0] = *rec
		return p.publish(ctx, r, r.one[:], how)
	}
	var in pass
	if p.hold.Load() != nil {
		var err error
		if in, err = p.enter(ctx, oneSize(rec)); err != nil {
			return -1, err
		}
	}
	pool := &p.topic.engine.waiters
	w := pool.get()
	ticket := p.join(rec, &partition.Single{Codec: codec, Ack: how.ack, Partition: p.index, Done: w.tell}, in)
	if err := w.wait(ctx); err != nil {
		// The waiter is not used again: it may still be told.
		if p.log.Withdraw(ticket) {
			return -1, err
		}
		return -1, &MaybeStoredError{Cause: err}
	}
	off, err := w.at.Offset, w.err
	w.err = nil
	pool.pool.Put(w)
	return off, err
}

func (p *Partition) join(rec *Record, s *partition.Single, in pass) partition.Ticket {
	defer in.entered()
	return p.log.Join(rec, s)
}

// oneSize is what a record takes alone at most.
func oneSize(rec *Record) int64 { return record.BatchOverhead + mostSize(rec) }

// sendAsync hands a record to the log, which tells of it as s says. What cannot be handed
// over is told here, also when the Clock panics.
func (p *Partition) sendAsync(rec *Record, how publishing, s *partition.Single) {
	err := partition.ErrPanicked
	defer func() {
		if err != nil {
			s.Tell(-1, err)
		}
	}()
	codec, ok := p.joins(rec, &how)
	if ok {
		s.Codec, s.Ack = codec, how.ack
		err = nil
		p.log.JoinLater(rec, s)
		return
	}
	err = p.sendAlone(rec, how, *s)
}

// sendAlone hands a record to the log that shares no batch. Its bytes are copied.
func (p *Partition) sendAlone(rec *Record, how publishing, s partition.Single) error {
	r := p.topic.engine.requests.get()
	r.one[0] = *rec
	if err := p.prepare(r, r.one[:], how); err != nil {
		r.free()
		return err
	}
	if r.Batch == nil {
		p.encode(r, r.one[:], r.Codec, p.log.Now())
	}
	r.told = s.Tell
	p.log.Enqueue(&r.Append)
	return nil
}
