//go:build interop

package interop

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/varvelog/varve/record"
)

const indexInterval = 4096 // bytes; Kafka's index.interval.bytes

// segmentFiles is one sealed segment in memory, its index entries placed by
// the rule that Kafka's LogSegment follows.
type segmentFiles struct {
	base             record.Offset
	log, index, time []byte
	batches, records int
}

// fillSegment builds batches back to back. An entry is due before a batch when
// more than indexInterval bytes were written since the last one.
func fillSegment(base record.Offset, specs []batchSpec) segmentFiles {
	s := segmentFiles{base: base}
	var builder record.Builder
	largest := dumpedTime{timestamp: record.NoTimestamp}
	since := 0
	for _, spec := range place(specs, base) {
		position := len(s.log)
		s.log = spec.build(&builder, s.log)
		if ts := spec.maxTimestamp(); ts > largest.timestamp {
			largest = dumpedTime{timestamp: ts, offset: int64(spec.lastOffset())}
		}
		if since > indexInterval {
			s.addEntry(spec.lastOffset(), position)
			s.addTime(largest)
			since = 0
		}
		since += len(s.log) - position
		s.batches++
		s.records += len(spec.records)
	}
	s.addTime(largest)
	return s
}

func (s *segmentFiles) addEntry(last record.Offset, position int) {
	s.index = binary.BigEndian.AppendUint32(s.index, uint32(last-s.base))
	s.index = binary.BigEndian.AppendUint32(s.index, uint32(position))
}

// addTime adds the entry if it is later than the last one.
func (s *segmentFiles) addTime(e dumpedTime) {
	previous := record.NoTimestamp
	if n := len(s.time); n > 0 {
		previous = int64(binary.BigEndian.Uint64(s.time[n-12:]))
	}
	if e.timestamp <= previous {
		return
	}
	s.time = binary.BigEndian.AppendUint64(s.time, uint64(e.timestamp))
	s.time = binary.BigEndian.AppendUint32(s.time, uint32(e.offset-int64(s.base)))
}

func (s *segmentFiles) stem(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d", s.base))
}

func (s *segmentFiles) write(t *testing.T, dir string) {
	t.Helper()
	for suffix, data := range map[string][]byte{".log": s.log, ".index": s.index, ".timeindex": s.time} {
		if err := os.WriteFile(s.stem(dir)+suffix, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// segmentSpecs are the batches of a log from the nth on: every codec, rising
// timestamps with some that fall back, rising epochs.
func segmentSpecs(n, batches int) []batchSpec {
	specs := make([]batchSpec, batches)
	for j := range specs {
		i := n + j
		records := manyRecords(1 + i%40)
		for k := range records {
			records[k].Timestamp = t0 + int64(i)*1000 + int64(k) - int64(i%7)*3000
		}
		specs[j] = batchSpec{options: record.BatchOptions{Codec: codecs[i%len(codecs)], Epoch: epochOf(i)}, records: records}
	}
	return specs
}

func epochOf(batch int) record.Epoch { return record.Epoch(batch / 40) }

// partition writes two sealed segments that follow on, the first from base,
// with so many batches each.
func partition(t *testing.T, dir string, base record.Offset, batches int) []segmentFiles {
	t.Helper()
	first := fillSegment(base, segmentSpecs(0, batches))
	second := fillSegment(base+record.Offset(first.records), segmentSpecs(batches, batches))
	first.write(t, dir)
	second.write(t, dir)
	return []segmentFiles{first, second}
}

// TestDumpLog holds segments of ours against kafka-dump-log, and what it
// counts against what was written.
func TestDumpLog(t *testing.T) {
	for _, base := range []record.Offset{0, 4096, 1 << 40} {
		t.Run(base.String(), func(t *testing.T) {
			dir := t.TempDir()
			segments := partition(t, dir, base, 250)
			reports := checkSegmentDir(t, dir)
			if len(reports) != len(segments) {
				t.Fatalf("%d segments in the dump, want %d", len(reports), len(segments))
			}
			for i, s := range segments {
				r := reports[i]
				if r.base != int64(s.base) || r.next != int64(s.base)+int64(s.records) || r.bytes != int64(len(s.log)) ||
					r.batches != s.batches || r.records != s.records || r.entries*8 != len(s.index) || r.times*12 != len(s.time) {
					t.Errorf("dump counts %+v; written from %v: %d batches, %d records, %d bytes, index %d bytes, timeindex %d bytes",
						r, s.base, s.batches, s.records, len(s.log), len(s.index), len(s.time))
				}
				if r.entries < 5 || r.times < 5 {
					t.Errorf("%d and %d index entries are too few to prove anything", r.entries, r.times)
				}
			}
		})
	}
}

// TestDumpLogShapes has every shape of batch in one segment, markers and
// extreme timestamps among them.
func TestDumpLogShapes(t *testing.T) {
	dir := t.TempDir()
	s := fillSegment(7, allSpecs())
	s.write(t, dir)
	r := checkSegmentDir(t, dir)[0]
	if r.batches != s.batches || r.records != s.records {
		t.Errorf("dump counts %d batches, %d records; written %d, %d", r.batches, r.records, s.batches, s.records)
	}
}

// TestDumpLogEmptyActive: a segment without records, with empty index files or
// none, and a short one that has no entries yet.
func TestDumpLogEmptyActive(t *testing.T) {
	short := fillSegment(50, segmentSpecs(0, 2))
	for _, test := range []struct {
		name    string
		segment segmentFiles
		indexes bool
	}{
		{"no records, empty indexes", segmentFiles{base: 50}, true},
		{"no records, no indexes", segmentFiles{base: 50}, false},
		{"two batches, empty indexes", segmentFiles{base: 50, log: short.log, batches: 2, records: short.records}, true},
		{"two batches, no indexes", segmentFiles{base: 50, log: short.log, batches: 2, records: short.records}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			s := test.segment
			s.write(t, dir)
			if !test.indexes {
				removeFile(t, s.stem(dir)+".index")
				removeFile(t, s.stem(dir)+".timeindex")
			}
			if r := checkSegmentDir(t, dir)[0]; r.batches != s.batches || r.records != s.records || r.entries != 0 || r.times != 0 {
				t.Errorf("dump counts %+v", r)
			}
		})
	}
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
