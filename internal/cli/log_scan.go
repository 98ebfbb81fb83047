package cli

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// scanWindow is how much of a file is in memory at a time, but for a larger
// batch whose checksum was found right.
const scanWindow = 1 << 20

// Positions in a batch's header.
const (
	crcAt     = 17
	coveredAt = 21 // the checksum covers the batch from here on
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// logScanner walks the batches of a log file. A batch that does not check ends
// nothing: the scanner tells what is wrong and finds the next one that does.
//
// Memory is a window, however large the file and whatever lengths it claims: a
// batch that does not fit is first checked piece by piece, and read as a whole
// only when its checksum proves it to be one.
type logScanner struct {
	f    io.ReaderAt
	size record.Pos
	pos  record.Pos    // of the batch that next looks at
	low  record.Offset // the lowest offset it can have, kept by the caller

	buf   []byte // bytes of the file from bufAt on
	bufAt record.Pos

	beyond []segment.Head // of the batches in the next file
}

func newLogScanner(f io.ReaderAt, size int64, base record.Offset) *logScanner {
	return &logScanner{f: f, size: record.Pos(size), low: base}
}

// hole is a range of a file that holds no good batch.
type hole struct {
	at, resume record.Pos // [at, resume)
	reason     string
}

// next returns the next batch and moves on behind it, or the hole in front of
// it. Its bytes are valid until the next call. The end is io.EOF; other errors
// are those of reading.
func (s *logScanner) next() (record.Batch, *hole, error) {
	if s.pos >= s.size {
		return record.Batch{}, nil, io.EOF
	}
	b, reason, err := s.check(s.pos)
	if err != nil {
		return record.Batch{}, nil, err
	}
	if reason == "" {
		s.pos += record.Pos(b.Size())
		return b, nil, nil
	}
	h, err := s.resync(reason)
	if err != nil {
		return record.Batch{}, nil, err
	}
	s.pos = h.resume
	return record.Batch{}, h, nil
}

// check reads the batch at a position. reason says why it is none.
func (s *logScanner) check(at record.Pos) (b record.Batch, reason string, err error) {
	head, err := s.read(at, record.BatchOverhead)
	if err != nil {
		return b, "", err
	}
	left := int64(s.size - at)
	if allZero(head) {
		return b, "zeros where a batch should begin", nil
	}
	if len(head) < record.BatchOverhead {
		return b, fmt.Sprintf("file ends %s into a batch: an unfinished write, or its end was cut off", count(left, "byte")), nil
	}
	size, err := record.PeekSize(head)
	if err != nil {
		return b, formatReason(err), nil
	}
	if size > left {
		return b, fmt.Sprintf("batch of %d bytes, of which the file has %d: an unfinished write, or its end was cut off, or its length is wrong", size, left), nil
	}
	if size > scanWindow {
		ok, err := s.checksum(at, size, binary.BigEndian.Uint32(head[crcAt:]))
		if err != nil {
			return b, "", err
		}
		if !ok {
			return b, "crc mismatch", nil
		}
	}
	data, err := s.read(at, int(size))
	if err != nil {
		return b, "", err
	}
	if b, err = record.Parse(data); err == nil {
		err = b.Verify()
	}
	if errors.Is(err, record.ErrShort) {
		return b, "file became shorter while it was read", nil
	}
	if err != nil {
		return b, formatReason(err), nil
	}
	return b, "", nil
}

// checksum checks the checksum of a batch that is larger than the window.
func (s *logScanner) checksum(at record.Pos, size int64, want uint32) (bool, error) {
	var sum uint32
	for pos := at + coveredAt; pos < at+record.Pos(size); {
		part, err := s.read(pos, int(min(scanWindow, int64(at)+size-int64(pos))))
		if err != nil || len(part) == 0 {
			return false, err
		}
		sum = crc32.Update(sum, castagnoli, part)
		pos += record.Pos(len(part))
	}
	return sum == want, nil
}

// resync finds where good batches go on behind the bad one at s.pos. The place
// its own length leads to comes first: there a batch, or the end of the file,
// means that the damage is inside. Otherwise the first position counts at which
// a batch checks and whose offsets can follow; that may be one a record holds as
// its value, which is only a less exact report.
func (s *logScanner) resync(reason string) (*hole, error) {
	h := &hole{at: s.pos, resume: s.size, reason: reason}
	head, err := s.read(s.pos, record.BatchOverhead)
	if err != nil || len(head) < record.BatchOverhead {
		return h, err
	}
	if size, err := record.PeekSize(head); err == nil && int64(s.pos)+size <= int64(s.size) {
		to := s.pos + record.Pos(size)
		if to == s.size {
			return h, nil
		}
		if _, why, err := s.check(to); err != nil || why == "" {
			h.resume = to
			return h, err
		}
	}
	h.resume, err = s.search(s.pos + 1)
	return h, err
}

// search returns the first position from which a batch checks, or the end.
func (s *logScanner) search(from record.Pos) (record.Pos, error) {
	for at := from; at+record.BatchOverhead <= s.size; {
		data, err := s.read(at, int(min(scanWindow, int64(s.size-at))))
		if err != nil || len(data) < record.BatchOverhead {
			return s.size, err
		}
		i := candidate(data, int64(s.size-at), int64(s.low))
		if i < 0 {
			at += record.Pos(len(data) - record.BatchOverhead + 1)
			continue
		}
		at += record.Pos(i)
		if _, why, err := s.check(at); err != nil || why == "" {
			return at, err
		}
		at++
	}
	return s.size, nil
}

// candidate returns the first index at which data looks like the header of a
// batch not far above offset low, or -1: a filter in front of the checksum.
func candidate(data []byte, left, low int64) int {
	const magicAt = 16
	for i := 0; i+record.BatchOverhead <= len(data); i++ {
		if data[i+magicAt] != 2 {
			continue
		}
		size, err := record.PeekSize(data[i:])
		if err != nil || size > left-int64(i) {
			continue
		}
		if d := int64(binary.BigEndian.Uint64(data[i:])) - low; d < 0 || d > math.MaxInt32 {
			continue // no segment spans more
		}
		return i
	}
	return -1
}

// read returns n bytes at a position, or what there is of them.
func (s *logScanner) read(at record.Pos, n int) ([]byte, error) {
	if from := int64(at - s.bufAt); from >= 0 && from+int64(n) <= int64(len(s.buf)) {
		return s.buf[from:][:n:n], nil
	}
	want := int(min(max(scanWindow, int64(n)), int64(s.size-at)))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	m, err := s.f.ReadAt(s.buf, int64(at))
	s.buf, s.bufAt = s.buf[:m], at
	if err != nil && err != io.EOF {
		return nil, err
	}
	return s.buf[:min(n, m)], nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// formatReason is what is wrong with a batch, without the place in it.
func formatReason(err error) string {
	var fe *record.FormatError
	if errors.As(err, &fe) {
		return fe.Reason
	}
	return err.Error()
}
