package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

func (a *app) logDumpCommand() *cobra.Command {
	var paths logPaths
	var records, asJSON bool
	c := &cobra.Command{
		Use:   "dump [PATH]…",
		Short: "Show segments, batches, records and index entries",
		Long: `Show what log files hold: each segment with its batches, with --records their
records, and the entries of its indexes. An index entry holds the last offset of
the batch that starts at its position; a time index entry the largest timestamp so
far and the last offset of the batch that carries it.

PATH is a .log, .index or .timeindex file, or a directory at any level. What is
damaged is named in its place and passed over; the exit code is 1 then.`,
		Example: `  varve log dump --topic orders --partition 0 --records
  varve log dump /var/lib/kafka/data/orders-0
  varve log dump --all --json | jq 'select(.type == "batch") | .codec'`,
		RunE: func(c *cobra.Command, args []string) error {
			resolved, err := paths.resolve(a, c, args)
			if err != nil {
				return err
			}
			parts, err := findPartitions(resolved, false)
			if err != nil {
				return err
			}
			d := newDump(a.out, asJSON, records)
			err = d.all(c.Context(), parts)
			if ferr := d.out.Flush(); err == nil {
				err = ferr
			}
			if err == nil && d.faults > 0 {
				return hintf(fmt.Errorf("%s found", count(d.faults, "fault")), "varve log verify checks everything")
			}
			return err
		},
	}
	paths.flags(a, c)
	c.Flags().BoolVar(&records, "records", false, "show the records of each batch")
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a segment, batch, record, index entry and fault, a line each")
	return c
}

// dump prints what it is told of, as a tree or as JSON.
type dump struct {
	out     *bufio.Writer
	json    bool
	records bool
	faults  int64
	codec   payloads
	path    string // of the log file being read
}

func newDump(w io.Writer, asJSON, records bool) *dump {
	return &dump{out: bufio.NewWriterSize(w, 64<<10), json: asJSON, records: records}
}

// dumpLine is one line of the output. Each kind marshals to JSON with a type.
type dumpLine interface{ text() string }

func (d *dump) print(l dumpLine) error {
	if d.json {
		return writeJSON(d.out, l)
	}
	_, err := fmt.Fprintln(d.out, l.text())
	return err
}

func (d *dump) all(ctx context.Context, found *found) error {
	for _, n := range found.notes {
		if n.Type != "fault" {
			continue
		}
		if err := d.fault(n); err != nil {
			return err
		}
	}
	for _, p := range found.parts {
		in, err := p.inspect()
		if err != nil {
			if err := d.fault(p.barred(err)); err != nil {
				return err
			}
		}
		walk := newLogWalk(ctx, !in.Sparse, d, func(int64) {})
		for i, s := range p.segments {
			if err := d.segment(walk, &s, p.beyond(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dump) segment(walk *logWalk, s *segmentFiles, beyond []segment.Head) error {
	if s.log {
		d.path = s.path(segment.LogSuffix)
		if err := d.print(newDumpFile("segment", d.path, s.base)); err != nil {
			return err
		}
		_, err := walk.file(s, beyond)
		var barred *readError
		if errors.As(err, &barred) {
			err = d.fault(barred.fault(walk.chain.Next))
		}
		if err != nil {
			return err
		}
		if err := walk.close(0); err != nil {
			return err
		}
	}
	fs, name := vfs.Dir(s.dir), segment.FileName(s.base)
	if s.index {
		if err := d.print(newDumpFile("index", s.path(segment.IndexSuffix), s.base)); err != nil {
			return err
		}
		for e, err := range index.Entries(fs, name, s.base) {
			if err := d.entry(&dumpIndexEntry{"index_entry", e.Offset, e.Pos}, s.path(segment.IndexSuffix), err); err != nil {
				return err
			}
		}
	}
	if s.timeIndex {
		if err := d.print(newDumpFile("time_index", s.path(segment.TimeIndexSuffix), s.base)); err != nil {
			return err
		}
		for e, err := range index.Times(fs, name, s.base) {
			if err := d.entry(&dumpTimeEntry{"time_index_entry", e.Timestamp, e.Offset}, s.path(segment.TimeIndexSuffix), err); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry prints an index entry, or what is wrong with it.
func (d *dump) entry(l dumpLine, path string, err error) error {
	if err == nil {
		return d.print(l)
	}
	f, ok := indexFault(path, err)
	if !ok {
		f = unreadable(path, 0, -1, err)
	}
	return d.fault(f)
}

func (d *dump) batch(b *record.Batch, at record.Pos, _ bool) error {
	if err := d.print(newDumpBatch(b, at)); err != nil {
		return err
	}
	if !d.records {
		return nil
	}
	reason, err := d.codec.each(b, func(r *record.Record) error {
		return d.print(newDumpRecord(r, b.Attributes.Control()))
	})
	if err == nil && reason != "" {
		err = d.fault(fault{Type: "fault", Path: d.path, Position: int64(at), Offset: int64(b.BaseOffset), Reason: reason})
	}
	return err
}

func (d *dump) fault(f fault) error {
	d.faults++
	if d.json {
		return writeJSON(d.out, &f)
	}
	if f.Offset >= 0 {
		f.Path = filepath.Base(f.Path) // the line above has the rest
	}
	_, err := fmt.Fprintln(d.out, "  damaged:", f.text())
	return err
}
