package segment

import (
	"errors"
	"io"
	"io/fs"
	"math"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// Chunk is a run of whole batches as stored, each checked in this call.
type Chunk struct {
	Data []byte        // empty when there is nothing from the offset asked for
	Pos  record.Pos    // position behind the last batch
	Next record.Offset // offset behind the last batch
}

// minRead is the least that Read asks of the disk at once.
const minRead = 4 << 10

// Read returns batches, the first of which holds from or is the first behind
// it, up to but not including the one that starts at end: about most bytes of
// them, but one batch is returned whole however large it is. It takes no lock
// when the segment's file is open. buf is used for the answer where that fits
// in it.
//
// at is where the caller's last chunk ended, if it goes on from there, or
// negative: then the index is asked.
//
// Damage in front of from is passed over; damage at it is a *CorruptError.
func (s *Segment) Read(buf []byte, most int, from, end record.Offset, at record.Pos) (Chunk, error) {
	h, err := s.pin()
	if err != nil {
		return Chunk{}, s.missing(err)
	}
	defer h.unpin()
	r := reading{s: s, h: h, buf: buf[:0], most: int64(max(most, minRead)), from: from, end: end, pos: max(at, 0), limit: record.Pos(s.visible.Load())}
	r.chain = s.chain(s.headsOf(h.file))
	switch {
	case at < 0 && from <= s.base: // who reads on from the segment before needs no index
	case at < 0:
		if e := s.lookup(h, from); e.Pos < r.limit { // else it is of another file
			r.pos = e.Pos
			r.chain.startAt(e)
		}
	default:
		r.chain.Next = from
	}
	return r.run()
}

// chain is what the segment's batches must keep to, from its first one on.
func (s *Segment) chain(x *heads) Chain {
	dense := s.dense.Load()
	return Chain{
		Next: s.base, Until: s.Next(), Exact: dense, Dense: dense, heads: x,
		Epoch: record.Epoch(s.firstEpoch.Load()), Last: record.Epoch(s.lastEpoch.Load()), Bound: true,
	}
}

// startAt has the chain begin with the batch of an index entry, of which only the
// last offset is known. The start of the segment is no batch of an entry.
func (c *Chain) startAt(e index.Entry) {
	if e.Pos > 0 {
		c.Exact, c.Ends = false, e.Offset
	}
}

// reading is one call of Read.
type reading struct {
	s         *Segment
	h         *handle
	buf       []byte
	most      int64
	from, end record.Offset
	pos       record.Pos
	limit     record.Pos
	chain     Chain
}

func (r *reading) run() (Chunk, error) {
	for r.pos < r.limit {
		data, err := r.fetch()
		if err != nil {
			return Chunk{}, err
		}
		chunk, used, why, done := r.take(data)
		if len(chunk.Data) > 0 || done {
			return chunk, nil
		}
		r.pos += record.Pos(used)
		if why == "" {
			if used == 0 {
				why = "file is shorter than it was"
			} else {
				continue
			}
		}
		if err := r.pass(why); err != nil {
			return Chunk{}, err
		}
	}
	return Chunk{}, nil
}

// fetch reads at pos as much as the buffer takes, or as the first batch needs.
func (r *reading) fetch() ([]byte, error) {
	left := int64(r.limit - r.pos)
	data, err := r.readAt(min(r.most, left))
	if err != nil {
		return nil, err
	}
	size, err := record.PeekSize(data)
	if err != nil || size <= int64(len(data)) || size > left {
		return data, nil // take judges
	}
	if size > trusted {
		if ok, err := checks(r.h.file, r.pos, size); err != nil || !ok {
			return data, err
		}
	}
	return r.readAt(size)
}

func (r *reading) readAt(n int64) ([]byte, error) {
	if int64(cap(r.buf)) < n {
		r.buf = make([]byte, n)
	}
	m, err := r.h.file.ReadAt(r.buf[:n], int64(r.pos))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r.buf[:m], nil
}

// take checks the batches of data. It returns those from the one that holds
// from on, how many bytes of data it used up before them, and why it stopped
// where that was damage.
func (r *reading) take(data []byte) (chunk Chunk, used int, why string, done bool) {
	start, off, next := -1, 0, r.from
	for off < len(data) {
		b, err := record.Parse(data[off:])
		if errors.Is(err, record.ErrShort) {
			if size, perr := record.PeekSize(data[off:]); perr == nil && size > int64(r.limit-r.pos)-int64(off) {
				why = "length past the end of the file"
			} else if off == 0 && perr == nil && size > trusted {
				why = "crc mismatch" // or it would have been read as a whole
			}
			break
		}
		if err == nil {
			err = b.Verify()
		}
		if err != nil {
			why = reason(err)
		} else {
			why = r.chain.acceptAt(&b, r.pos+record.Pos(off), r.h.file, r.limit)
		}
		if why != "" {
			break
		}
		if b.BaseOffset >= r.end {
			done = true
			break
		}
		next = b.NextOffset()
		if start < 0 && b.LastOffset() >= r.from {
			start = off
		}
		off += b.Size()
	}
	if start >= 0 && off > start {
		return Chunk{Data: data[start:off:off], Pos: r.pos + record.Pos(off), Next: next}, off, "", false
	}
	return Chunk{}, off, why, done
}

// pass deals with damage at pos: it goes on behind it when that is still in
// front of what was asked for, and returns the gap otherwise.
func (r *reading) pass(why string) error {
	if r.chain.Ends > 0 {
		// The index led here, and what is here is not what it says. Start from
		// the beginning, so that a gap is reported from its true first offset.
		r.pos, r.chain = 0, r.s.chain(r.chain.heads)
		return nil
	}
	w := r.s.walk(r.h, r.limit)
	w.Chain = r.chain
	hole, err := w.resync(r.pos, why)
	if err != nil {
		return err
	}
	if hole.To > r.from {
		return &CorruptError{Path: r.s.Path(), At: hole.At, Offset: hole.From - 1,
			From: hole.From, To: max(min(hole.To, r.end), hole.From+1), Reason: why}
	}
	r.pos = hole.Resume
	r.chain.goOn(hole.To)
	return nil
}

// walk is one over the segment from its start, up to a position, with the help of
// its index. For a caller that has h pinned.
func (s *Segment) walk(h *handle, end record.Pos) Walk {
	next := s.Next() // before the size, for it is written before it
	return Walk{
		File: h.file, End: end, Chain: s.chain(s.headsOf(h.file)), Next: next, partial: s.Size() != end,
		entry: func(after record.Pos) (index.Entry, bool) { return s.entryAfter(h, after) },
	}
}

// entryAfter finds the first index entry behind a position. The index is
// searched by offset, so this is a bisection over offsets.
func (s *Segment) entryAfter(h *handle, pos record.Pos) (index.Entry, bool) {
	lo, hi := s.base, s.Next()
	if e := s.lookup(h, math.MaxInt64); e.Pos <= pos {
		return index.Entry{}, false
	}
	for lo < hi { // the smallest offset whose entry lies behind pos
		mid := lo + (hi-lo)/2
		if s.lookup(h, mid).Pos > pos {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	e := s.lookup(h, lo)
	return e, e.Pos > pos
}

// missing turns the error of opening a log file that is not there into the gap
// it leaves.
func (s *Segment) missing(err error) error {
	switch {
	case s.removed.Load():
		return errRemoved
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return &CorruptError{Path: s.Path(), Offset: s.base - 1, From: s.base, To: max(s.Next(), s.base+1), Reason: "file is missing"}
}

// FindTime returns the first offset in [from, end) whose record has a timestamp
// at or after ts; false when there is none. Damage on the way is passed over.
func (s *Segment) FindTime(ts int64, from, end record.Offset, maxInflated int) (record.Offset, bool, error) {
	h, err := s.pin()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, false, nil
		}
		return 0, false, err
	}
	defer h.unpin()
	start := s.lookupTime(h, ts)
	if e := s.lookup(h, from); e.Pos > start.Pos {
		start = e
	}
	var found record.Offset = -1
	astray := false
	w := s.walk(h, record.Pos(s.visible.Load()))
	w.From = start.Pos
	w.Chain.startAt(start)
	w.Batch = func(b *record.Batch, _ record.Pos) bool {
		if b.BaseOffset >= end {
			return false
		}
		if b.MaxTimestamp < ts || b.LastOffset() < from {
			return true
		}
		found = firstAtOrAfter(b, ts, from, maxInflated)
		return found < 0
	}
	w.Hole = func(x Hole) bool {
		astray = start.Pos > 0 && x.At == start.Pos
		return !astray
	}
	err = w.Run()
	if err == nil && astray { // what is there is not what the index says
		w.From, w.Hole, w.Chain = 0, nil, s.chain(w.Chain.heads)
		err = w.Run()
	}
	if err != nil {
		return 0, false, err
	}
	return found, found >= 0 && found < end, nil
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

// ReadRaw reads bytes of the log file as they stand there, unchecked: for a copy of
// what the appender has just written.
func (s *Segment) ReadRaw(buf []byte, pos record.Pos) error {
	h, err := s.pin()
	if err != nil {
		return err
	}
	defer h.unpin()
	_, err = h.file.ReadAt(buf, int64(pos))
	return err
}
