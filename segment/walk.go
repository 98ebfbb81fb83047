package segment

import (
	"errors"
	"hash/crc32"
	"io"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// Hole is a damaged range of a log file: what lies in it cannot be read, what
// lies behind it can.
type Hole struct {
	Damage
	From, To record.Offset // offsets that are lost, [From, To)
	Resume   record.Pos    // where the next good batch starts, or the end
}

// Walk is one pass over the good batches of a log file, past any damage.
type Walk struct {
	File  io.ReaderAt
	From  record.Pos
	End   record.Pos
	Chain Chain
	Next  record.Offset // one past the last offset the file should hold; -1 unknown

	// Batch is called for each batch that checks; false ends the walk.
	Batch func(b *record.Batch, at record.Pos) bool
	// Hole is called for each damaged range; false ends the walk. Nil passes on.
	Hole func(Hole) bool
	// entry finds the first index entry behind a position, where there is an index.
	entry func(after record.Pos) (index.Entry, bool)
}

// Run walks. Its error is that of a read, never damage.
func (w *Walk) Run() error {
	for from := w.From; from < w.End; {
		sc := NewScanner(w.File, from, w.End)
		why := ""
		for why == "" && sc.Next() {
			if why = w.Chain.Accept(sc.Batch()); why == "" && !w.Batch(sc.Batch(), sc.At()) {
				return nil
			}
		}
		if why == "" {
			var d *Damage
			if sc.Err() == nil {
				return nil
			}
			if !errors.As(sc.Err(), &d) {
				return sc.Err()
			}
			why = d.Reason
		}
		hole, err := w.resync(sc.At(), why)
		if err != nil {
			return err
		}
		if w.Hole != nil && !w.Hole(hole) {
			return nil
		}
		from, w.Chain.Next = hole.Resume, hole.To
	}
	return nil
}

// resync finds the first batch behind the damage at a position that is a batch
// beyond doubt. That a checksum matches is not enough, for a value may contain
// a batch; so, in this order:
//
//  1. the batch that the damaged one's own length leads to, if the chain from
//     there runs into the next index entry (or the end): a flip in its records;
//  2. the batch in front of which the damaged one's checksum comes out right:
//     a flip in its length;
//  3. the batch of the next index entry;
//  4. nothing: the damage takes the rest of the file.
func (w *Walk) resync(at record.Pos, why string) (Hole, error) {
	hole := Hole{Damage: Damage{At: at, Reason: why}, From: w.Chain.Next, To: w.Next, Resume: w.End}
	anchor, known := index.Entry{Pos: w.End}, false
	if w.entry != nil {
		if e, ok := w.entry(at); ok && e.Pos < w.End {
			anchor, known = e, true
		}
	}
	var head [record.BatchOverhead]byte
	if n, err := w.File.ReadAt(head[:], int64(at)); err != nil && !errors.Is(err, io.EOF) {
		return hole, err
	} else if n == len(head) {
		if size, err := record.PeekSize(head[:]); err == nil {
			if to := at + record.Pos(size); to <= anchor.Pos && w.leads(to, anchor.Pos, &hole) {
				return hole, nil
			}
		}
		if to, ok := w.extent(at, head[:], anchor.Pos); ok && w.leads(to, anchor.Pos, &hole) {
			return hole, nil
		}
	}
	if known && w.leads(anchor.Pos, anchor.Pos, &hole) {
		return hole, nil
	}
	if hole.To < hole.From { // unknown: at least what was expected here
		hole.To = hole.From + 1
	}
	return hole, nil
}

// leads says whether good batches run from a position to the anchor, and if so
// ends the hole there.
func (w *Walk) leads(from, anchor record.Pos, hole *Hole) bool {
	if from == w.End {
		hole.Resume = w.End
		return true
	}
	sc := NewScanner(w.File, from, w.End)
	chain := Chain{Next: hole.From + 1, Epoch: w.Chain.Epoch, Last: w.Chain.Last, Bound: w.Chain.Bound}
	first := record.Offset(-1)
	for sc.Pos() <= anchor && sc.Next() {
		b := sc.Batch()
		if chain.Accept(b) != "" || (w.Next >= 0 && b.NextOffset() > w.Next) {
			break
		}
		if first < 0 {
			first = b.BaseOffset
		}
		if sc.At() == anchor || sc.Pos() == w.End {
			hole.Resume, hole.To = from, first
			return true
		}
	}
	// Good batches up to a second damage before the anchor are good all the
	// same, unless nothing vouches for the first of them.
	if first >= 0 && first == hole.From+1 {
		hole.Resume, hole.To = from, first
		return true
	}
	return false
}

// extent finds where the batch at a position ends, given only that its
// checksum and what it covers are intact: the end is where a batch header
// follows and the checksum of everything before it matches.
func (w *Walk) extent(at record.Pos, head []byte, limit record.Pos) (record.Pos, bool) {
	const covered = 21 // the checksum covers the batch from here on
	limit = min(limit, at+64<<20)
	want := uint32(head[17])<<24 | uint32(head[18])<<16 | uint32(head[19])<<8 | uint32(head[20])
	var sum uint32
	buf := make([]byte, scanWindow)
	for pos := at + covered; pos < limit; {
		n, err := w.File.ReadAt(buf[:min(scanWindow, int64(limit-pos))], int64(pos))
		if n == 0 || (err != nil && !errors.Is(err, io.EOF)) {
			return 0, false
		}
		for i := range n {
			sum = crc32.Update(sum, castagnoli, buf[i:i+1])
			if sum == want && pos+record.Pos(i)+1 >= at+record.BatchOverhead {
				return pos + record.Pos(i) + 1, true
			}
		}
		pos += record.Pos(n)
	}
	return 0, false
}
