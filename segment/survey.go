package segment

import (
	"errors"

	"github.com/varvelog/varve/record"
)

// Survey is what one pass over a whole segment found: what readers can be given of its
// file, and what they cannot.
type Survey struct {
	Holes   []Hole        // from At to Resume, in order; one without offsets is behind the end
	Batches int           // that lie outside of them
	Size    record.Pos    // length of the file
	Next    record.Offset // behind the last batch or hole
}

// Survey reads the segment from end to end as a reader does, and decodes the records too:
// a batch that checks and whose records make no sense is a hole. maxInflated bounds what
// one batch may inflate to; one that goes beyond it is left as it is. The segment must
// take no appends meanwhile. A file that is missing is a *CorruptError.
func (s *Segment) Survey(maxInflated int) (Survey, error) {
	h, err := s.pin()
	if err != nil {
		return Survey{}, s.missing(err)
	}
	defer h.unpin()
	size, err := h.file.Size()
	if err != nil {
		return Survey{}, err
	}
	found := Survey{Size: record.Pos(size)}
	next := s.Next()
	var buf []byte
	w := s.walk(h, s.Size())
	w.Batch = func(b *record.Batch, at record.Pos) bool {
		var why string
		if buf, why = undecodable(b, buf, maxInflated); why == "" {
			found.Batches++
			return true
		}
		found.add(Hole{Damage{at, why}, b.BaseOffset, b.NextOffset(), at + record.Pos(b.Size())})
		return true
	}
	w.Hole = func(x Hole) bool {
		x.From, x.To = min(x.From, next), min(x.To, next) // a hole without offsets claims one
		found.add(x)
		return true
	}
	if err := w.Run(); err != nil {
		return Survey{}, err
	}
	found.Next = min(w.Chain.Next, next)
	if found.Size > s.Size() {
		found.add(Hole{Damage{s.Size(), "bytes behind the end of the segment"}, found.Next, found.Next, found.Size})
	}
	return found, nil
}

// add notes a hole: of a file that was cut short there is less than it ought to have.
func (f *Survey) add(x Hole) {
	x.At, x.Resume = min(x.At, f.Size), min(x.Resume, f.Size)
	f.Holes = append(f.Holes, x)
}

// undecodable says why the records of b cannot be had, "" when they can. buf is memory to
// inflate into, and is returned for the next batch.
func undecodable(b *record.Batch, buf []byte, maxInflated int) ([]byte, string) {
	payload, err := b.Payload(buf, maxInflated)
	if errors.Is(err, record.ErrTooLarge) {
		return buf, "" // its bytes are what was written
	}
	if err != nil {
		return buf, "records: " + reason(err)
	}
	if b.Attributes.Codec() != record.None {
		buf = payload
	}
	it := b.Records(payload)
	for r := (record.Record{}); it.Next(&r); {
	}
	if err := it.Err(); err != nil {
		return buf, "records: " + reason(err)
	}
	return buf, ""
}
