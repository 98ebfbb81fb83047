package segment

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// resync finds the first batch behind the damage at a position that is a batch
// beyond doubt. That a checksum matches is not enough, for a value may contain a
// batch, of offsets that fit; so, in this order:
//
//  1. the batch in front of which the damaged one's checksum comes out right: a
//     flip in the header bytes that the checksum leaves out, its length perhaps;
//  2. the batch that the damaged one's own length leads to: whatever is wrong is
//     under the checksum, which is the more likely the more its claims agree
//     with what is found there;
//  3. the batch of a later entry of the index;
//  4. behind the last entry: a batch from which on everything checks and follows
//     on, up to the end of the file;
//  5. nothing: the damage takes the rest of the file.
func (w *Walk) resync(at record.Pos, why string) (Hole, error) {
	r := resync{
		w: w, at: at, anchor: w.anchorBehind(at),
		hole: Hole{Damage: Damage{At: at, Reason: why}, From: w.Chain.Next, To: w.Next, Resume: w.End},
	}
	if w.open {
		r.hole.To = r.hole.From
	}
	for _, step := range []func() bool{r.byChecksum, r.byLength, r.byIndex, r.bySearch} {
		if step() || r.err != nil {
			break
		}
	}
	if w.open && r.hole.Resume == w.End {
		r.hole.To = max(r.hole.To, r.claimedEnd())
	}
	if r.hole.To <= r.hole.From { // at least what was expected here
		r.hole.To = r.hole.From + 1
	}
	return r.hole, r.err
}

// resync is one search for the end of a hole. A step that finds it says so.
type resync struct {
	w      *Walk
	at     record.Pos  // where the damage begins
	anchor index.Entry // the next one of the index, or the end: no batch reaches across it
	last   record.Pos  // of the last index entry that was tried
	hole   Hole
	err    error // of a read
}

// anchorBehind is the first index entry behind a position; where there is none, it
// stands for the end.
func (w *Walk) anchorBehind(at record.Pos) index.Entry {
	if w.entry != nil {
		if e, ok := w.entry(at); ok && e.Pos < w.End {
			return e
		}
	}
	return index.Entry{Offset: w.Next - 1, Pos: w.End}
}

// ends is where the hole ends.
func (r *resync) ends(at record.Pos, to record.Offset) bool {
	r.hole.Resume, r.hole.To = at, to
	return true
}

// byChecksum trusts the checksum of the damaged batch and what it covers.
func (r *resync) byChecksum() bool {
	head, ok := r.head(r.at)
	if !ok {
		return false
	}
	to, ok := r.extent(head)
	if !ok {
		return false
	}
	next := r.hole.From + offsets(head)
	if r.w.open {
		next = r.hole.From + r.likely(head, int64(to-r.at))
	}
	if next > r.w.Next {
		return false
	}
	if follows, ok := r.head(to); ok && !r.w.Chain.Dense {
		next = max(next, baseOffset(follows))
	} else if to == r.w.End && !r.w.open {
		next = r.w.Next
	}
	return r.ends(to, next)
}

// extent finds where the damaged batch ends, given that its checksum is right:
// where the checksum of everything before comes out, and the file ends or what
// follows looks like the header of a later batch.
func (r *resync) extent(head []byte) (record.Pos, bool) {
	const longest = 64 << 20 // further than this is not looked
	want := ^binary.BigEndian.Uint32(head[sumAt:])
	limit := min(r.anchor.Pos, r.at+longest)
	sum := ^uint32(0)
	buf := make([]byte, min(scanWindow, int64(limit-r.at)))
	for pos := r.at + covered; pos < limit; {
		n := r.read(buf[:min(int64(len(buf)), int64(limit-pos))], pos)
		if n == 0 {
			return 0, false
		}
		for i, b := range buf[:n] {
			sum = castagnoli[byte(sum)^b] ^ sum>>8
			if sum != want {
				continue
			}
			if to := pos + record.Pos(i) + 1; to >= r.at+record.BatchOverhead && r.mayBegin(to) {
				return to, true
			}
		}
		pos += record.Pos(n)
	}
	return 0, false
}

// mayBegin says whether a batch may begin at a position, by its header alone, or
// nothing may, because the file ends there.
func (r *resync) mayBegin(at record.Pos) bool {
	if at == r.w.End {
		return true
	}
	head, ok := r.head(at)
	if !ok {
		return false
	}
	size, err := record.PeekSize(head)
	base := baseOffset(head)
	return err == nil && size <= int64(r.w.End-at) && base > r.hole.From && base < r.w.Next
}

// byLength trusts the length of the damaged batch, and of those behind it while
// they are damaged too: as far as a batch that begins where their claims end, in
// positions and in offsets, or from which on all checks up to the index entry.
func (r *resync) byLength() bool {
	next, agree := r.hole.From, true
	for at := r.at; ; {
		head, ok := r.head(at)
		if !ok {
			return false
		}
		size, err := record.PeekSize(head)
		if err != nil {
			return false
		}
		at += record.Pos(size)
		if next += offsets(head); r.w.open {
			next += r.likely(head, size) - offsets(head)
		}
		agree = agree && offsets(head) > 0
		switch {
		case at == r.w.End && r.w.open:
			return r.ends(at, next)
		case at == r.w.End:
			return r.ends(at, r.w.Next)
		case at > r.anchor.Pos:
			return false
		}
		if b, ok := r.batch(at); ok {
			agree = agree && (b.BaseOffset == next || !r.w.Chain.Dense && b.BaseOffset > next)
			if first := b.BaseOffset; b.NextOffset() <= r.w.Next && (agree || r.leads(at, r.anchor)) {
				return r.ends(at, first)
			}
			return false
		}
		if r.err != nil {
			return false
		}
		if at == r.anchor.Pos { // the batch of the entry is damaged too
			r.anchor = r.w.anchorBehind(at)
		}
	}
}

// byIndex tries one index entry after the other.
func (r *resync) byIndex() bool {
	for e := r.w.anchorBehind(r.at); e.Pos < r.w.End; e = r.w.anchorBehind(e.Pos) {
		b, ok := r.batch(e.Pos)
		if ok && b.LastOffset() == e.Offset && b.BaseOffset > r.hole.From {
			return r.ends(e.Pos, b.BaseOffset)
		}
		if r.err != nil || r.read(make([]byte, 1), e.Pos) == 0 {
			return false // the file ends before
		}
		r.last = e.Pos
	}
	return false
}

// bySearch looks at every position behind the damage, and behind the last index
// entry, for a batch from which on the file is whole. Of a run of batches that
// breaks off only the last is searched for another beginning: what begins with
// those before it breaks off as well. Headers that are none can claim so much, in a
// value that was made for it, that the search has to be given up.
func (r *resync) bySearch() bool {
	end := index.Entry{Offset: r.w.Next - 1, Pos: r.w.End}
	from := max(r.at, r.last) + 1
	budget := 16 * int64(r.w.End-from) // bytes of batches to look at
	buf := make([]byte, min(scanWindow, max(int64(r.w.End-from), 0)))
	for pos := from; pos+record.BatchOverhead <= r.w.End; {
		n := r.read(buf[:min(int64(len(buf)), int64(r.w.End-pos))], pos)
		if n < record.BatchOverhead {
			return false
		}
		at, size := r.candidate(buf[:n], pos)
		if size == 0 {
			pos += record.Pos(n - record.BatchOverhead + 1)
			continue
		}
		first, last, whole := r.run(at, end)
		if whole {
			return r.ends(at, first)
		}
		if budget -= size + int64(last-at); budget < 0 || r.err != nil {
			return false
		}
		pos = last + 1
	}
	return false
}

// candidate is the first position in data, which begins at pos, where the header
// of a batch of offsets that are missing may begin, and the size it claims.
func (r *resync) candidate(data []byte, pos record.Pos) (at record.Pos, size int64) {
	for i := 0; i+record.BatchOverhead <= len(data); i++ {
		size, err := record.PeekSize(data[i:])
		if err != nil || size > int64(r.w.End-pos)-int64(i) {
			continue
		}
		if base := baseOffset(data[i:]); base > r.hole.From && base < r.w.Next {
			return pos + record.Pos(i), size
		}
	}
	return 0, 0
}

// leads says whether the batches from a position on check and follow on as far as
// that of an index entry, or the end.
func (r *resync) leads(at record.Pos, until index.Entry) bool {
	_, _, ok := r.run(at, until)
	return ok
}

// run is leads that says also with which offset the batches begin, and where the
// last good one of them is.
func (r *resync) run(at record.Pos, until index.Entry) (first record.Offset, last record.Pos, ok bool) {
	chain := r.w.Chain
	chain.Next, chain.Until, chain.Exact, chain.Ends = r.hole.From+1, r.w.Next, false, 0
	sc := NewScanner(r.w.File, at, r.w.End)
	first, last = -1, at
	for sc.Next() {
		b := sc.Batch()
		if chain.acceptAt(b, sc.At(), r.w.File, r.w.End) != "" {
			return first, last, false
		}
		if last = sc.At(); first < 0 {
			first = b.BaseOffset
		}
		if last >= until.Pos {
			return first, last, last == until.Pos && b.LastOffset() == until.Offset
		}
	}
	r.note(sc.Err())
	return first, last, sc.Err() == nil && (!chain.Dense || r.w.partial || r.w.open || chain.Next == r.w.Next)
}

// batch is the batch at a position, if it checks.
func (r *resync) batch(at record.Pos) (*record.Batch, bool) {
	sc := NewScanner(r.w.File, at, r.w.End)
	ok := sc.Next()
	r.note(sc.Err())
	return sc.Batch(), ok
}

// note keeps what is no damage of what a scanner came upon.
func (r *resync) note(err error) {
	var d *Damage
	if err != nil && !errors.As(err, &d) {
		r.err = err
	}
}

// head is the bytes of a batch header, of a batch that need not be one.
func (r *resync) head(at record.Pos) ([]byte, bool) {
	head := make([]byte, record.BatchOverhead)
	ok := at+record.BatchOverhead <= r.w.End && r.read(head, at) == len(head)
	return head, ok
}

// read reads what there is; an error is noted.
func (r *resync) read(p []byte, at record.Pos) int {
	n, err := r.w.File.ReadAt(p, int64(at))
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
		return 0
	}
	return n
}

// claimedEnd is where the damaged batch ends by its own word, at the end of a log with
// gaps of which nothing else tells: an offset may not be given out again. A base offset
// that a segment cannot reach is not believed.
func (r *resync) claimedEnd() record.Offset {
	head, ok := r.head(r.at)
	if !ok || r.w.Chain.Dense {
		return 0
	}
	base := baseOffset(head)
	if base < r.hole.From || base-r.hole.From > math.MaxInt32 {
		return 0
	}
	return base + r.likely(head, int64(r.w.End-r.at))
}

// likely is how many offsets a damaged batch takes, of which nothing but its header
// tells: there it says so twice. Where the two differ a bit flipped in one of them;
// the larger one counts, for an offset may not be given out again, unless the batch
// cannot hold so many records.
func (r *resync) likely(head []byte, size int64) record.Offset {
	n, m := offsets(head), record.Offset(int32(binary.BigEndian.Uint32(head[57:])))
	n, m = max(n, m), min(n, m)
	if n != m && int64(n) > mostRecords(head, size) {
		n = m
	}
	return max(n, 1)
}

// mostRecords is how many records a batch of a size may hold.
func mostRecords(head []byte, size int64) int64 {
	const (
		least    = 7    // bytes of a record: an empty one has seven fields of one byte
		deflated = 1032 // to one, by the best that deflate can do; others do not do much better
	)
	size -= record.BatchOverhead
	if record.Attributes(binary.BigEndian.Uint16(head[21:])).Codec() != record.None {
		size *= deflated
	}
	return size / least
}

// baseOffset, epochOf and offsets are what a batch header says of its first offset,
// its leader epoch, and how many offsets it takes.
func baseOffset(head []byte) record.Offset { return record.Offset(binary.BigEndian.Uint64(head)) }

func epochOf(head []byte) record.Epoch { return record.Epoch(binary.BigEndian.Uint32(head[12:])) }

func offsets(head []byte) record.Offset {
	return record.Offset(int32(binary.BigEndian.Uint32(head[23:]))) + 1
}
