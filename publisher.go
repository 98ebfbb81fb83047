package varve

import (
	"context"
	"errors"
	"fmt"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
)

// Offset is the place of a record in its partition.
type Offset = record.Offset

// Record is what is published and what is read. When publishing, a timestamp of 0
// becomes the time of the append; Offset is not looked at, nor is Partition but by a
// publisher with ByPartition.
type Record = record.Record

// Header is one header of a record.
type Header = record.Header

// Place is where a record stands.
type Place = partition.Place

// PublisherOptions are how a publisher works. The zero value follows the topic.
type PublisherOptions struct {
	// Partitioner chooses the partition for records with a key. Nil: Murmur2.
	// Records without a key go to one partition for a while, then to the next.
	Partitioner Partitioner
	// ByPartition sends each record to the partition that its field Partition
	// names, whatever its key.
	ByPartition bool
	// Codec compresses batches, unless the topic's compression.type names one:
	// none, gzip, snappy, lz4, zstd. "": none.
	Codec string
	// Ack is when a publish is acknowledged. 0: the topic's durability. It changes
	// when the caller is told, never what readers see.
	Ack Durability
	// MaxInFlight bounds the bytes that PublishAsync has taken and not acknowledged:
	// keys, values, headers, and 512 bytes a record, more than it costs in memory beside
	// them. 0: 32 MiB.
	MaxInFlight int
}

const (
	defaultMaxInFlight = 32 << 20
	inFlightCost       = 512 // of a record beside its content
)

// Publisher publishes to the partitions of a topic.
//
//	field       guarded by    written by
//	topic, opt, codec, err   (immutable)   newPublisher
//	sticky      atomic        publishes without a key
//	inFlight    its own       PublishAsync and its acknowledgements
type Publisher struct {
	topic *Topic
	opt   PublisherOptions
	codec record.Codec
	err   error // of the options

	sticky   sticky
	inFlight inFlight
}

func newPublisher(t *Topic, o PublisherOptions) *Publisher {
	p := &Publisher{topic: t, opt: o}
	if o.Partitioner == nil {
		p.opt.Partitioner = Murmur2
	}
	if p.inFlight.limit = int64(o.MaxInFlight); o.MaxInFlight <= 0 {
		p.inFlight.limit = defaultMaxInFlight
	}
	if o.Codec != "" {
		p.codec, p.err = record.ParseCodec(o.Codec)
	}
	if o.Ack > Fsync {
		p.err = fmt.Errorf("publisher: there is no durability %d", o.Ack)
	}
	return p
}

// choose picks the partition of a record.
func (p *Publisher) choose(rec *Record) (*Partition, error) {
	if p.err != nil {
		return nil, p.err
	}
	list := p.topic.parts()
	i := 0
	switch {
	case p.opt.ByPartition:
		return p.topic.Partition(int(rec.Partition))
	case len(list) == 1:
	case rec.Key == nil:
		i = p.sticky.choose(int(mostSize(rec)), len(list))
	default:
		if i = p.opt.Partitioner(rec.Key, len(list)); i < 0 || i >= len(list) {
			return nil, fmt.Errorf("partitioner chose partition %d of %d: %w", i, len(list), ErrNoPartition)
		}
	}
	return list[i], nil
}

// how is how this publisher publishes.
func (p *Publisher) how() publishing {
	return publishing{codec: p.codec, ack: p.opt.Ack, expect: -1}
}

// weight is the bytes of a record's content.
func weight(rec *Record) int {
	n := len(rec.Key) + len(rec.Value)
	for i := range rec.Headers {
		n += len(rec.Headers[i].Key) + len(rec.Headers[i].Value)
	}
	return n
}

// Publish appends one record and returns where it stands, once it is acknowledged.
// Its bytes must not change until then.
func (p *Publisher) Publish(ctx context.Context, rec Record) (Place, error) {
	part, err := p.choose(&rec)
	if err != nil {
		return Place{Offset: -1}, err
	}
	off, err := part.publishOne(ctx, &rec, p.how())
	return Place{Partition: part.index, Offset: off}, err
}

// PublishAll appends records, each to its partition. What goes to one partition
// is one batch: all of it or nothing. The places are in the order of the records;
// after an error, those that were not stored, or only maybe, have offset -1. Where
// a partition cannot be chosen nothing is sent, and the places are nil.
func (p *Publisher) PublishAll(ctx context.Context, recs []Record) ([]Place, error) {
	if len(recs) == 0 {
		return nil, ErrNoRecords
	}
	places := make([]Place, len(recs))
	groups := make(map[*Partition][]int)
	var order []*Partition
	for i := range recs {
		part, err := p.choose(&recs[i])
		if err != nil {
			return nil, err
		}
		if groups[part] == nil {
			order = append(order, part)
		}
		groups[part] = append(groups[part], i)
		places[i] = Place{Partition: part.index, Offset: -1}
	}
	sent := make([]*request, len(order))
	errs := make([]error, len(order))
	for g, part := range order {
		batch := make([]Record, 0, len(groups[part]))
		for _, i := range groups[part] {
			batch = append(batch, recs[i])
		}
		sent[g], errs[g] = part.send(ctx, p.topic.engine.requests.get(), batch, p.how())
	}
	for g, part := range order {
		if errs[g] != nil {
			continue
		}
		var base Offset
		if base, errs[g] = part.await(ctx, sent[g]); errs[g] != nil {
			continue
		}
		for n, i := range groups[part] {
			places[i].Offset = base + Offset(n)
		}
	}
	return places, errors.Join(errs...)
}

// PublishAsync appends one record without waiting for it. Records that follow
// each other closely share a batch and a sync, and keep their order in their
// partition. It blocks only while MaxInFlight is reached, or a group holds the partition
// (hold.full=block); its error then is that of the context, and nothing was taken. The record is copied: its bytes are the
// caller's again when it returns.
//
// done, unless nil, is called once, from a goroutine of the engine or from this
// one before it returns; it must not block. It may be the goroutine of another
// publish: where done panics, that is whose panic it is, and should it recover,
// everybody else is served as before. What cannot be published, a record that is
// too large for instance, is told to done and to Flush alike.
func (p *Publisher) PublishAsync(ctx context.Context, rec Record, done func(Place, error)) error {
	part, err := p.choose(&rec)
	if err != nil {
		return err
	}
	var in pass
	if part.hold.Load() != nil {
		if in, err = part.enter(ctx, oneSize(&rec)); err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			refused := partition.Single{Partition: part.index, Done: done, Account: &p.inFlight}
			refused.Tell(-1, err)
			return nil
		}
		defer in.entered()
	}
	bytes := int64(weight(&rec)) + inFlightCost
	if err := p.inFlight.reserve(ctx, bytes); err != nil {
		return err
	}
	part.sendAsync(&rec, p.how(), &partition.Single{Partition: part.index, Done: done, Account: &p.inFlight, Weight: bytes})
	return nil
}

// Flush waits until everything that PublishAsync has taken is acknowledged or has
// failed, and returns the first failure since the last Flush.
func (p *Publisher) Flush(ctx context.Context) error { return p.inFlight.flush(ctx) }
