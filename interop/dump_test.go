//go:build interop

package interop

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const dumpLogSegments = "org.apache.kafka.tools.DumpLogSegments"

// dump is what kafka-dump-log said in one run: of each file what it printed,
// and besides that every word that is no part of a healthy dump.
//
// The tool exits with 0 whatever it finds, so nothing here trusts the exit
// code alone: a line that is not understood is a finding too.
type dump struct {
	files    map[string]*dumpedFile // by base name
	findings []string
}

type dumpedFile struct {
	batches []dumpedBatch
	offsets []int64 // of the records of all batches
	entries []dumpedEntry
	times   []dumpedTime
	empty   bool // "is empty.", said of an .index only
	sane    bool // "passed sanity check."
}

type dumpedBatch struct {
	base, last       int64
	count, size      int64
	position         int64
	maxTimestamp     int64
	epoch            int64
	crc              int64
	timestampType    string
	codec            string
	valid            string // "true"
	magic            string // "2"
	producer         int64
	control, inTrans string
}

type (
	dumpedEntry struct{ offset, position int64 }
	dumpedTime  struct{ timestamp, offset int64 }
)

// dumpLog runs kafka-dump-log over files of dir. It is given bare names, as it
// takes a comma in a path for the end of the path.
func dumpLog(dir string, files []string, flags ...string) (*dump, error) {
	args := append(flags, "--files", strings.Join(files, ","), "--max-message-size", "1073741824")
	result, err := kafka.run(dir, dumpLogSegments, args...)
	if err != nil {
		return nil, err
	}
	return parseDump(result), nil
}

func parseDump(result run) *dump {
	d := &dump{files: make(map[string]*dumpedFile)}
	if result.exit != 0 {
		d.find("exit code %d", result.exit)
	}
	var file *dumpedFile
	for line := range strings.Lines(result.stdout) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, "Dumping "); ok {
			file = new(dumpedFile)
			d.files[filepath.Base(name)] = file
		} else if file == nil || !file.take(line) {
			d.find("%s", line)
		}
	}
	d.takeErrors(result.stderr)
	return d
}

func (d *dump) find(format string, args ...any) {
	d.findings = append(d.findings, fmt.Sprintf(format, args...))
}

// take understands one line of a healthy dump.
func (f *dumpedFile) take(line string) bool {
	switch {
	case strings.HasPrefix(line, "Log starting offset: "):
	case strings.HasSuffix(line, " is empty."):
		f.empty = true
	case strings.HasSuffix(line, " passed sanity check."):
		f.sane = true
	case strings.HasPrefix(line, "baseOffset: "):
		return f.takeBatch(line)
	case strings.HasPrefix(line, "| offset: "):
		m := recordLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		f.offsets = append(f.offsets, number(m[1]))
	case strings.HasPrefix(line, "offset: "):
		m := entryLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		f.entries = append(f.entries, dumpedEntry{number(m[1]), number(m[2])})
	case strings.HasPrefix(line, "timestamp: "):
		m := timeLine.FindStringSubmatch(line)
		if m == nil {
			return false
		}
		f.times = append(f.times, dumpedTime{number(m[1]), number(m[2])})
	default:
		return false
	}
	return true
}

var (
	recordLine = regexp.MustCompile(`^\| offset: (\d+) (?:CreateTime|LogAppendTime): `)
	entryLine  = regexp.MustCompile(`^offset: (\d+) position: (\d+)$`)
	timeLine   = regexp.MustCompile(`^timestamp: (-?\d+) offset: (\d+)$`)
	batchField = regexp.MustCompile(`(\w+): (\S+)`)
)

// takeBatch reads the fields of a batch's line by their names.
func (f *dumpedFile) takeBatch(line string) bool {
	fields := make(map[string]string)
	for _, m := range batchField.FindAllStringSubmatch(line, -1) {
		fields[m[1]] = m[2]
	}
	for _, name := range []string{"lastOffset", "count", "position", "size", "magic", "crc", "isvalid", "compresscodec"} {
		if fields[name] == "" {
			return false
		}
	}
	b := dumpedBatch{
		base:     number(fields["baseOffset"]),
		last:     number(fields["lastOffset"]),
		count:    number(fields["count"]),
		size:     number(fields["size"]),
		position: number(fields["position"]),
		epoch:    number(fields["partitionLeaderEpoch"]),
		crc:      number(fields["crc"]),
		producer: number(fields["producerId"]),
		codec:    fields["compresscodec"],
		magic:    fields["magic"],
		valid:    fields["isvalid"],
		control:  fields["isControl"],
		inTrans:  fields["isTransactional"],
	}
	for _, name := range []string{"CreateTime", "LogAppendTime"} {
		if text := fields[name]; text != "" {
			b.timestampType, b.maxTimestamp = name, number(text)
		}
	}
	f.batches = append(f.batches, b)
	return true
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // the patterns let through digits only, and Kafka has no more than 64 bits
	}
	return n
}

// takeErrors makes findings of all that the tool says on standard error, but
// for one: it starts counting offsets at -1, so of every segment that does not
// begin at 0 it says "Non-consecutive offsets in FILE" and "-1 is followed by
// N". Where there are no other pairs the offsets are consecutive.
func (d *dump) takeErrors(stderr string) {
	var heading string
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.HasPrefix(line, "Non-consecutive offsets in "):
			heading = line
		case heading != "" && strings.HasPrefix(line, "  -1 is followed by "):
		case heading != "" && strings.Contains(line, " is followed by "):
			d.find("%s: %s", heading, strings.TrimSpace(line))
		case strings.HasPrefix(line, "\tat "): // of a Java exception, named by the line before
		default:
			heading = ""
			d.find("%s", line)
		}
	}
}
