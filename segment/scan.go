package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/varvelog/varve/record"
)

// A Scanner reads little at first, for it may be after one batch, and more the
// further it comes.
const (
	firstWindow = 16 << 10
	scanWindow  = 256 << 10
)

// Damage says where a log file stops making sense.
type Damage struct {
	At     record.Pos
	Reason string
}

func (d *Damage) Error() string { return fmt.Sprintf("position %d: %s", d.At, d.Reason) }

// trusted is the largest batch for which memory is reserved on its own word. Of a
// larger one the checksum is taken first, a window at a time: a length is one flip
// away from any other.
const trusted = 1 << 20

// Scanner walks the batches of a log file and checks each. Its memory is one
// window, or the largest batch that is really there: whatever a length claims
// reserves nothing.
//
// It judges batches by themselves. Whether they follow on each other is the
// business of who knows what to expect, see [Chain].
type Scanner struct {
	r    io.ReaderAt
	pos  record.Pos // of the next batch
	end  record.Pos
	buf  []byte
	at   record.Pos
	data []byte // what is left of buf, from pos on

	ask    int64 // how much to read first; 0: a window
	window int64 // how much was read last time

	batch record.Batch
	err   error
}

// NewScanner scans [from, end) of a file; from is the start of a batch.
func NewScanner(r io.ReaderAt, from, end record.Pos) *Scanner {
	return &Scanner{r: r, pos: from, end: end}
}

// Next moves on to the next batch; false at the end, at damage, or when the
// file cannot be read, which Err tells apart.
func (s *Scanner) Next() bool {
	if s.err != nil || s.pos >= s.end {
		return false
	}
	s.at = s.pos
	for {
		b, err := record.Parse(s.data)
		if err == nil {
			if err := b.Verify(); err != nil {
				return s.damage(reason(err))
			}
			s.batch = b
			s.pos += record.Pos(b.Size())
			s.data = s.data[b.Size():]
			return true
		}
		if !errors.Is(err, record.ErrShort) {
			return s.damage(reason(err))
		}
		if !s.fill() {
			return false
		}
	}
}

// fill reads on, so that at least the batch at pos is whole; false with err set
// when the file has no more to give.
func (s *Scanner) fill() bool {
	left := int64(s.end - s.pos)
	s.window = min(max(2*s.window, firstWindow), scanWindow)
	want := min(left, s.window)
	if s.ask > 0 {
		want, s.ask = min(left, s.ask), 0
	}
	size, err := record.PeekSize(s.data)
	switch {
	case err == nil && size > left:
		return s.damage("length past the end of the file")
	case err == nil:
		want = max(want, size)
	case !errors.Is(err, record.ErrShort):
		return s.damage(reason(err))
	}
	if want > trusted && !s.vouch(size) {
		return false
	}
	if int64(len(s.data)) >= want {
		return s.damage("batch is cut short")
	}
	if int64(cap(s.buf)) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	n, err := s.r.ReadAt(s.buf, int64(s.pos))
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
		return false
	}
	if n <= len(s.data) {
		return s.damage("file is shorter than it was")
	}
	s.data = s.buf[:n]
	return true
}

// vouch checks the checksum of a large batch at pos before there is room for it.
func (s *Scanner) vouch(size int64) bool {
	ok, err := checks(s.r, s.pos, size)
	if err != nil {
		s.err = err
		return false
	}
	return ok || s.damage("crc mismatch")
}

// checks says whether the checksum of the batch at a position is right, if it
// takes size bytes.
func checks(file io.ReaderAt, at record.Pos, size int64) (bool, error) {
	buf := make([]byte, min(size, scanWindow))
	var want, sum uint32
	for done := int64(0); done < size; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), size-done)], int64(at)+done)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		part := buf[:n]
		if done == 0 {
			if n < record.BatchOverhead {
				return false, nil
			}
			want, part = binary.BigEndian.Uint32(part[sumAt:]), part[covered:]
		}
		if n == 0 {
			return false, nil
		}
		sum = crc32.Update(sum, castagnoli, part)
		done += int64(n)
	}
	return sum == want, nil
}

func (s *Scanner) damage(why string) bool {
	s.err = &Damage{At: s.at, Reason: why}
	return false
}

// Batch is the batch that Next found. Its bytes are valid until the next call.
func (s *Scanner) Batch() *record.Batch { return &s.batch }

// At is the position of that batch.
func (s *Scanner) At() record.Pos { return s.at }

// Pos is the position behind that batch.
func (s *Scanner) Pos() record.Pos { return s.pos }

// Err is nil at the end, a *Damage, or the error of a read.
func (s *Scanner) Err() error { return s.err }

// reason is what is wrong with a batch, without the place in it.
func reason(err error) string {
	var fe *record.FormatError
	if errors.As(err, &fe) {
		return fe.Reason
	}
	return err.Error()
}

// Chain checks that batches follow on each other: what the checksum of each
// leaves out, base offset and leader epoch, is checked against its neighbours.
// The zero Chain expects nothing of the first.
type Chain struct {
	Next  record.Offset // lowest base offset the next batch may have
	Exact bool          // it must be Next itself
	Dense bool          // so must every batch behind it
	Epoch record.Epoch  // lowest leader epoch
	Last  record.Epoch  // highest, where Bound
	Bound bool
	Until record.Offset // no batch goes beyond it; 0: no such limit
	file  record.Offset // where the next file begins; 0: there is none, or it does not matter
	Ends  record.Offset // last offset of the next batch, as an index says; 0: none does
	heads *heads        // what the neighbours cannot tell, or nil

	// Lenient takes a leader epoch that rose for one batch only for a flipped bit in
	// that batch, and goes on with the epoch in front of it: for who has nothing
	// else to go by, and must not lose what follows.
	Lenient bool
	low     record.Epoch // in front of the last batch
	rose    bool         // with the last batch
}

// Accept says why b cannot stand here, or "" and moves on behind it.
func (c *Chain) Accept(b *record.Batch) string {
	switch {
	case c.Ends > 0 && b.LastOffset() != c.Ends:
		return fmt.Sprintf("batch ends at offset %d where the index says %d", b.LastOffset(), c.Ends)
	case c.Exact && b.BaseOffset != c.Next:
		return fmt.Sprintf("base offset is %d, expected %d", b.BaseOffset, c.Next)
	case b.BaseOffset < c.Next:
		return fmt.Sprintf("base offset %d is below %d, the end of the batch before", b.BaseOffset, c.Next)
	case c.Until > 0 && b.NextOffset() > c.Until:
		return fmt.Sprintf("last offset %d is beyond that of the segment, %d", b.LastOffset(), c.Until-1)
	case b.LeaderEpoch < c.Epoch && !c.fellBack(b):
		return fmt.Sprintf("leader epoch %d is below %d, that of the batch before", b.LeaderEpoch, c.Epoch)
	case c.Bound && b.LeaderEpoch > c.Last:
		return fmt.Sprintf("leader epoch %d is above %d, the last of the segment", b.LeaderEpoch, c.Last)
	}
	c.rose, c.low = b.LeaderEpoch > c.Epoch, c.Epoch
	c.Epoch = b.LeaderEpoch
	c.goOn(b.NextOffset())
	return ""
}

// fellBack says that b has the leader epoch of before the last batch, so that it was
// the last batch whose epoch is wrong.
func (c *Chain) fellBack(b *record.Batch) bool {
	return c.Lenient && c.rose && b.LeaderEpoch >= c.low
}

// acceptAt is Accept for the batch at a position of a file that ends at end. Where
// nothing outside the file tells where batches begin, a gap is held against those
// behind it.
func (c *Chain) acceptAt(b *record.Batch, at record.Pos, file io.ReaderAt, end record.Pos) string {
	if c.heads != nil {
		if why := c.heads.refuse(b, at); why != "" {
			return why
		}
	}
	if c.Exact || c.Ends > 0 || b.BaseOffset <= c.Next || c.heads != nil && at < c.heads.sure {
		return c.Accept(b)
	}
	if why := TooHigh(b, c.Next, c.file, headsBehind(file, at+record.Pos(b.Size()), end)); why != "" {
		return why
	}
	return c.Accept(b)
}

// goOn expects offset next, behind a batch or a hole.
func (c *Chain) goOn(next record.Offset) {
	c.Next, c.Exact, c.Ends = next, c.Dense, 0
}
