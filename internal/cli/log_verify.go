package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

func (a *app) logVerifyCommand() *cobra.Command {
	var paths logPaths
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [PATH]…",
		Short: "Check that log files and their indexes are whole",
		Long: `Read log files from end to end and check everything in them: that each batch has
its checksum and decodes to the records it counts, that offsets follow on within
and across segments, and that the indexes say what the log says. Every fault is
one line with file, position and offset; the exit code is 1 if there is any.

In a directory of varve's it also checks that nothing is missing: segments between
the log start and the end that the last checkpoint knows, partitions, topics, and
either of the two files of topic.json, partition.json and FORMAT; and that each topic
is in the directory of its name, and once. Damage to files that are
derived, the checkpoint and the seals, is a warning: they cost a start some time.
So are indexes that the last engine, which did not stop cleanly, has left unfinished.

Where the last engine did not stop cleanly, log files may lack what the journal has:
they are checked as the next start, which puts it back, will find them, and a warning
says how much that is. What is damaged of the journal is a fault; its last round may
be unfinished.

PATH is a file of a segment or a directory at any level, varve's or Kafka's. Gaps
between offsets are no fault in Kafka's, where compaction leaves some. Nor is a
partition without segments in varve's, where nothing was published to it yet.

Memory does not grow with the files. In a directory that is in use, the end that
is just being written may be reported as unfinished, and a segment that retention
takes meanwhile as missing.`,
		Example: `  varve log verify --all
  varve log verify --topic orders --json
  varve log verify /var/lib/kafka/data/orders-0`,
		RunE: func(c *cobra.Command, args []string) error {
			resolved, err := paths.resolve(a, c, args)
			if err != nil {
				return err
			}
			found, err := findPartitions(resolved, true)
			if err != nil {
				return err
			}
			if err := found.putBack(c.Context()); err != nil {
				return err
			}
			bar := a.progress("verify", totalBytes(found.parts))
			v := &verify{ctx: c.Context(), app: a, json: asJSON, bar: bar}
			err = v.run(found)
			bar.done()
			return err
		},
	}
	paths.flags(a, c)
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a fault, warning and partition, a line each")
	return c
}

// verify checks partitions, one after the other.
type verify struct {
	ctx    context.Context
	app    *app
	json   bool
	bar    *progress
	codec  payloads
	faults int64 // in all partitions, and above them

	part  partitionReport
	kept  partition.Inspection // what is kept of the partition beside its segments
	path  string               // of the log file being read
	index *indexCheck
	seal  *sealCheck
	// barred says that the rest of the segment could not be read.
	barred bool
	// derived is what it is called when an index is not what the log says, and stale
	// that this was said of the segment.
	derived string
	stale   bool
}

// partitionReport is what was found in one partition.
type partitionReport struct {
	Type     string        `json:"type"` // "partition"
	Path     string        `json:"path"`
	Segments int           `json:"segments"`
	Batches  int64         `json:"batches"`
	Records  int64         `json:"records"`
	Bytes    int64         `json:"bytes"`
	Start    record.Offset `json:"start"` // first offset
	End      record.Offset `json:"end"`   // one past the last offset
	Faults   int64         `json:"faults"`
}

func (r *partitionReport) text() string {
	verdict := "ok"
	if r.Faults > 0 {
		verdict = count(r.Faults, "fault")
	}
	if r.Segments == 0 {
		return r.Path + ": no segments: " + verdict
	}
	offsets := fmt.Sprintf("offsets %d to %d", r.Start, r.End-1)
	if r.Start == r.End {
		offsets = fmt.Sprintf("next offset %d", r.End)
	}
	return fmt.Sprintf("%s: %s, %s, %s, %s: %s", r.Path,
		count(int64(r.Segments), "segment"), count(r.Records, "record"), offsets, bytesText(r.Bytes), verdict)
}

func (v *verify) run(found *found) error {
	for _, n := range found.notes {
		if err := v.fault(n); err != nil {
			return err
		}
	}
	for _, p := range found.parts {
		if err := v.partition(&p); err != nil {
			return err
		}
	}
	if v.faults > 0 {
		return fmt.Errorf("%s found in %s", count(v.faults, "fault"), count(int64(len(found.parts)), "partition"))
	}
	return nil
}

func (v *verify) segment(walk *logWalk, s *segmentFiles, beyond []segment.Head) error {
	v.path, v.index, v.seal = s.path(segment.LogSuffix), newIndexCheck(s, v.derived), newSealCheck()
	v.stale = false
	if s.back != nil {
		v.index = noIndexCheck()
	}
	defer v.index.stop()
	before := v.part.Faults
	size, err := walk.file(s, beyond)
	var barred *readError
	if errors.As(err, &barred) {
		v.barred = true
		return v.fault(barred.fault(max(s.base, walk.chain.Next)))
	}
	if err != nil {
		return err
	}
	if walk.open != nil {
		v.index.skip()
	}
	v.part.Bytes += size
	if size > 0 {
		v.part.Segments++ // as topic describe counts them
	}
	if err := v.indexFaults(v.index.end(record.Pos(size))); err != nil {
		return err
	}
	seal, ok := v.kept.Seals[s.base]
	if !ok || v.part.Faults > before || walk.open != nil {
		return nil // what a seal would add is that something is wrong
	}
	return v.sealed(s, seal, size, walk.chain.Next)
}

// sealed holds a segment that looks whole against its seal.
func (v *verify) sealed(s *segmentFiles, seal segment.Seal, size int64, next record.Offset) error {
	if why := v.seal.against(seal, size, next); why != "" {
		return v.fault(fault{Type: "fault", Path: v.path, Offset: int64(s.base), Reason: why})
	}
	if v.stale {
		return nil
	}
	for _, x := range []struct {
		suffix string
		size   int64
		sum    uint32
	}{
		{segment.IndexSuffix, 8 * int64(seal.Index.Entries), seal.Index.Sum},
		{segment.TimeIndexSuffix, 12 * int64(seal.Index.TimeEntries), seal.Index.TimeSum},
	} {
		if why := indexAgainst(s.path(x.suffix), x.size, x.sum); why != "" {
			if err := v.fault(fault{Type: v.derived, Path: s.path(x.suffix), Offset: int64(s.base), Reason: why}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v *verify) batch(b *record.Batch, at record.Pos, placed bool) error {
	v.part.Batches++
	v.seal.batch(b)
	var n int64
	reason, err := v.codec.each(b, func(*record.Record) error { n++; return nil })
	v.part.Records += n
	if err == nil && reason != "" {
		err = v.fault(fault{Type: "fault", Path: v.path, Position: int64(at), Offset: int64(b.BaseOffset), Reason: reason})
	}
	if err != nil {
		return err
	}
	if !placed {
		v.index.pass(b, at)
		return nil
	}
	return v.indexFaults(v.index.batch(b, at))
}

func (v *verify) indexFaults(faults []fault, err error) error {
	for _, f := range faults {
		v.stale = true
		if ferr := v.fault(f); err == nil {
			err = ferr
		}
	}
	return err
}

// fault prints one fault, or a warning; it is the output of the command, so it goes there.
func (v *verify) fault(f fault) error {
	if f.Path == v.path && v.index != nil {
		v.index.skip()
	}
	if f.Type == "fault" {
		v.faults++
		v.part.Faults++
	}
	v.bar.clear()
	if v.json {
		return writeJSON(v.app.out, &f)
	}
	_, err := fmt.Fprintln(v.app.out, f.text())
	return err
}

func totalBytes(parts []partitionFiles) int64 {
	var sum int64
	for _, p := range parts {
		for _, s := range p.segments {
			if info, err := os.Stat(s.path(segment.LogSuffix)); err == nil {
				sum += info.Size()
			}
		}
	}
	return sum
}
