package cli

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// maxInflated bounds what the records of one batch may decompress to.
const maxInflated = 256 << 20

// logVisitor is told what a walk over log files finds, in order.
type logVisitor interface {
	// batch is called for each batch whose checksum is right; placed says that its
	// base offset can be believed, too.
	batch(b *record.Batch, at record.Pos, placed bool) error
	// fault is called for whatever is wrong, when it is known how far it goes.
	fault(f fault) error
}

// logWalk walks the log files of a partition, one after the other, and carries
// from each batch to the next what the checksum leaves out: that offsets follow
// on and that the leader epoch never falls. What is odd about a batch is held
// against the batches behind it before the batch is blamed.
type logWalk struct {
	ctx   context.Context
	visit logVisitor
	chain segment.Chain
	open  *fault         // a hole whose end is not known yet
	heads []segment.Head // reused
	moved func(bytes int64)
}

func newLogWalk(ctx context.Context, dense bool, visit logVisitor, moved func(bytes int64)) *logWalk {
	return &logWalk{
		ctx: ctx, visit: visit, moved: moved,
		chain: segment.Chain{Dense: dense, Epoch: math.MinInt32},
	}
}

// readError is a file that cannot be read, or not from a position on.
type readError struct {
	path string
	at   int64
	err  error
}

func (e *readError) Error() string {
	return fmt.Sprintf("read %s at position %d: %v", e.path, e.at, e.err)
}
func (e *readError) Unwrap() error { return e.err }

// fault is what a visitor makes of it who goes on with the next file; next is the
// offset that was expected there.
func (e *readError) fault(next record.Offset) fault {
	return unreadable(e.path, e.at, next, e.err)
}

// file walks the log file of a segment; beyond are the first batches of the file
// behind it. It returns the size of the file. Errors are *readError and those of the
// visitor.
func (w *logWalk) file(s *segmentFiles, beyond []segment.Head) (int64, error) {
	path, base := s.path(segment.LogSuffix), s.base
	f, size, err := s.open()
	if err != nil {
		return 0, &readError{path: path, err: err}
	}
	defer f.Close()
	w.chain.Next, w.chain.Exact = base, w.chain.Dense
	sc := newLogScanner(f, size, base)
	sc.beyond = beyond
	for {
		if err := interrupted(w.ctx); err != nil {
			return 0, err
		}
		sc.low = w.chain.Next
		at := sc.pos
		b, h, err := sc.next()
		switch {
		case err == io.EOF:
			return size, nil
		case err != nil:
			return 0, &readError{path: path, at: int64(at), err: err}
		case h != nil:
			w.hole(path, h)
		default:
			w.heads = sc.heads(sc.pos, w.heads[:0])
			if err := w.batch(path, &b, at); err != nil {
				return 0, err
			}
		}
		w.moved(int64(sc.pos - at))
	}
}

// hole remembers a damaged range until the good batch behind it tells which
// offsets it took.
func (w *logWalk) hole(path string, h *hole) {
	w.open = &fault{Type: "fault", Path: path, Position: int64(h.at), Offset: int64(w.chain.Next), Reason: h.reason}
	w.chain.Exact = false
}

func (w *logWalk) batch(path string, b *record.Batch, at record.Pos) error {
	expected := w.chain.Next
	why, placed := w.judge(b, w.heads)
	ends := expected // of a hole in front
	if placed {
		ends = b.BaseOffset
	}
	if err := w.close(ends); err != nil {
		return err
	}
	if why != "" {
		err := w.visit.fault(fault{Type: "fault", Path: path, Position: int64(at), Offset: int64(max(ends, expected)), Reason: why})
		if err != nil {
			return err
		}
	}
	return w.visit.batch(b, at, placed)
}

// close reports the open hole, which ends in front of offset to.
func (w *logWalk) close(to record.Offset) error {
	if w.open == nil {
		return nil
	}
	f := *w.open
	w.open = nil
	if int64(to) > f.Offset {
		f.To = int64(to)
	}
	return w.visit.fault(f)
}

// payloads decodes the records of batches, reusing its memory.
type payloads struct{ buf []byte }

// each calls f for each record of b, which is valid until it returns. reason
// says why the records cannot be decoded.
func (p *payloads) each(b *record.Batch, f func(r *record.Record) error) (reason string, err error) {
	data, err := b.Payload(p.buf[:0], maxInflated)
	if err != nil {
		return "records: " + formatReason(err), nil
	}
	if b.Attributes.Codec() != record.None {
		p.buf = data
	}
	it := b.Records(data)
	var r record.Record
	for it.Next(&r) {
		if err := f(&r); err != nil {
			return "", err
		}
	}
	if err := it.Err(); err != nil {
		return "records: " + formatReason(err), nil
	}
	return "", nil
}
