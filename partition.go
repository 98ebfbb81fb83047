package varve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// Partition is one partition of a topic: the unit of order.
type Partition struct {
	topic  *Topic
	index  int32
	log    *partition.Log // nil when broken
	broken error          // why it could not be opened
	opened Offset         // the log end it was opened with

	hold atomic.Pointer[hold] // nil: no group keeps publishers back; see Alter
}

// Topic is the topic it belongs to.
func (p *Partition) Topic() *Topic { return p.topic }

// Index is its number in the topic.
func (p *Partition) Index() int32 { return p.index }

// Err is nil, or why the partition takes no publishes: it could not be opened, its
// disk failed it (ErrReadOnly), or the engine is closed.
func (p *Partition) Err() error {
	if p.broken != nil {
		return p.broken
	}
	return p.log.Failed()
}

// Publish appends records as one batch, all or nothing, and returns the offset of
// the first, once they are acknowledged at the topic's durability. The records
// must not change until then. After an error nothing is stored, but for a
// *MaybeStoredError, when that is not known: the context ended while the records
// were on their way, or the disk failed.
func (p *Partition) Publish(ctx context.Context, recs ...Record) (Offset, error) {
	how := publishing{expect: -1}
	if len(recs) == 1 {
		return p.publishOne(ctx, &recs[0], how)
	}
	return p.publish(ctx, p.topic.engine.requests.get(), recs, how)
}

// PublishIf is Publish, on condition that the first record gets the offset next:
// a *ConflictError says which one it would get, and nothing was stored. On a topic of level
// fsync what is in front of that is durable by then.
func (p *Partition) PublishIf(ctx context.Context, next Offset, recs ...Record) (Offset, error) {
	if next < 0 {
		return -1, p.outOfRange(next)
	}
	return p.publish(ctx, p.topic.engine.requests.get(), recs, publishing{expect: next})
}

func (p *Partition) outOfRange(off Offset) error {
	return &OutOfRangeError{Asked: off, Start: p.Start(), End: p.End()}
}

// PublishBatch appends a finished record batch (Kafka's format v2) and returns
// its first offset. It is stored as it came, but for base offset, leader epoch
// and what the topic's configuration asks for: the time of the append, another
// codec. It is checked first, record by record; a batch that does not say what it
// holds is an error and nothing is stored. raw is copied.
func (p *Partition) PublishBatch(ctx context.Context, raw []byte) (Offset, error) {
	if p.broken != nil {
		return -1, p.broken
	}
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	r := p.topic.engine.requests.get()
	if err := p.adopt(r, raw); err != nil {
		r.free()
		return -1, fmt.Errorf("publish batch to %s: %w", p.log.Name(), err)
	}
	in, err := p.enter(ctx, int64(r.Batch.Size()))
	if err != nil {
		r.free()
		return -1, err
	}
	p.handOver(r, in)
	return p.await(ctx, r)
}

func (p *Partition) handOver(r *request, in pass) {
	defer in.entered()
	p.log.Append(&r.Append)
}

// adopt checks a batch from outside and makes it ready to be stored.
func (p *Partition) adopt(r *request, raw []byte) error {
	b, err := record.Parse(raw)
	if err != nil {
		return err
	}
	cfg := p.topic.config()
	if b.Size() > cfg.log.MaxBatchBytes {
		return &TooLargeError{Size: b.Size(), Limit: cfg.log.MaxBatchBytes}
	}
	facts, err := record.Validate(&b, record.Limits{MaxInflated: maxBatchLimit})
	switch {
	case err != nil:
		return err
	case b.Size() != len(raw):
		return fmt.Errorf("there are %d bytes behind the batch", len(raw)-b.Size())
	case b.Count == 0:
		return ErrNoRecords
	case b.Attributes.Control():
		return errors.New("control batches are the log's own")
	case b.Attributes.LogAppendTime():
		return errors.New("the time of the append is not a publisher's to set")
	}
	now := p.topic.engine.env.Now()
	for _, ts := range []int64{facts.MinTimestamp, facts.MaxTimestamp} {
		if why := cfg.checkTime(ts, now); why != "" {
			return errors.New(why)
		}
	}
	if !cfg.fromClient && b.Attributes.Codec() != cfg.codec {
		r.buf, err = recode(r.buf[:0], &b, cfg.codec)
		if err != nil {
			return err
		}
	} else {
		r.buf = append(r.buf[:0], raw...)
		if b.MaxTimestamp != facts.MaxTimestamp {
			record.SetMaxTimestamp(r.buf, facts.MaxTimestamp)
		}
	}
	if r.batch, err = record.Parse(r.buf); err != nil {
		return err
	}
	r.Batch, r.Expect = &r.batch, -1
	return nil
}

// recode makes the same batch with another codec.
func recode(dst []byte, b *record.Batch, codec record.Codec) ([]byte, error) {
	payload, err := b.Payload(nil, maxBatchLimit)
	if err != nil {
		return nil, err
	}
	build := builders.Get().(*record.Builder)
	defer builders.Put(build)
	build.Reset(dst, 0, record.BatchOptions{
		Codec: codec, HasProducer: b.ProducerID >= 0, ProducerID: b.ProducerID, ProducerEpoch: b.ProducerEpoch,
		BaseSequence: b.BaseSequence, Transactional: b.Attributes.Transactional(),
	})
	it := b.Records(payload)
	var rec Record
	for it.Next(&rec) {
		build.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if size := build.Size() - record.BatchOverhead; size > maxBatchLimit { // its deltas may take more than they did
		return nil, &inflatedError{TooLargeError{Size: size, Limit: maxBatchLimit}}
	}
	return build.Finish(), nil
}

// Start is the log start offset: the first that can be read.
func (p *Partition) Start() Offset { return p.offset((*partition.Log).Start) }

// End is the published end: the first offset that readers may not see yet.
func (p *Partition) End() Offset { return p.offset((*partition.Log).End) }

// DurableEnd is the first offset that a power cut could take.
func (p *Partition) DurableEnd() Offset { return p.offset((*partition.Log).DurableEnd) }

// WaitDurable returns nil when everything below end is on stable storage, which it
// asks for, on every level: a power cut cannot take it any more. An end above LogEnd
// is an *OutOfRangeError.
func (p *Partition) WaitDurable(ctx context.Context, end Offset) error {
	if p.broken != nil {
		return p.broken
	}
	defer lend(ctx).back()
	if err := p.log.WaitDurable(ctx, end); err != nil {
		return fmt.Errorf("wait for offset %d of %s to be durable: %w", end, p.log.Name(), err)
	}
	return nil
}

// LogEnd is the offset that the next record gets. It goes back where a disk refuses
// records of which nobody was told yet, on a topic of level fsync.
func (p *Partition) LogEnd() Offset { return p.offset((*partition.Log).LogEnd) }

// offset is one of the log's, 0 where the partition could not be opened.
func (p *Partition) offset(of func(*partition.Log) Offset) Offset {
	if p.log == nil {
		return 0
	}
	return of(p.log)
}

// Trim drops every record below before, durably, and returns the log start, which
// is above before where more was gone already. Disk space comes back with whole
// segments.
func (p *Partition) Trim(before Offset) (Offset, error) {
	if p.broken != nil {
		return 0, p.broken
	}
	start, err := p.log.Trim(before)
	p.wakeHeld()
	if err != nil {
		return start, fmt.Errorf("trim %s: %w", p.log.Name(), err)
	}
	return start, nil
}

// OffsetFor returns the offset of the first record that is dated t or later, End
// where there is none. Timestamps need not rise with offsets: it is the lowest
// such offset. Records without a timestamp are passed over.
func (p *Partition) OffsetFor(ctx context.Context, t time.Time) (Offset, error) {
	return p.lookUp(ctx, t, func(ms int64) (Offset, bool, error) { return p.log.FindTime(ms, maxBatchLimit) })
}

// lookUp is OffsetFor, with the way to find a time in the log.
func (p *Partition) lookUp(ctx context.Context, t time.Time, find func(ms int64) (Offset, bool, error)) (Offset, error) {
	if p.broken != nil {
		return 0, p.broken
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	end := p.End()
	ms, ok := milliseconds(t)
	if !ok {
		return end, nil // later than any record can be
	}
	off, found, err := find(ms)
	if err != nil {
		return 0, fmt.Errorf("look up time in %s: %w", p.log.Name(), err)
	}
	if !found {
		return end, nil
	}
	return off, nil
}

// milliseconds is the first whole millisecond that is not before t; false when it
// is beyond what a timestamp can say. A time before all of them is the first.
func milliseconds(t time.Time) (ms int64, ok bool) {
	const lastSec, lastNs = math.MaxInt64 / 1000, math.MaxInt64 % 1000 * 1e6
	sec, ns := t.Unix(), int64(t.Nanosecond())
	switch {
	case sec > lastSec || sec == lastSec && ns > lastNs:
		return 0, false
	case sec < -lastSec-1 || sec == -lastSec-1 && ns < 1e9-lastNs-1e6:
		return math.MinInt64, true
	}
	ms = t.UnixMilli()
	if ns%1e6 != 0 {
		ms++
	}
	return ms, true
}

// PartitionStats is a partition taken stock of.
type PartitionStats struct {
	Index int32
	Err   error // as Partition.Err
	partition.Stats
}

// PartitionSummary is a partition in a few figures.
type PartitionSummary = partition.Summary

// Summary is what there is to say in a few figures, all zeros where the partition could
// not be opened. It takes no lock and allocates nothing. Counters count since the engine
// was opened.
func (p *Partition) Summary() PartitionSummary {
	if p.log == nil {
		return PartitionSummary{}
	}
	return p.log.Summary()
}

// Opened says whether it could be opened. If not, Err says why.
func (p *Partition) Opened() bool { return p.broken == nil }

// SegmentStats is one segment of a partition.
type SegmentStats = partition.SegmentStats

// Stats takes stock. The figures are not of one instant; counters count since the
// engine was opened, so that rates are differences over time.
func (p *Partition) Stats() PartitionStats {
	s := PartitionStats{Index: p.index, Err: p.Err()}
	if p.log != nil {
		s.Stats = p.log.Stats()
	}
	return s
}
