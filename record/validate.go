package record

import "sync"

// Limits bound what a batch from outside may cost. The zero value is sound.
type Limits struct {
	MaxInflated int // bytes the records may inflate to; 0: DefaultMaxInflated
}

// Facts are what Validate learns from the records of a batch.
type Facts struct {
	MaxTimestamp       int64 // true one, whatever the header says
	MaxTimestampOffset int32 // offset delta of the first record that has it
	MinTimestamp       int64 // of those that have one; NoTimestamp when none has
	NullKeys           int   // index of the first record without a key, or -1
	Inflated           int   // bytes of the records, uncompressed
}

// validateBuffers keeps memory for inflating; larger ones go to the collector.
var validateBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledBuffer = 1 << 20

// Validate checks what a broker checks of a batch that a client made: the
// checksum, a known codec that inflates within lim, every record, a count and
// offset deltas that are dense from 0 on, and a producer's fields that make
// sense together. The rules are those of Kafka's LogValidator. A batch that
// breaks one is a *FormatError, or matches ErrTooLarge.
//
// What depends on the topic or on who sends is the caller's to judge: control
// batches, LogAppendTime set by a producer, null keys, timestamps, sizes,
// which codecs. MaxTimestamp in the header may be wrong: see SetMaxTimestamp.
func Validate(b *Batch, lim Limits) (Facts, error) {
	if err := b.Verify(); err != nil {
		return Facts{}, err
	}
	if err := b.checkClaims(); err != nil {
		return Facts{}, err
	}
	buf := validateBuffers.Get().(*[]byte)
	defer validateBuffers.Put(buf)
	payload, err := b.Payload(*buf, lim.MaxInflated)
	if err != nil {
		return Facts{}, err
	}
	if b.Attributes.Codec() != None && cap(payload) <= maxPooledBuffer {
		*buf = payload
	}
	return b.facts(payload)
}

// checkClaims checks the header fields that have to agree with one another.
func (b *Batch) checkClaims() error {
	const none = -1
	hasProducer := b.ProducerID != none
	switch {
	case b.Count == 0:
		return formatErrorf(posCount, "no records")
	case b.LastOffsetDelta != b.Count-1:
		return formatErrorf(posLastOffsetDelta, "last offset delta %d for %d records", b.LastOffsetDelta, b.Count)
	case b.ProducerID < none:
		return formatErrorf(posProducerID, "negative producer id %d", b.ProducerID)
	case hasProducer && b.ProducerEpoch < 0:
		return formatErrorf(posProducerEpoch, "producer %d with epoch %d", b.ProducerID, b.ProducerEpoch)
	case hasProducer && b.BaseSequence < 0 && !b.Attributes.Control():
		return formatErrorf(posBaseSequence, "producer %d with sequence %d", b.ProducerID, b.BaseSequence)
	case !hasProducer && b.Attributes.Transactional():
		return formatErrorf(posProducerID, "transaction without a producer id")
	}
	return nil
}

func (b *Batch) facts(payload []byte) (Facts, error) {
	f := Facts{NullKeys: -1, MinTimestamp: NoTimestamp, Inflated: len(payload)}
	it := b.Records(payload)
	it.arena.discard = true
	var r Record
	// Count offset deltas that rise from 0 to Count-1 at most leave no gap.
	for i := int32(0); it.Next(&r); i++ {
		if i == 0 || r.Timestamp > f.MaxTimestamp {
			f.MaxTimestamp, f.MaxTimestampOffset = r.Timestamp, i
		}
		if f.MinTimestamp == NoTimestamp || r.Timestamp < f.MinTimestamp && r.Timestamp != NoTimestamp {
			f.MinTimestamp = r.Timestamp
		}
		if r.Key == nil && f.NullKeys < 0 {
			f.NullKeys = int(i)
		}
	}
	if it.err != nil {
		return Facts{}, it.err
	}
	return f, nil
}
