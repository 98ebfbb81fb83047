package record

import (
	"errors"
	"fmt"
	"math"
)

// DefaultMaxInflated bounds what the records of one batch may inflate to, in
// bytes, where the caller names no bound.
const DefaultMaxInflated = 64 << 20

// mostInflated is the largest bound there is: the 2 GiB of the format, less
// what decoders need beyond a limit, so that sizes stay an int on 32 bits.
const mostInflated = math.MaxInt32 - 1<<20

// Payload returns the records section of the batch, inflated. Without a codec
// that is a part of the batch itself and dst is not touched; otherwise it
// starts at dst[:0], and in new memory when dst is too small.
//
// max bounds the result in bytes (0: DefaultMaxInflated; 2 GiB at most); past
// it the error matches ErrTooLarge. What does not inflate is a *FormatError.
// Memory follows the bytes that are there: a size that the compressed bytes
// claim is believed up to what they could make.
//
// Streams read as Kafka's Java client reads them: gzip members and zstd
// frames that follow one another are one stream, snappy may be raw or framed,
// an lz4 frame stands alone. Where Java leaves bytes behind the stream
// unread, they are an error here.
func (b *Batch) Payload(dst []byte, max int) ([]byte, error) {
	if max <= 0 {
		max = DefaultMaxInflated
	}
	max = min(max, mostInflated)
	src := b.raw[BatchOverhead:]
	codec := b.Attributes.Codec()
	switch {
	case codec == None && len(src) > max:
		return nil, b.tooLarge(max)
	case codec == None:
		return src, nil
	case !codec.known():
		return nil, formatErrorf(posAttributes, "unknown compression %d", codec)
	case len(src) == 0 && b.Count == 0:
		return src, nil // emptied by compaction
	}
	out, err := inflate(codec, dst[:0], src, max)
	if errors.Is(err, ErrTooLarge) {
		return nil, b.tooLarge(max)
	}
	if err != nil {
		return nil, formatErrorf(BatchOverhead, "inflate %s: %v", codec, err)
	}
	return out, nil
}

func (b *Batch) tooLarge(max int) error {
	return fmt.Errorf("%w: batch at offset %d (compression %s) has more than %d bytes of them",
		ErrTooLarge, b.BaseOffset, b.Attributes.Codec(), max)
}
