package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// BatchOptions says what a Builder writes into a batch's header. The zero
// value is an uncompressed batch of no producer, with the records' own times.
type BatchOptions struct {
	Codec Codec
	Level int // of the codec, on Kafka's scale and clipped to it; 0 is the codec's default

	LogAppendTime bool
	AppendTime    int64 // milliseconds; used with LogAppendTime

	Epoch Epoch

	// HasProducer says that the three fields after it count; without it the
	// batch says "none" (-1) in all three.
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32

	Transactional bool
	Control       bool
}

func (o *BatchOptions) attributes() Attributes {
	a := Attributes(o.Codec) & codecMask
	if o.LogAppendTime {
		a |= flagLogAppendTime
	}
	if o.Transactional {
		a |= flagTransactional
	}
	if o.Control {
		a |= flagControl
	}
	return a
}

// Builder encodes records into a batch. The zero value is ready for Reset,
// and a Builder is made to be reused; it is for one goroutine at a time.
//
// Without a codec the records are written where they will stay, behind room
// for the header. With one they collect in a buffer that the Builder keeps.
type Builder struct {
	opts BatchOptions
	base Offset

	buf   []byte // header room at start, then the records
	start int

	dst     []byte // what a compressed batch will be appended to
	scratch []byte // kept from batch to batch

	count         int
	baseTimestamp int64
	maxTimestamp  int64
}

// Reset starts a batch at offset base that Finish will append to dst. The
// Builder owns dst until then.
func (b *Builder) Reset(dst []byte, base Offset, o BatchOptions) {
	*b = Builder{opts: o, base: base, scratch: b.scratch}
	if o.Codec == None {
		b.buf = dst
	} else {
		b.dst = dst
		b.buf = b.scratch[:0]
	}
	b.start = len(b.buf)
	b.buf = append(b.buf, make([]byte, BatchOverhead)...)
}

// Add appends a record; its offset is one above that of the record before.
// Nothing of the arguments is kept. The first timestamp becomes the batch's
// base, so any int64 comes back as it was.
//
// A batch takes up to 2 GiB: whoever could reach that asks Size and
// RecordSize, or SizeBound, first.
func (b *Builder) Add(timestamp int64, key, value []byte, headers []Header) {
	if b.count == 0 {
		b.baseTimestamp, b.maxTimestamp = timestamp, timestamp
	}
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	timeDelta := timestamp - b.baseTimestamp // wraps, as Kafka's does
	size := int(bodySize(b.count, timeDelta, len(key), len(value), headers))

	total := varintSize(length(size)) + size
	start := len(b.buf)
	b.buf = slices.Grow(b.buf, total)[:start+total]
	p := b.buf[start:]
	i := putVarint(p, 0, length(size))
	p[i] = 0 // attributes: no version uses them
	i = putVarint(p, i+1, zigzag(timeDelta))
	i = putVarint(p, i, length(b.count))
	i = putNullable(p, i, key)
	i = putNullable(p, i, value)
	i = putVarint(p, i, length(len(headers)))
	for k := range headers {
		h := &headers[k]
		i = putVarint(p, i, length(len(h.Key)))
		i += copy(p[i:], h.Key)
		i = putNullable(p, i, h.Value)
	}
	b.count++
}

// Count returns the records added since Reset.
func (b *Builder) Count() int { return b.count }

// Size returns the bytes of the batch so far, as they are before compression.
func (b *Builder) Size() int { return len(b.buf) - b.start }

// Finish completes the batch and returns dst with it appended. Without a
// record there is no batch, and dst comes back as it was. The Builder keeps
// nothing of the result; Reset starts the next batch.
//
// It panics if the batch does not fit the format's 2 GiB: see Add.
func (b *Builder) Finish() []byte {
	out, start := b.buf, b.start
	if b.opts.Codec != None {
		b.scratch = b.buf
		start = len(b.dst)
		out = append(b.dst, make([]byte, BatchOverhead)...)
		if b.count > 0 {
			out = deflate(b.opts.Codec, out, b.buf[BatchOverhead:], b.opts.Level)
		}
	}
	b.buf, b.dst, b.start = nil, nil, 0
	if b.count == 0 {
		return out[:start]
	}
	b.putHeader(out[start:])
	return out
}

func (b *Builder) putHeader(raw []byte) {
	mustFit(int64(len(raw)))
	id, epoch, sequence := int64(-1), int16(-1), int32(-1)
	if b.opts.HasProducer {
		id, epoch, sequence = b.opts.ProducerID, b.opts.ProducerEpoch, b.opts.BaseSequence
	}
	maxTimestamp := b.maxTimestamp
	if b.opts.LogAppendTime {
		maxTimestamp = b.opts.AppendTime
	}
	h := raw[:BatchOverhead]
	binary.BigEndian.PutUint64(h[posBaseOffset:], uint64(b.base))
	binary.BigEndian.PutUint32(h[posLength:], uint32(len(raw)-LogOverhead))
	binary.BigEndian.PutUint32(h[posLeaderEpoch:], uint32(b.opts.Epoch))
	h[posMagic] = magicV2
	binary.BigEndian.PutUint16(h[posAttributes:], uint16(b.opts.attributes()))
	binary.BigEndian.PutUint32(h[posLastOffsetDelta:], uint32(b.count-1))
	binary.BigEndian.PutUint64(h[posBaseTimestamp:], uint64(b.baseTimestamp))
	binary.BigEndian.PutUint64(h[posMaxTimestamp:], uint64(maxTimestamp))
	binary.BigEndian.PutUint64(h[posProducerID:], uint64(id))
	binary.BigEndian.PutUint16(h[posProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(h[posBaseSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(h[posCount:], uint32(b.count))
	putCRC(raw)
}

// mustFit panics for a batch that its length field cannot tell. The caller
// of Add was to see to that, and there is no batch to give back.
func mustFit(size int64) {
	if size > math.MaxInt32 {
		panic(fmt.Sprintf("record: batch of %d bytes does not fit the format", size))
	}
}

func putNullable(p []byte, i int, b []byte) int {
	if b == nil {
		p[i] = zigzagNull
		return i + 1
	}
	i = putVarint(p, i, length(len(b)))
	return i + copy(p[i:], b)
}
