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
		r.begin(s.lookup(h, from))
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
	ask       int64 // how much to read next, where an index tells and it is more than most
	from, end record.Offset
	pos       record.Pos
	limit     record.Pos
	chain     Chain
	back      *beginning // where to begin instead, when pos is too far
}

// begin has the read start where a lookup leads to.
func (r *reading) begin(st index.Stretch) {
	switch {
	case st.Pos >= r.limit: // it is of another file
	case st.Offset == r.from: // it is the last record of the batch itself
		r.startAt(beginning{st.Entry, atMost(int64(or(st.Next.Pos, r.limit)-st.Pos), mostAsked)})
	default:
		ahead, at := r.s.beginnings(st, r.limit)
		if r.startAt(at); ahead != nil {
			r.startAt(*ahead)
			r.back = &at
		}
	}
}

func (r *reading) startAt(b beginning) {
	r.pos, r.ask, r.chain = b.Pos, b.ask, r.s.chain(r.chain.heads)
	r.chain.startAt(b.Entry)
}

// retreat goes back to the entry in front, if the read began at the one behind.
func (r *reading) retreat() bool {
	if r.back == nil {
		return false
	}
	r.startAt(*r.back)
	r.back = nil
	return true
}

// tooFar says that the first batch of data is behind what is asked for, and the
// entry in front leads to that. A base offset that is wrong is found out later.
func (r *reading) tooFar(data []byte) bool {
	return r.back != nil && len(data) >= record.HeadSize && baseOffset(data) > r.from
}

func (r *reading) run() (Chunk, error) {
	for r.pos < r.limit {
		data, err := r.fetch()
		if err != nil {
			return Chunk{}, err
		}
		if r.tooFar(data) {
			r.retreat()
			continue
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
	data, err := r.readAt(min(max(r.most, r.ask), left))
	r.ask = 0
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
		if start >= 0 && int64(off-start+b.Size()) > r.most {
			break // it was read for what is in front of it
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
	if r.retreat() {
		return nil
	}
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
	e := s.lookup(h, lo).Entry
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
