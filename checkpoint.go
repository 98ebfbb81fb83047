package varve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/google/uuid"

	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// logKey names a log for good: topics are told apart by id, not by name.
type logKey = wal.Log

// keptLog is what a checkpoint has of a log.
type keptLog = checkpoint.Entry

// maxCheckpoint is more than any checkpoint has: of ten million logs.
const maxCheckpoint int64 = 2 << 30

// checkpointFile is what the engine keeps of all its logs, so that opening them
// needs no look at their records. It is derived: without it, or with an old one,
// more is read at the next open and the answers are the same. Package checkpoint has
// the bytes of it, and of the mark of a clean stop.
//
// That mark is written last of all at a clean stop, and removed, durably, before a log
// is written to at the next start. The number of starts, which the file FORMAT
// keeps, tells a mark that was put back from an old copy.
type checkpointFile struct {
	checkpoint.File
	starts uint64 // of engines on the directory, this one included
}

// load reads the checkpoint and the mark of a clean stop. The mark counts if it
// belongs to the last of so many starts, and the checkpoint with it if the mark names
// it. A checkpoint that cannot be read costs time; a mark that cannot be read is an
// error, for without it files that were put into a log would be taken for torn.
func (c *checkpointFile) load(fsys vfs.FS, log *slog.Logger, starts uint64) (left partition.Left, err error) {
	c.starts = starts + 1
	data, err := vfs.ReadFile(fsys, checkpointName, maxCheckpoint)
	if err == nil {
		var f checkpoint.File
		if f, err = checkpoint.Decode(data); err == nil {
			c.File = f
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("checkpoint is of no use, reading the logs instead", "path", fsys.Path(checkpointName), "err", err)
	}
	data, err = vfs.ReadFile(fsys, cleanName, maxCheckpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return left, nil
	}
	if err != nil {
		return left, err
	}
	mark, ok := checkpoint.DecodeMark(data)
	if !ok || mark.Starts != starts {
		return left, nil
	}
	if left.Stop = partition.Stopped; mark.Generation == c.Generation && c.Logs != nil {
		left.Stop = partition.Clean
	}
	info, err := fsys.Stat(cleanName)
	if err != nil {
		return left, err
	}
	left.Marked = vfs.Changed(info)
	return left, nil
}

// partitions is of each topic how many partitions the checkpoint knows.
func (c *checkpointFile) partitions() map[uuid.UUID]int {
	known := make(map[uuid.UUID]int)
	for key := range c.Logs {
		known[key.Topic] = max(known[key.Topic], int(key.Partition)+1)
	}
	return known
}

// unmark takes the mark of a clean stop away.
func (c *checkpointFile) unmark(fsys vfs.FS) error {
	err := fsys.Remove(cleanName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, fsys.SyncDir("."))
}

// save replaces the checkpoint. What it says is on stable storage already.
func (c *checkpointFile) save(fsys vfs.FS, logs map[logKey]keptLog) error {
	next := checkpoint.File{Generation: c.Generation + 1, Logs: logs}
	const tmp = checkpointName + ".tmp"
	if err := vfs.WriteSynced(fsys, tmp, next.Encode()); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	if err := fsys.Rename(tmp, checkpointName); err != nil {
		return err
	}
	if err := fsys.SyncDir("."); err != nil {
		return err
	}
	c.File = next
	return nil
}

// markClean is the last write of a clean stop.
func (c *checkpointFile) markClean(fsys vfs.FS) error {
	mark := checkpoint.Mark{Generation: c.Generation, Starts: c.starts}
	if err := vfs.WriteSynced(fsys, cleanName, mark.Encode()); err != nil {
		return err
	}
	return fsys.SyncDir(".")
}
