package segment

import (
	"errors"
	"io/fs"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// Found is the record that a lookup by time leads to, with the batch that holds it.
type Found struct {
	Offset record.Offset
	Chunk  // Data is empty when there is none
}

// FindTime finds the first record in [from, end) that has a timestamp at or after
// ts. Damage on the way is passed over.
func (s *Segment) FindTime(ts int64, from, end record.Offset, maxInflated int) (Found, error) {
	h, err := s.pin()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return Found{}, nil
		}
		return Found{}, err
	}
	defer h.unpin()
	q := seeking{ts: ts, from: from, end: end, maxInflated: maxInflated, w: s.walk(h, record.Pos(s.visible.Load()))}
	whole := q.w.Chain
	for _, b := range s.timeStarts(h, &q) {
		q.w.From, q.w.ask, q.w.Chain = b.Pos, b.ask, whole
		q.w.Chain.startAt(b.Entry)
		astray, err := q.run(b.Entry)
		if err != nil || !astray {
			return q.found, err
		}
	}
	return Found{}, nil
}

// seeking is one call of FindTime.
type seeking struct {
	ts          int64
	from, end   record.Offset
	maxInflated int

	w      Walk
	ahead  bool          // the next run begins at the entry behind the one that was looked up
	behind record.Offset // which that has to begin with
	found  Found
}

// timeStarts lists the places to begin at, each for when the one before it is not what
// the index says, or too far.
func (s *Segment) timeStarts(h *handle, q *seeking) []beginning {
	start := beginning{Entry: index.Entry{Offset: s.base - 1}}
	st := s.lookupTime(h, q.ts)
	if q.from > s.base {
		if at := s.lookup(h, q.from); at.Pos > st.Pos { // its batch may hold from
			return []beginning{{Entry: at.Entry}, start}
		}
	}
	ahead, at := s.beginnings(st, q.w.End) // no batch up to that of st reaches ts
	if ahead == nil {
		return []beginning{at, start}
	}
	q.ahead, q.behind = true, st.Offset+1
	return []beginning{*ahead, at, start}
}

// run walks from an entry on. It is astray when there is not what the index says, or
// when something that is looked for may lie in front.
func (q *seeking) run(e index.Entry) (astray bool, err error) {
	ahead := q.ahead
	q.ahead = false
	q.w.Batch = func(b *record.Batch, at record.Pos) bool {
		if astray = ahead && b.BaseOffset > q.behind; astray {
			return false
		}
		ahead = false
		return q.passes(b, at)
	}
	q.w.Hole = func(x Hole) bool {
		astray = e.Pos > 0 && x.At == e.Pos
		return !astray
	}
	err = q.w.Run()
	return astray, err
}

// passes says that what is looked for is behind b.
func (q *seeking) passes(b *record.Batch, at record.Pos) bool {
	if b.BaseOffset >= q.end {
		return false
	}
	if b.MaxTimestamp < q.ts || b.LastOffset() < q.from {
		return true
	}
	off := firstAtOrAfter(b, q.ts, q.from, q.maxInflated)
	if off >= 0 && off < q.end {
		q.found = Found{off, Chunk{Data: b.Bytes(), Pos: at + record.Pos(b.Size()), Next: b.NextOffset()}}
	}
	return off < 0
}

// firstAtOrAfter is the first offset of b at or behind from whose timestamp is
// at or after ts, or -1. A record without a timestamp has none to compare.
func firstAtOrAfter(b *record.Batch, ts int64, from record.Offset, maxInflated int) record.Offset {
	if b.Attributes.Control() {
		return -1
	}
	payload, err := b.Payload(nil, maxInflated)
	if err != nil {
		return -1
	}
	it := b.Records(payload)
	var r record.Record
	for it.Next(&r) {
		if r.Offset >= from && r.Timestamp >= ts && r.Timestamp != record.NoTimestamp {
			return r.Offset
		}
	}
	return -1
}
