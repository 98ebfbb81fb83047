package cli

import (
	"bytes"
	"errors"
	"io"
)

// errLineTooLong is a line of more bytes than the reader's limit.
var errLineTooLong = errors.New("too long for one record")

const (
	lineChunk   = 1 << 20  // bytes read ahead at most, and the unit of memory
	lineMinRead = 64 << 10 // a chunk with less room than this is full
)

// lineReader cuts its input into lines of up to limit bytes. It copies a line
// only where it crosses a chunk: lines are slices of the chunks they were read
// into, which are never written to again, so a line stays valid for as long as
// somebody holds it. Memory is one chunk and one line of the allowed length,
// however long the input's own lines are.
type lineReader struct {
	in    io.Reader
	limit int // bytes of a line, its newline not counted

	chunk   []byte // read so far
	start   int    // of the current line
	scanned int    // up to here there is no newline
	err     error  // of the last read, once chunk is used up
	number  int    // of the line last returned, from 1
}

func newLineReader(in io.Reader, limit int) *lineReader {
	return &lineReader{in: in, limit: limit}
}

// next returns the next line without its newline; nothing else is taken off. A
// last line that has no newline counts, an empty rest does not. After
// errLineTooLong and after a read error, which is returned in place of the line
// it cut short, there is no going on. The end is io.EOF.
func (l *lineReader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(l.chunk[l.scanned:], '\n'); i >= 0 {
			end := l.scanned + i
			return l.line(end, end+1)
		}
		l.scanned = len(l.chunk)
		switch {
		case l.scanned-l.start > l.limit:
			return l.line(l.scanned, l.scanned)
		case l.err == io.EOF && l.scanned > l.start:
			return l.line(l.scanned, l.scanned)
		case l.err != nil:
			l.number++
			return nil, l.err
		}
		l.fill()
	}
}

// line returns the bytes up to end and goes on behind them at rest.
func (l *lineReader) line(end, rest int) ([]byte, error) {
	l.number++
	line := l.chunk[l.start:end:end]
	if len(line) > l.limit {
		return nil, errLineTooLong
	}
	l.start, l.scanned = rest, rest
	return line, nil
}

// fill reads once. The unfinished line moves to a new chunk when the present
// one has no room left worth a read.
func (l *lineReader) fill() {
	if cap(l.chunk)-len(l.chunk) < lineMinRead {
		rest := l.chunk[l.start:]
		next := make([]byte, len(rest), lineChunk+2*len(rest))
		copy(next, rest)
		l.chunk, l.start, l.scanned = next, 0, len(rest)
	}
	free := l.chunk[len(l.chunk):cap(l.chunk)]
	n, err := l.in.Read(free)
	l.chunk = l.chunk[:len(l.chunk)+n]
	l.err = err
}
