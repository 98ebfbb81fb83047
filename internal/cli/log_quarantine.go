package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

const lockName = "LOCK"

func (a *app) logQuarantineCommand() *cobra.Command {
	var paths logPaths
	q := quarantine{app: a}
	c := &cobra.Command{
		Use:   "quarantine [PATH]…",
		Short: "Set damage aside, and keep its bytes",
		Long: `Take what verify finds damaged out of log files, so that readers are not told of it
any more and verify finds nothing. Every other record stays, with its offset; the
offsets that were lost stay a gap, which readers pass over, and are not given out
again. Other faults, of indexes or documents, are not its business.

The bytes are kept. Each damaged range is copied to a file of its own in the folder
quarantine of the data directory, with a JSON file beside it that says where it comes
from, before anything is changed. They are yours to look into, and to remove.

Of segments that are missing nothing can be kept. Bring them back; or else, with
--accept-missing, their offsets become such a gap too. Without it nothing is changed
in a partition that lacks some, because the other gaps would hide these.

The data directory must not be in use. It is started and stopped first, as by every
command that writes, and once more in the end. A segment with damage is written anew,
which takes as much space as it has. Cut short, the command can be given again.

With --dry-run it is started and stopped, too: what the journal has is put back, a torn
end is cut, the checkpoint is written, as by any start. The damage is left as it is.
To change nothing at all, use varve log verify.

PATH is a partition, or a directory above it; a file stands for its partition.`,
		Example: `  varve log quarantine --topic orders --partition 0 --dry-run
  varve log quarantine --topic orders --partition 0`,
		RunE: func(c *cobra.Command, args []string) error {
			resolved, err := paths.resolve(a, c, args)
			if err != nil {
				return err
			}
			q.ctx = c.Context()
			return q.run(resolved)
		},
	}
	paths.flags(a, c)
	c.Flags().BoolVar(&q.acceptMissing, "accept-missing", false, "take records for lost of which nothing is left")
	c.Flags().BoolVar(&q.dryRun, "dry-run", false, "only say what would be set aside; the directory is started and stopped all the same")
	return c
}

// quarantine sets damage aside.
type quarantine struct {
	ctx           context.Context
	app           *app
	acceptMissing bool
	dryRun        bool

	dir     string // the data directory at work
	fs      vfs.FS
	changed bool // something of it
}

// run does one data directory after the other.
func (q *quarantine) run(paths []string) error {
	found, err := findPartitions(paths, true)
	if err != nil {
		return err
	}
	for i := range found.parts {
		if p := &found.parts[i]; p.store == nil || !p.store.holds(filepath.Join(p.dir, "..")) {
			return fmt.Errorf("%s is no partition of a data directory of varve's: work on one", p.dir)
		}
	}
	for _, s := range found.stores {
		var parts []*partitionFiles
		for i := range found.parts {
			if found.parts[i].store == s {
				parts = append(parts, &found.parts[i])
			}
		}
		q.dir, q.fs, q.changed = s.dir, vfs.Dir(s.dir), false
		err := q.store(parts)
		if q.changed { // its indexes and seals are made now, and the clean stop is marked again
			err = errors.Join(err, q.restart())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restart opens the data directory and closes it: what the journal holds is put back, and
// the checkpoint says where each log ends.
func (q *quarantine) restart() error {
	e, err := varve.Open(q.dir, varve.Options{Logger: q.app.logger()})
	if err != nil {
		return err
	}
	return e.Close()
}

// store works on partitions of a data directory, of which it takes the lock.
func (q *quarantine) store(parts []*partitionFiles) (err error) {
	if err := q.restart(); err != nil {
		return err
	}
	lock, err := q.fs.Lock(lockName, fmt.Sprintf("process %d (varve log quarantine), since %s",
		os.Getpid(), time.Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s, err := storeAt(q.dir) // as it is now
	if err != nil {
		return err
	}
	if s == nil || s.left.Stop != partition.Clean {
		return fmt.Errorf("%s was not stopped cleanly: try again", q.dir)
	}
	var errs []error // one partition does not keep the others from it
	for _, p := range parts {
		if err := interrupted(q.ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		errs = append(errs, q.partition(s, p))
	}
	return errors.Join(errs...)
}

func (q *quarantine) partition(s *store, p *partitionFiles) error {
	abs, err := filepath.Abs(p.dir)
	if err != nil {
		return err
	}
	name := filepath.Base(filepath.Dir(abs)) + "/" + filepath.Base(abs)
	var cp *partition.Checkpoint
	if e, ok := s.logs[p.key]; ok {
		cp = &e.Checkpoint
	}
	// The start has said what there is to say of the log, and so does this command.
	log := slog.New(slog.DiscardHandler)
	found, err := partition.Survey(q.fs, log, name, topicsName+"/"+name, cp, maxInflated)
	if err != nil {
		return err
	}
	defer found.Close()
	for i := range found.Found { // as the user wrote it
		d := &found.Found[i]
		d.Path = filepath.Join(p.dir, filepath.Base(d.Path))
	}
	if len(found.Found) == 0 {
		_, err := fmt.Fprintf(q.app.out, "%s: nothing to set aside\n", name)
		return err
	}
	kept := make([]string, len(found.Found))
	if !q.dryRun {
		if err := q.refuse(name, found.Found); err != nil {
			return err
		}
		if err := q.unmark(); err != nil {
			return err
		}
		kept, err = found.SetAside(partition.Keeper{Dir: partition.QuarantineName, Now: time.Now()})
		if kept == nil {
			return err
		}
	}
	for i := range found.Found {
		if _, werr := fmt.Fprintln(q.app.out, q.line(name, &found.Found[i], kept[i])); werr != nil {
			return errors.Join(err, werr)
		}
	}
	return err
}

// refuse says that there are records of which nothing is left, unless that is accepted.
func (q *quarantine) refuse(name string, found []partition.Damage) error {
	for i := range found {
		if d := &found[i]; d.IsMissing() && !q.acceptMissing {
			return hintf(fmt.Errorf("%s: nothing is left of offsets %d to %d: %s: %s", name, d.From, d.To-1, d.Path, d.Reason),
				"bring the file back, or take them for lost with --accept-missing")
		}
	}
	return nil
}

// unmark takes the mark of the clean stop away: the next start must not take the files
// for ones that somebody put there.
func (q *quarantine) unmark() error {
	q.changed = true
	if err := q.fs.Remove(checkpoint.MarkName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return q.fs.SyncDir(".")
}

// line says what became of a range, or would.
func (q *quarantine) line(name string, d *partition.Damage, kept string) string {
	offsets := "no offsets"
	if d.From < d.To {
		offsets = fmt.Sprintf("offsets %d to %d", d.From, d.To-1)
	}
	if d.IsMissing() {
		if q.dryRun {
			return fmt.Sprintf("%s: %s are missing, and would need --accept-missing: %s: %s", name, offsets, d.Path, d.Reason)
		}
		return fmt.Sprintf("%s: %s taken for lost: %s: %s", name, offsets, d.Path, d.Reason)
	}
	what := fmt.Sprintf("%s, %s at position %d of %s: %s", offsets, bytesText(int64(d.End-d.At)), d.At, d.Path, d.Reason)
	if q.dryRun {
		return fmt.Sprintf("%s: would set aside %s", name, what)
	}
	return fmt.Sprintf("%s: set aside %s: kept in %s", name, what, filepath.Join(q.dir, filepath.FromSlash(kept)))
}
