package varve

import (
	"context"
	"fmt"
	"time"
)

// Start says where reading begins. The zero Start is Earliest.
type Start struct {
	kind   startKind
	offset Offset
	time   time.Time
	count  int64
	ago    time.Duration
}

type startKind uint8

const (
	fromEarliest startKind = iota
	fromLatest
	fromOffset
	fromTime
	fromLast
	fromAgo
)

// Earliest is the first record there is.
func Earliest() Start { return Start{} }

// Latest is the published end: the next record that is published.
func Latest() Start { return Start{kind: fromLatest} }

// At is an offset. It may be the published end; a reader above it, or below the
// log start, is refused with an *OutOfRangeError.
func At(off Offset) Start { return Start{kind: fromOffset, offset: off} }

// AtTime is the first record dated t or later, the published end where there is
// none.
func AtTime(t time.Time) Start { return Start{kind: fromTime, time: t} }

// Last is n offsets before the published end, or the first record where there are
// fewer.
func Last(n int64) Start { return Start{kind: fromLast, count: n} }

// Ago is AtTime of so long before reading begins, by the engine's clock.
func Ago(d time.Duration) Start { return Start{kind: fromAgo, ago: d} }

func (s Start) String() string {
	switch s.kind {
	case fromLatest:
		return "latest"
	case fromOffset:
		return fmt.Sprintf("offset %d", s.offset)
	case fromTime:
		return s.time.UTC().Format(time.RFC3339Nano)
	case fromLast:
		return fmt.Sprintf("the last %d", s.count)
	case fromAgo:
		return fmt.Sprintf("%v ago", s.ago)
	}
	return "earliest"
}

// resolve finds the offset that s stands for in a partition now.
func (s Start) resolve(ctx context.Context, p *Partition) (Offset, error) {
	if p.broken != nil {
		return 0, p.broken
	}
	if p.log.Closed() {
		return 0, ErrClosed
	}
	start, end := p.Start(), p.End()
	switch s.kind {
	case fromLatest:
		return end, nil
	case fromOffset:
		if s.offset < start || s.offset > end {
			return 0, fmt.Errorf("read %s: %w", p.log.Name(), p.outOfRange(s.offset))
		}
		return s.offset, nil
	case fromTime:
		return p.OffsetFor(ctx, s.time)
	case fromAgo:
		return p.OffsetFor(ctx, p.topic.engine.opt.Clock().Add(-s.ago))
	case fromLast:
		if s.count < 0 {
			return 0, fmt.Errorf("read %s: the last %d records", p.log.Name(), s.count)
		}
		if s.count > int64(end-start) {
			return start, nil
		}
		return end - Offset(s.count), nil
	}
	return start, nil
}
