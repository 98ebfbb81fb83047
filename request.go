package varve

import (
	"context"
	"fmt"
	"sync"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// request is one publish to one partition on its way.
type request struct {
	partition.Append
	home  *requestPool
	acked chan struct{} // receives once, unless told is set
	told  func(Offset, error)

	one   [1]Record    // room for a single record
	batch record.Batch // room for a batch made here
	buf   []byte       // its bytes
}

// requestPool keeps requests for the next publish. Each engine has its own: a
// channel must not wander from one testing/synctest bubble into another.
type requestPool struct{ pool sync.Pool }

func (q *requestPool) get() *request {
	if r, ok := q.pool.Get().(*request); ok {
		return r
	}
	r := &request{home: q, acked: make(chan struct{}, 1)}
	r.Done = r.done
	return r
}

// free gives the request back, once nothing refers to it any more.
func (r *request) free() {
	if cap(r.buf) > 4<<20 {
		r.buf = nil
	}
	done := r.Done
	r.Append = partition.Append{Done: done}
	r.told, r.one, r.batch = nil, [1]Record{}, record.Batch{}
	r.home.pool.Put(r)
}

// done is told by the log.
func (r *request) done(*partition.Append) {
	if r.told == nil {
		r.acked <- struct{}{}
		return
	}
	told, off, err := r.told, r.Base, r.Err
	if err != nil {
		off = -1
	}
	r.free()
	told(off, err)
}

// publishing is how one publish is to be done.
type publishing struct {
	codec  record.Codec
	ack    Durability
	expect Offset // negative: any
}

// Sizes above which a publisher makes its batch itself, instead of leaving it to
// the appender, who merges small ones: work done here holds up nobody.
const (
	encodeBytes   = 64 << 10
	compressBytes = 16 << 10
)

// prepare checks records and turns the request into one that the log can append.
func (p *Partition) prepare(r *request, recs []Record, how publishing) error {
	if p.broken != nil {
		return p.broken
	}
	if len(recs) == 0 {
		return ErrNoRecords
	}
	if len(recs) > maxBatchLimit/minRecord {
		return &TooLargeError{Size: maxBatchLimit, Limit: p.topic.config().log.MaxBatchBytes}
	}
	cfg := p.topic.config()
	codec := cfg.codec
	if cfg.fromClient {
		codec = how.codec
	}
	now := p.topic.engine.env.Now()
	size, content := record.BatchOverhead, 0
	for i := range recs {
		rec := &recs[i]
		if why := cfg.checkTime(rec.Timestamp, now); why != "" {
			return &RecordError{Index: i, Reason: why}
		}
		bytes := weight(rec)
		if content += bytes; content > maxBatchLimit || (codec == record.None && content > cfg.log.MaxBatchBytes) {
			return &TooLargeError{Size: content, Limit: cfg.log.MaxBatchBytes}
		}
		size += bytes + recordOverhead + len(rec.Headers)*headerOverhead
	}
	r.Records, r.Size, r.Codec = recs, size, codec
	r.Ack, r.Expect = how.ack, how.expect
	if size > encodeBytes || (codec != record.None && size > compressBytes) {
		p.encode(r, recs, codec, now)
	}
	return nil
}

// What a record and a header take at most beside their bytes: the lengths and
// deltas are varints of up to 5 bytes, the timestamp's of up to 10.
const (
	recordOverhead = 1 + 5 + 10 + 5 + 5 + 5 + 5
	headerOverhead = 5 + 5
	minRecord      = 7 // bytes of a record without key, value and headers
)

var builders = sync.Pool{New: func() any { return new(record.Builder) }}

// encode makes the batch of a request here.
func (p *Partition) encode(r *request, recs []Record, codec record.Codec, now int64) {
	b := builders.Get().(*record.Builder)
	defer builders.Put(b)
	b.Reset(r.buf[:0], 0, record.BatchOptions{Codec: codec})
	for i := range recs {
		ts := recs[i].Timestamp
		if ts == 0 {
			ts = now
		}
		b.Add(ts, recs[i].Key, recs[i].Value, recs[i].Headers)
	}
	r.buf = b.Finish()
	batch, err := record.Parse(r.buf)
	if err != nil {
		panic(fmt.Sprintf("varve: built a batch that does not parse: %v", err))
	}
	r.batch, r.Records = batch, nil
	r.Batch = &r.batch
}

// publish sends records and waits for them.
func (p *Partition) publish(ctx context.Context, r *request, recs []Record, how publishing) (Offset, error) {
	r, err := p.send(ctx, r, recs, how)
	if err != nil {
		return -1, err
	}
	return p.await(ctx, r)
}

// send hands records to the log.
func (p *Partition) send(ctx context.Context, r *request, recs []Record, how publishing) (*request, error) {
	err := ctx.Err()
	if err == nil {
		err = p.prepare(r, recs, how)
	}
	if err != nil {
		r.free()
		return nil, err
	}
	p.log.Append(&r.Append)
	return r, nil
}

// await waits for what was sent. When the context ends first, the request is taken
// back if that can still be done.
func (p *Partition) await(ctx context.Context, r *request) (Offset, error) {
	select {
	case <-r.acked:
	default:
		select {
		case <-r.acked:
		case <-ctx.Done():
			// The request is not used again: the log may still hold it.
			if r.Cancel() {
				return -1, ctx.Err()
			}
			return -1, &MaybeStoredError{Cause: ctx.Err()}
		}
	}
	off, err := r.Base, r.Err
	if err != nil {
		off = -1
	}
	r.free()
	return off, err
}

// sendAsync hands the one record of a request to the log, which tells r.told.
func (p *Partition) sendAsync(r *request, how publishing) {
	if err := p.prepare(r, r.one[:], how); err != nil {
		told := r.told
		r.free()
		told(-1, err)
		return
	}
	p.log.Enqueue(&r.Append)
}
