package partition

import (
	"sync/atomic"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// stats count what a log did since it was opened.
type stats struct {
	records, batches, bytes atomic.Int64
	reads, readBytes        atomic.Int64
	syncRounds              atomic.Int64
	segmentsRemoved         atomic.Int64
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
	SegmentsRemoved         int64
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
	}
}
