package partition

import (
	"sync/atomic"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
	"github.com/varvelog/varve/segment"
)

// stats count what a log did since it was opened.
type stats struct {
	records, batches, bytes atomic.Int64
	reads, readBytes        atomic.Int64
	syncRounds              atomic.Int64
	segmentsRemoved         atomic.Int64
	bytesRemoved            atomic.Int64
	trims                   atomic.Int64
}

func (s *stats) appended(entries []segment.Entry, bytes int64) {
	var records int64
	for i := range entries {
		records += int64(entries[i].Last-entries[i].Base) + 1
	}
	s.records.Add(records)
	s.batches.Add(int64(len(entries)))
	s.bytes.Add(bytes)
}

func (s *stats) read(bytes int) {
	s.reads.Add(1)
	s.readBytes.Add(int64(bytes))
}

func (s *stats) removed(list []*segment.Segment) {
	var bytes int64
	for _, gone := range list {
		bytes += int64(gone.Size())
	}
	s.segmentsRemoved.Add(int64(len(list)))
	s.bytesRemoved.Add(bytes)
}

// Stats are the offsets, the segments and the counters of a log.
type Stats struct {
	Start, End, DurableEnd, LogEnd record.Offset
	Epoch                          record.Epoch
	Bytes                          int64 // of all log files
	Segments                       []SegmentStats
	Counters                       Counters
	Rates                          Rates
}

// SegmentStats is one segment.
type SegmentStats struct {
	Base, Next   record.Offset
	Bytes        int64
	MaxTimestamp int64 // ms; NoTimestamp when no record has one
	LastAppend   int64 // ms of the wall clock
	Sealed       bool
}

// Counters count since the log was opened.
type Counters struct {
	Records, Batches, Bytes int64 // appended
	Reads, ReadBytes        int64 // calls of Read that returned batches
	SyncRounds              int64
	SegmentsRemoved         int64 // by retention and trims
	BytesRemoved            int64 // of these
	Trims                   int64 // that moved the log start
}

// Add adds those of another log.
func (c *Counters) Add(o Counters) {
	c.Records += o.Records
	c.Batches += o.Batches
	c.Bytes += o.Bytes
	c.Reads += o.Reads
	c.ReadBytes += o.ReadBytes
	c.SyncRounds += o.SyncRounds
	c.SegmentsRemoved += o.SegmentsRemoved
	c.BytesRemoved += o.BytesRemoved
	c.Trims += o.Trims
}

// Stats takes stock. The figures are not of one instant.
func (l *Log) Stats() Stats {
	st := Stats{
		Start: l.Start(), End: l.End(), DurableEnd: l.DurableEnd(), LogEnd: l.LogEnd(),
		Counters: l.Counters(), Rates: l.Rates(),
	}
	l.appendMu.Lock()
	st.Epoch = l.epoch
	l.appendMu.Unlock()
	for _, s := range l.segments() {
		f := facts(s)
		st.Bytes += f.Bytes
		st.Segments = append(st.Segments, SegmentStats{
			Base: f.Base, Next: f.Next, Bytes: f.Bytes, MaxTimestamp: f.MaxTimestamp,
			LastAppend: f.LastAppend, Sealed: s.Sealed(),
		})
	}
	return st
}

// Counters are the counters alone, without a look at the segments.
func (l *Log) Counters() Counters {
	s := &l.stats
	return Counters{
		Records: s.records.Load(), Batches: s.batches.Load(), Bytes: s.bytes.Load(),
		Reads: s.reads.Load(), ReadBytes: s.readBytes.Load(),
		SyncRounds: s.syncRounds.Load(), SegmentsRemoved: s.segmentsRemoved.Load(),
		BytesRemoved: s.bytesRemoved.Load(), Trims: s.trims.Load(),
	}
}

// Summary is a log in a few figures.
type Summary struct {
	Start, End, DurableEnd, LogEnd record.Offset
	Segments                       int
	Bytes                          int64 // of all log files
	Counters                       Counters
}

// Summary takes no lock and allocates nothing, so that whoever watches ten thousand logs
// holds up none of them, not even one whose disk does not answer. The figures are not of
// one instant.
func (l *Log) Summary() Summary {
	s := Summary{Start: l.Start(), End: l.End(), DurableEnd: l.DurableEnd(), LogEnd: l.LogEnd(), Counters: l.Counters()}
	view := l.view.Load()
	w := walks.Get().(*walk)
	view.Ascend(w.add)
	s.Segments, s.Bytes = view.Len(), w.end().bytes
	return s
}

// Expires is when retention by age may take the record at an offset, in milliseconds of
// the wall clock: at the earliest, for a segment goes after those before it only, and the
// active one lives on with each append. False where age takes nothing, or where there is
// no such record. It takes no lock.
func (l *Log) Expires(off record.Offset) (ms int64, limited bool) {
	if off >= l.End() {
		return 0, false
	}
	s := l.locate(max(off, l.Start()))
	if s == nil {
		return 0, false
	}
	return retention.Expires(facts(s), l.Config().RetentionAge)
}
