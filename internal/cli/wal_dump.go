package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve/wal"
)

func (a *app) walDumpCommand() *cobra.Command {
	d := &walDump{}
	c := &cobra.Command{
		Use:   "dump [FILE]…",
		Short: "Show the files, rounds and frames of the journal",
		Long: `Show what the journal holds: its files in the order of their rounds, then those
without any; the rounds, each of which took one sync; and with --frames what each
round made durable: a range of bytes of a segment, or of one that was synced itself;
or a cut, which takes back what the round in front of it has and the segment refused.

Without FILE it is the journal of the data directory. Files may also be named one by
one; of files that do not follow on, the rounds between them are missing.

A round that does not check is damaged, for the round behind it was only written
when it was on stable storage, and so is a journal in which rounds are missing; the
exit code is 1 then. Only the last one may be unfinished, which is no damage.`,
		Example: `  varve wal dump
  varve wal dump --frames --json | jq 'select(.type == "frame") | .topic'
  varve wal dump backup/wal/0000000007.wal`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := d.find(a, args); err != nil {
				return err
			}
			d.ctx, d.out = c.Context(), bufio.NewWriterSize(a.out, 64<<10)
			err := d.run()
			if ferr := d.out.Flush(); err == nil {
				err = ferr
			}
			if err == nil && d.damaged > 0 {
				return hintf(fmt.Errorf("%s found in the journal", count(d.damaged, "fault")), "varve log verify --all says what it means for the topics")
			}
			return err
		},
	}
	c.Flags().BoolVar(&d.frames, "frames", false, "show the frames of each round")
	c.Flags().BoolVar(&d.json, "json", false, "one JSON object a file, round, frame and fault, a line each")
	return c
}

// walDump prints a journal, as a tree or as JSON.
type walDump struct {
	ctx    context.Context
	out    *bufio.Writer
	json   bool
	frames bool

	files   *journalFiles
	whole   bool   // they are all files of a journal
	covered uint64 // rounds that need not be there then
	topics  map[[16]byte]namedTopic
	rounds  map[string]int64  // of each file, by path
	wrong   map[string]string // of files that cannot be read at all
	path    string            // of the file that was printed last
	damaged int64
}

// find finds the files to look at, and the names of topics.
func (d *walDump) find(a *app, paths []string) error {
	var s *store
	var err error
	if len(paths) == 0 {
		if s, err = storeAt(a.dataDir()); s == nil && err == nil {
			err = hintf(fmt.Errorf("there is no data directory %s", a.dataDir()), "name it with --dir or $VARVE_DIR, or give the files of a journal")
		}
		if err == nil {
			d.whole, d.covered = true, s.covered()
			d.files, err = journalIn(a.dataDir())
		}
	} else {
		if err := checkFiles(paths); err != nil {
			return err
		}
		d.files = journalOf(filepath.Dir(paths[0]), paths)
		s, err = storeOf(filepath.Dir(paths[0]))
	}
	if s != nil {
		d.topics = s.catalog().topics
	}
	return err
}

func checkFiles(paths []string) error {
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("there is no file %s", p)
		case err != nil:
			return err
		case !info.Mode().IsRegular():
			return hintf(fmt.Errorf("%s is no file", p), "name the files, or the data directory with --dir")
		}
	}
	return nil
}

// run reads the journal twice: a file is headed by the number of its rounds, and one
// round is all that is in memory.
func (d *walDump) run() error {
	d.rounds, d.wrong = make(map[string]int64), make(map[string]string)
	old, err := d.files.read(func(r wal.Round) error {
		if r.Number > 0 {
			d.rounds[r.Path]++
		}
		return interrupted(d.ctx)
	})
	if err != nil {
		return err
	}
	var gaps []*fault
	missing := old.MissingBetween(0)
	if d.whole {
		missing = old.Missing(d.covered)
	}
	for _, err := range missing {
		f := d.files.missing(err)
		if f.Path == d.files.dir {
			gaps = append(gaps, f)
			continue
		}
		d.wrong[f.Path] = f.Reason
	}
	shown := make(map[string]bool)
	if _, err := d.files.read(func(r wal.Round) error {
		shown[r.Path] = true
		return d.round(&r)
	}); err != nil {
		return err
	}
	for _, name := range d.files.names {
		if p := d.files.paths[name]; !shown[p] {
			if err := d.file(p); err != nil {
				return err
			}
		}
	}
	for _, gap := range gaps {
		d.damaged++
		if err := d.print(gap); err != nil {
			return err
		}
	}
	if old.Round() > 0 || d.damaged > 0 || d.json {
		return nil
	}
	_, err = fmt.Fprintln(d.out, "the journal is empty: it has nothing to put back")
	return err
}

func (d *walDump) print(l dumpLine) error {
	if d.json {
		return writeJSON(d.out, l)
	}
	_, err := fmt.Fprintln(d.out, l.text())
	return err
}

// file heads what a file holds.
func (d *walDump) file(path string) error {
	d.path = path
	number, _ := journalNumber(filepath.Base(path))
	f := &dumpJournal{Type: "file", Path: path, Number: number, Rounds: d.rounds[path], Damaged: d.wrong[path]}
	if info, err := os.Stat(path); err == nil {
		f.Bytes = info.Size()
	}
	if f.Damaged != "" {
		d.damaged++
	}
	return d.print(f)
}

func (d *walDump) round(r *wal.Round) error {
	if err := interrupted(d.ctx); err != nil {
		return err
	}
	if r.Path != d.path {
		if err := d.file(r.Path); err != nil {
			return err
		}
	}
	l := &dumpRound{Type: "round", Number: r.Number, Position: r.Pos, Frames: len(r.Frames), Last: r.Last}
	switch {
	case r.Last:
		l.Unfinished = r.Damaged
	case r.Damaged != "":
		l.Damaged = r.Damaged
		d.damaged++
	}
	if err := d.print(l); err != nil || !d.frames {
		return err
	}
	for i := range r.Frames {
		if err := d.print(newDumpFrame(&r.Frames[i], d.topics)); err != nil {
			return err
		}
	}
	return nil
}
