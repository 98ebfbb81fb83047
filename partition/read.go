package partition

import (
	"errors"

	"github.com/google/btree"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// Cursor remembers where a reader stands, so that reading on needs no lookup.
// It holds no file. The zero Cursor remembers nothing.
type Cursor struct {
	seg  *segment.Segment
	pos  record.Pos
	next record.Offset
}

// Path is the file of what was read last.
func (c *Cursor) Path() string { return c.seg.Path() }

// Read returns whole batches as stored, each checked: the one that holds from,
// or the first behind it, and what follows, about most bytes of them and no
// further than the segment goes. buf is used where the answer fits. At the
// published end the chunk is empty, and so it is where only a gap is left in front of
// it: then Next is behind the gap. It takes no lock when the file is open.
//
// Below the log start or above the end it is an *OutOfRangeError; at damage a
// *segment.CorruptError, whose To is where reading can go on.
func (l *Log) Read(buf []byte, most int, from record.Offset, c *Cursor) (segment.Chunk, error) {
	chunk, err := l.Check(buf, most, from, c)
	if len(chunk.Data) > 0 {
		l.stats.read(len(chunk.Data))
	}
	return chunk, err
}

// Check is Read for who wants to know what is damaged: it is not counted.
func (l *Log) Check(buf []byte, most int, from record.Offset, c *Cursor) (segment.Chunk, error) {
	at := *c
	for {
		end := l.End()
		if start := l.Start(); from < start || from > end {
			return segment.Chunk{}, &OutOfRangeError{Asked: from, Start: start, End: end}
		}
		if l.closed.Load() {
			return segment.Chunk{}, ErrClosed
		}
		if from == end {
			return segment.Chunk{}, nil
		}
		seg, pos := l.place(from, &at)
		if err := l.gapBefore(seg, from, end); err != nil {
			if l.Start() > from {
				continue // it went while we looked for it
			}
			return segment.Chunk{}, err
		}
		chunk, err := seg.Read(buf, most, max(from, seg.Base()), end, pos)
		if segment.IsRemoved(err) {
			continue // retention went past: from is out of range now
		}
		if err != nil {
			return segment.Chunk{}, err
		}
		if len(chunk.Data) > 0 {
			*c = Cursor{seg, chunk.Pos, chunk.Next}
			return chunk, nil
		}
		if seg.Next() >= end || !seg.Sealed() {
			if l.sparse.Load() {
				return segment.Chunk{Next: end}, nil
			}
			return segment.Chunk{}, nil
		}
		if !l.sparse.Load() {
			return segment.Chunk{}, &segment.CorruptError{
				Path: seg.Path(), Offset: from - 1, From: from, To: seg.Next(), Reason: "batches are missing",
			}
		}
		from = max(seg.Next(), from+1) // no record from here to the end of this segment
		at = Cursor{}
	}
}

// place is the segment to read from, and the position when the cursor knows it.
func (l *Log) place(from record.Offset, c *Cursor) (*segment.Segment, record.Pos) {
	if c.seg != nil && c.next == from && (from < c.seg.Next() || !c.seg.Sealed()) {
		return c.seg, c.pos
	}
	return l.locate(from), -1
}

// gapBefore reports the offsets from from up to seg, the first segment there is
// behind them, in a log that has no gaps.
func (l *Log) gapBefore(seg *segment.Segment, from, end record.Offset) error {
	if seg == nil {
		return l.hole(from, end)
	}
	if l.sparse.Load() || seg.Base() <= from {
		return nil
	}
	return l.hole(from, min(seg.Base(), end))
}

// hole is the error for a range of offsets that no segment holds.
func (l *Log) hole(from, to record.Offset) error {
	return &segment.CorruptError{
		Path: l.env.FS.Path(l.dir + "/" + segment.FileName(from) + segment.LogSuffix), Offset: from - 1,
		From: from, To: to, Reason: "segment is missing",
	}
}

// FindTime returns the first offset whose record has a timestamp at or after ts
// (milliseconds); false when no record has, up to the published end.
//
// Only segments whose largest timestamp reaches ts are opened: one, where
// timestamps rise from segment to segment.
func (l *Log) FindTime(ts int64, maxInflated int) (record.Offset, bool, error) {
	_, f, err := l.seek(ts, maxInflated)
	return f.Offset, len(f.Data) > 0, err
}

// SeekTime is FindTime for who reads on from there: he gets the batch that was found,
// checked, as Read gives it. Its chunk is empty when there is none.
func (l *Log) SeekTime(ts int64, maxInflated int, c *Cursor) (segment.Found, error) {
	seg, f, err := l.seek(ts, maxInflated)
	if len(f.Data) > 0 {
		*c = Cursor{seg, f.Pos, f.Next}
		l.stats.read(len(f.Data))
	}
	return f, err
}

func (l *Log) seek(ts int64, maxInflated int) (*segment.Segment, segment.Found, error) {
	for {
		start, end := l.Start(), l.End()
		seg, f, err := l.findTime(ts, start, end, maxInflated)
		switch {
		case l.closed.Load():
			return nil, segment.Found{}, ErrClosed
		case segment.IsRemoved(err) && l.Start() > start:
			continue
		}
		return seg, f, err
	}
}

func (l *Log) findTime(ts int64, start, end record.Offset, maxInflated int) (seg *segment.Segment, f segment.Found, err error) {
	view := l.view.Load()
	pivot, ok := firstReaching(view, ts)
	if !ok {
		return nil, f, nil
	}
	view.AscendGreaterOrEqual(pivot, func(it item) bool {
		if it.seg.Next() <= start || it.seg.MaxTimestamp() < ts {
			return true // the first sort may be on its way out, or gone
		}
		seg = it.seg
		f, err = seg.FindTime(ts, start, end, maxInflated)
		return len(f.Data) == 0 && err == nil
	})
	return seg, f, err
}

// firstReaching finds the first segment at which the prefix maximum reaches ts,
// or the active one. Prefix maxima rise with the base offset, so this bisects
// over base offsets; each step is one descent of the tree.
func firstReaching(view *btree.BTreeG[item], ts int64) (item, bool) {
	first, ok := view.Min()
	if !ok {
		return item{}, false
	}
	last, _ := view.Max()
	lo, hi := first.base, last.base // the answer's base is in [lo, hi]
	for lo < hi {
		mid := lo + (hi-lo)/2
		var it item
		view.DescendLessOrEqual(item{base: mid}, func(x item) bool {
			it = x
			return false
		})
		if it.maxBefore >= ts {
			hi = it.base
			continue
		}
		lo = hi
		view.AscendGreaterOrEqual(item{base: mid + 1}, func(x item) bool {
			lo = x.base
			return false
		})
	}
	it, _ := view.Get(item{base: lo})
	return it, true
}

// IsDamage says whether err reports damage, and the gap if so.
func IsDamage(err error) (*segment.CorruptError, bool) {
	var ce *segment.CorruptError
	ok := errors.As(err, &ce)
	return ce, ok
}
