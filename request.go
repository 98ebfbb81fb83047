package varve

import (
	"context"
	"fmt"
	"math"
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
	cfg := p.topic.config()
	codec := cfg.codec
	if cfg.fromClient {
		codec = how.codec
	}
	now := p.log.Now()
	if i, why := cfg.checkTimes(recs, now); why != "" {
		return &RecordError{Index: i, Reason: why}
	}
	most := sizeOf(recs) - record.BatchOverhead
	r.Ack, r.Expect = how.ack, how.expect
	if most <= compressBytes || (codec == record.None && most <= encodeBytes) {
		r.Records, r.Size, r.Codec = recs, record.BatchOverhead+int(most), codec
		return nil
	}
	if err := checkSize(recs, most, codec, cfg.log.MaxBatchBytes, now); err != nil {
		return err
	}
	p.encode(r, recs, codec, now)
	return nil
}

// sizeOf is what a batch of records takes before compression at most.
func sizeOf(recs []Record) int64 {
	most := int64(record.BatchOverhead)
	for i := range recs {
		most += mostSize(&recs[i])
	}
	return most
}

// mostSize is what a record takes before compression at most.
func mostSize(rec *Record) int64 { return record.SizeBound(rec.Key, rec.Value, rec.Headers) }

// checkSize refuses records of which is known, before they are encoded, that their
// batch cannot be stored, or cannot be read: readers hold it in memory, inflated,
// and refuse more than maxBatchLimit. most is what the records take at most.
func checkSize(recs []Record, most int64, codec record.Codec, limit int, now int64) error {
	bound := int64(maxBatchLimit)
	if codec == record.None {
		bound = int64(limit) - record.BatchOverhead
	}
	if most <= bound {
		return nil
	}
	size := int64(0)
	first := timestamp(&recs[0], now)
	for i := range recs {
		rec := &recs[i]
		size += record.RecordSize(i, timestamp(rec, now)-first, rec.Key, rec.Value, rec.Headers)
	}
	switch {
	case size <= bound:
		return nil
	case codec == record.None:
		return &TooLargeError{Size: clip(size + record.BatchOverhead), Limit: limit}
	}
	return &inflatedError{TooLargeError{Size: clip(size), Limit: maxBatchLimit}}
}

// clip makes a size an int where that has 32 bits: records may share their bytes
// and be more than the address space holds.
func clip(size int64) int { return int(min(size, math.MaxInt)) }

// inflatedError is the *TooLargeError of records that may well be stored in less
// than max.message.bytes, and take too much before they are compressed.
type inflatedError struct{ TooLargeError }

func (e *inflatedError) Error() string {
	return fmt.Sprintf("records of %d bytes before compression are more than the %d of a batch that can be read", e.Size, e.Limit)
}

func (e *inflatedError) Unwrap() error { return &e.TooLargeError }

// timestamp is the one that a record is stored with.
func timestamp(rec *Record, now int64) int64 {
	if rec.Timestamp == 0 {
		return now
	}
	return rec.Timestamp
}

var builders = sync.Pool{New: func() any { return new(record.Builder) }}

// encode makes the batch of a request here.
func (p *Partition) encode(r *request, recs []Record, codec record.Codec, now int64) {
	b := builders.Get().(*record.Builder)
	defer builders.Put(b)
	b.Reset(r.buf[:0], 0, record.BatchOptions{Codec: codec})
	for i := range recs {
		rec := &recs[i]
		b.Add(timestamp(rec, now), rec.Key, rec.Value, rec.Headers)
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
	var in pass
	if err == nil && p.hold.Load() != nil {
		in, err = p.enter(ctx, sizeOf(recs))
	}
	if err == nil {
		if err = p.prepare(r, recs, how); err != nil {
			in.entered()
		}
	}
	if err != nil {
		r.free()
		return nil, err
	}
	p.handOver(r, in)
	return r, nil
}

// await waits for what was sent. When the context ends first, the request is taken
// back if that can still be done.
func (p *Partition) await(ctx context.Context, r *request) (Offset, error) {
	select {
	case <-r.acked:
	default:
		turn := lend(ctx)
		select {
		case <-r.acked:
			turn.back()
		case <-ctx.Done():
			turn.back()
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
