package segment

import (
	"fmt"
	"io"
	"math"

	"github.com/varvelog/varve/record"
)

// Head is what a batch header says of the batch's place: base offset and leader epoch
// are not under its checksum, so that one flipped bit there leaves a batch that checks,
// and only its neighbours can tell.
type Head struct {
	Base  record.Offset
	Count record.Offset // of the offsets it takes
	Epoch record.Epoch
}

// Ahead is how many batches behind one are asked about it. With two, one of them being
// damaged itself does not put the blame on the one in front.
const Ahead = 2

// farthest is how far two batches of a segment may be apart, but for what some
// compactions of Kafka made (KAFKA-6264): where one bit explains more, it is a flip.
const farthest = math.MaxInt32

// TooHigh says why it is the base offset of b that is wrong where b reaches into the
// batches behind it or into the next file, in a log with gaps whose next offset is at
// least next; "" when it is not. The next file begins at until; 0: that is not known.
func TooHigh(b *record.Batch, next, until record.Offset, behind []Head) string {
	if b.BaseOffset <= next {
		return ""
	}
	end, count := b.NextOffset(), record.Offset(b.LastOffsetDelta)+1
	if until > 0 && end > until && IsFlipped(b.BaseOffset, next, until-count) {
		return fmt.Sprintf("base offset %d is too high: the next file begins at %d", b.BaseOffset, until)
	}
	if len(behind) == 0 {
		if b.BaseOffset-next > farthest && IsFlipped(b.BaseOffset, next, next+farthest) {
			return fmt.Sprintf("base offset %d is too high: %d is expected", b.BaseOffset, next)
		}
		return ""
	}
	first := behind[0].Base
	if first < next+count || first >= end || !blamed(b.BaseOffset, count, next, end, until, behind) {
		return ""
	}
	return fmt.Sprintf("base offset %d is too high: the batch behind begins at %d", b.BaseOffset, first)
}

// blamed decides between a batch and the one behind it that cannot both be right: by
// which of them is one bit away from what could be; and where both are, for the one
// behind if one more behind it fits the first, and it does not stand where the first
// would if that stood at next.
func blamed(base, count, next, end, until record.Offset, behind []Head) bool {
	first, most := behind[0], until
	if len(behind) == Ahead {
		most = behind[1].Base
	} else if until == 0 {
		return true
	}
	itself := IsFlipped(base, next, first.Base-count)
	other := IsFlipped(first.Base, end, most-first.Count)
	if itself != other {
		return itself
	}
	return first.Base == next+count || len(behind) < Ahead || behind[1].Base < end
}

// IsFlipped says whether an offset is one bit away from one in [from, to].
func IsFlipped(off, from, to record.Offset) bool {
	for bit := range 63 {
		if was := off ^ 1<<bit; was >= from && was <= to {
			return true
		}
	}
	return false
}

// headsBehind are the heads of the batches of a file from a position on, as far as they
// look like batches.
func headsBehind(file io.ReaderAt, at, end record.Pos) []Head {
	var heads []Head
	for len(heads) < Ahead {
		raw := make([]byte, record.BatchOverhead)
		if n, _ := file.ReadAt(raw, int64(at)); n < len(raw) {
			break // an error comes back when the batch is read
		}
		size, err := record.PeekSize(raw)
		if err != nil || size > int64(end-at) {
			break
		}
		heads = append(heads, HeadOf(raw))
		at += record.Pos(size)
	}
	return heads
}

// HeadOf is the head of the batch that raw begins with, of which it has at least the
// header.
func HeadOf(raw []byte) Head {
	return Head{Base: baseOffset(raw), Count: offsets(raw), Epoch: epochOf(raw)}
}
