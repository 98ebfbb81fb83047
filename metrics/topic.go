package metrics

import (
	"errors"

	"github.com/varvelog/varve"
)

// topicFigures are those of a topic, or of several.
type topicFigures struct {
	partitions, unopened, readOnly int64
	varve.PartitionSummary         // sums; of its offsets only the differences mean anything
}

var ofTopic = labelled([]string{"topic"},
	counter("varve_topic_appended_records_total", "Records appended.",
		func(f *topicFigures) float64 { return float64(f.Counters.Records) }),
	counter("varve_topic_appended_batches_total", "Record batches appended.",
		func(f *topicFigures) float64 { return float64(f.Counters.Batches) }),
	counter("varve_topic_appended_bytes_total", "Record batches appended, as they are stored.",
		func(f *topicFigures) float64 { return float64(f.Counters.Bytes) }),
	counter("varve_topic_sync_rounds_total", "Sync rounds of partitions; one of the journal is one of each partition that takes part.",
		func(f *topicFigures) float64 { return float64(f.Counters.SyncRounds) }),
	counter("varve_topic_reads_total", "Reads that returned record batches.",
		func(f *topicFigures) float64 { return float64(f.Counters.Reads) }),
	counter("varve_topic_read_bytes_total", "Record batches read, as they are stored.",
		func(f *topicFigures) float64 { return float64(f.Counters.ReadBytes) }),
	counter("varve_topic_removed_segments_total", "Segments that retention and trims removed.",
		func(f *topicFigures) float64 { return float64(f.Counters.SegmentsRemoved) }),
	counter("varve_topic_removed_bytes_total", "Log files of segments that retention and trims removed.",
		func(f *topicFigures) float64 { return float64(f.Counters.BytesRemoved) }),
	counter("varve_topic_trims_total", "Trims of a partition that moved its log start.",
		func(f *topicFigures) float64 { return float64(f.Counters.Trims) }),
	gauge("varve_topic_records", "Offsets between log start and end.",
		func(f *topicFigures) float64 { return float64(f.End - f.Start) }),
	gauge("varve_topic_unsynced_records", "Records appended that a power cut would take.",
		func(f *topicFigures) float64 { return float64(max(f.LogEnd-f.DurableEnd, 0)) }),
	gauge("varve_topic_size_bytes", "Log files.",
		func(f *topicFigures) float64 { return float64(f.Bytes) }),
	gauge("varve_topic_segments", "Segments.",
		func(f *topicFigures) float64 { return float64(f.Segments) }),
	gauge("varve_topic_partitions", "Partitions.",
		func(f *topicFigures) float64 { return float64(f.partitions) }),
	gauge("varve_topic_partitions_unopened", "Partitions that could not be opened.",
		func(f *topicFigures) float64 { return float64(f.unopened) }),
	gauge("varve_topic_partitions_readonly", "Partitions that take no publishes because their disk failed them.",
		func(f *topicFigures) float64 { return float64(f.readOnly) }),
)

var ofPartition = labelled([]string{"topic", "partition"},
	counter("varve_partition_appended_records_total", "Records appended.",
		func(f *varve.PartitionSummary) float64 { return float64(f.Counters.Records) }),
	counter("varve_partition_appended_bytes_total", "Record batches appended, as they are stored.",
		func(f *varve.PartitionSummary) float64 { return float64(f.Counters.Bytes) }),
	counter("varve_partition_read_bytes_total", "Record batches read, as they are stored.",
		func(f *varve.PartitionSummary) float64 { return float64(f.Counters.ReadBytes) }),
	gauge("varve_partition_start_offset", "Log start offset: the first that can be read.",
		func(f *varve.PartitionSummary) float64 { return float64(f.Start) }),
	gauge("varve_partition_end_offset", "Published end: the offset that readers get next.",
		func(f *varve.PartitionSummary) float64 { return float64(f.End) }),
	gauge("varve_partition_size_bytes", "Log files.",
		func(f *varve.PartitionSummary) float64 { return float64(f.Bytes) }),
)

// count takes a partition in, and returns what it says, or false where it could not be
// opened.
func (f *topicFigures) count(p *varve.Partition) (s varve.PartitionSummary, opened bool) {
	f.partitions++
	if !p.Opened() {
		f.unopened++
		return s, false
	}
	if errors.Is(p.Err(), varve.ErrReadOnly) {
		f.readOnly++
	}
	s = p.Summary()
	f.Counters.Add(s.Counters)
	f.Start += s.Start
	f.End += s.End
	f.DurableEnd += s.DurableEnd
	f.LogEnd += s.LogEnd
	f.Bytes += s.Bytes
	f.Segments += s.Segments
	return s, true
}
