//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/varvelog/varve/record"
)

// segmentReport counts what kafka-dump-log found in one segment, for a test to
// hold against what it wrote.
type segmentReport struct {
	base, next   int64 // offsets; next is one past the last record
	bytes        int64
	batches      int
	records      int
	entries      int // of the offset index
	times        int // of the time index
	maxTimestamp int64
}

// checkSegmentDir fails the test for anything that kafka-dump-log has to say
// against the segments of a directory, or that differs from varve's own
// reading of them, and returns what it counted, oldest segment first.
//
// The directory may hold one partition of varve or of Kafka, stopped. Its
// sealed segments must have both index files; the last one may lack them, as
// the entries of an active segment are partly in memory.
func checkSegmentDir(t testing.TB, dir string) []segmentReport {
	t.Helper()
	reports, findings, err := inspectSegmentDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range findings {
		t.Errorf("%s: %s", dir, finding)
	}
	return reports
}

// inspectSegmentDir is checkSegmentDir without a test to fail.
func inspectSegmentDir(dir string) ([]segmentReport, []string, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return nil, nil, err
	}
	if len(logs) == 0 {
		return nil, nil, fmt.Errorf("no segment in %s", dir)
	}
	c := &segmentCheck{dir: dir}
	var stems []string
	for i, log := range logs { // Glob sorts, and names are padded: oldest first
		stem := strings.TrimSuffix(filepath.Base(log), ".log")
		stems = append(stems, stem)
		c.addFiles(stem, i == len(logs)-1)
	}
	if err := c.dump(); err != nil {
		return nil, nil, err
	}
	var reports []segmentReport
	for _, stem := range stems {
		report, err := c.segment(stem)
		if err != nil {
			return nil, nil, err
		}
		if n := len(reports); n > 0 && reports[n-1].next != report.base {
			c.find("%s.log begins at %d, the segment before it ends at %d", stem, report.base, reports[n-1].next)
		}
		reports = append(reports, report)
	}
	return reports, c.findings, nil
}

// segmentCheck gathers what is wrong with a directory.
type segmentCheck struct {
	dir           string
	logs, indexes []string // file names
	whole         *dump    // by --deep-iteration, of all files
	sanity        *dump    // by --index-sanity-check, of the indexes
	findings      []string
}

func (c *segmentCheck) find(format string, args ...any) {
	c.findings = append(c.findings, fmt.Sprintf(format, args...))
}

// addFiles takes up the files of one segment. The tool is never given a time
// index without an offset index: it would make an empty one and then fail.
func (c *segmentCheck) addFiles(stem string, last bool) {
	c.logs = append(c.logs, stem+".log")
	hasIndex, hasTime := c.exists(stem+".index"), c.exists(stem+".timeindex")
	switch {
	case hasIndex && hasTime:
		c.indexes = append(c.indexes, stem+".index", stem+".timeindex")
	case hasIndex || hasTime || !last:
		c.find("%s: an index file is missing (index %t, timeindex %t)", stem, hasIndex, hasTime)
	}
}

func (c *segmentCheck) exists(name string) bool {
	_, err := os.Stat(filepath.Join(c.dir, name))
	return err == nil
}

func (c *segmentCheck) dump() (err error) {
	if c.whole, err = dumpLog(c.dir, append(c.logs[:len(c.logs):len(c.logs)], c.indexes...), "--deep-iteration"); err != nil {
		return err
	}
	c.adopt("--deep-iteration", c.whole)
	c.sanity = &dump{}
	if len(c.indexes) == 0 {
		return nil
	}
	if c.sanity, err = dumpLog(c.dir, c.indexes, "--index-sanity-check"); err != nil {
		return err
	}
	c.adopt("--index-sanity-check", c.sanity)
	verified, err := dumpLog(c.dir, c.indexes, "--verify-index-only")
	if err != nil {
		return err
	}
	c.adopt("--verify-index-only", verified)
	return nil
}

func (c *segmentCheck) adopt(flag string, d *dump) {
	for _, finding := range d.findings {
		c.find("kafka-dump-log %s: %s", flag, finding)
	}
}

// segment compares the dump of one segment with its files.
func (c *segmentCheck) segment(stem string) (segmentReport, error) {
	base, err := strconv.ParseInt(stem, 10, 64)
	if err != nil {
		return segmentReport{}, err
	}
	report := segmentReport{base: base, next: base, maxTimestamp: record.NoTimestamp}
	data, err := os.ReadFile(filepath.Join(c.dir, stem+".log"))
	if err != nil {
		return report, err
	}
	if log := c.whole.files[stem+".log"]; log != nil {
		c.compareLog(stem, log, data, &report)
	} else {
		c.find("%s.log is not in the dump", stem)
	}
	for _, index := range c.indexes {
		if strings.TrimSuffix(index, filepath.Ext(index)) != stem {
			continue
		}
		if err := c.compareIndex(index, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// compareLog holds each batch as Kafka reads it against varve's reading, and
// the positions, offsets and counts against each other.
func (c *segmentCheck) compareLog(name string, log *dumpedFile, data []byte, report *segmentReport) {
	for _, b := range log.batches {
		if b.valid != "true" || b.magic != "2" {
			c.find("%s.log: batch at %d: isvalid: %s, magic: %s", name, b.position, b.valid, b.magic)
		}
		if b.position != report.bytes || b.base != report.next {
			c.find("%s.log: batch at %d has base offset %d, want it at %d with %d", name, b.position, b.base, report.bytes, report.next)
		}
		ours, err := record.Parse(data[min(b.position, int64(len(data))):])
		if err == nil {
			err = ours.Verify()
		}
		if err != nil {
			c.find("%s.log: batch at %d: varve: %v", name, b.position, err)
		} else if as := asDumped(ours, b); as != b {
			c.find("%s.log: batch at %d: Kafka reads %+v, varve %+v", name, b.position, b, as)
		}
		report.batches++
		report.records += int(b.count)
		report.bytes += b.size
		report.next = b.last + 1
		report.maxTimestamp = max(report.maxTimestamp, b.maxTimestamp)
	}
	if report.bytes != int64(len(data)) {
		c.find("%s.log: Kafka reads %d bytes of %d", name, report.bytes, len(data))
	}
	if len(log.offsets) != report.records {
		c.find("%s.log: headers count %d records, %d are there", name, report.records, len(log.offsets))
	}
	for i, offset := range log.offsets {
		if want := report.base + int64(i); offset != want {
			c.find("%s.log: record %d has offset %d, want %d", name, i, offset, want)
			break
		}
	}
}

// asDumped is varve's reading of a batch in the terms of the dump.
func asDumped(ours record.Batch, at dumpedBatch) dumpedBatch {
	timestampType := "CreateTime"
	if ours.Attributes.LogAppendTime() {
		timestampType = "LogAppendTime"
	}
	return dumpedBatch{
		base:          int64(ours.BaseOffset),
		last:          int64(ours.LastOffset()),
		count:         int64(ours.Count),
		size:          int64(ours.Size()),
		position:      at.position,
		maxTimestamp:  ours.MaxTimestamp,
		epoch:         int64(ours.LeaderEpoch),
		crc:           int64(ours.CRC),
		timestampType: timestampType,
		codec:         ours.Attributes.Codec().String(),
		valid:         "true",
		magic:         strconv.Itoa(int(ours.Magic)),
		producer:      ours.ProducerID,
		control:       strconv.FormatBool(ours.Attributes.Control()),
		inTrans:       strconv.FormatBool(ours.Attributes.Transactional()),
	}
}

// compareIndex checks what the tool passes over: whether it saw every entry
// that the file has room for (it stops, without a word, at an entry of zeros),
// and whether the offset index rises (it looks at each entry alone).
func (c *segmentCheck) compareIndex(name string, report *segmentReport) error {
	info, err := os.Stat(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	file := c.whole.files[name]
	if file == nil {
		c.find("%s is not in the dump", name)
		return nil
	}
	size, n := 8, len(file.entries)
	if filepath.Ext(name) == ".timeindex" {
		size, n = 12, len(file.times)
		report.times = n
	} else {
		report.entries = n
		if file.empty != (info.Size() == 0) {
			c.find("%s: is empty: %t, and it has %d bytes", name, file.empty, info.Size())
		}
	}
	if int64(n)*int64(size) != info.Size() {
		c.find("%s: Kafka sees %d entries of %d bytes in a file of %d", name, n, size, info.Size())
	}
	for i := 1; i < len(file.entries); i++ {
		if before, e := file.entries[i-1], file.entries[i]; e.offset <= before.offset || e.position <= before.position {
			c.find("%s: entry %d does not rise: %+v after %+v", name, i, e, before)
		}
	}
	for i := 1; i < len(file.times); i++ {
		if before, e := file.times[i-1], file.times[i]; e.timestamp <= before.timestamp || e.offset <= before.offset {
			c.find("%s: entry %d does not rise: %+v after %+v", name, i, e, before)
		}
	}
	if sane := c.sanity.files[name]; sane == nil || !sane.sane && !sane.empty {
		c.find("%s: no word of the sanity check", name)
	}
	return nil
}
