package varve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// logKey names a log for good: topics are told apart by id, not by name.
type logKey = wal.Log

// keptLog is what a checkpoint has of a log: how it stood, and up to which round of
// the journal the files have everything.
type keptLog struct {
	partition.Checkpoint
	round uint64
}

// checkpointFile is what the engine keeps of all its logs, so that opening them
// needs no look at their records. It is derived: without it, or with an old one,
// more is read at the next open and the answers are the same.
//
// The file "checkpoint", all integers big-endian, replaced by rename:
//
//	 0   8  "varvecp2"
//	 8   8  generation, rising with every save
//	16   4  number of logs
//	20   4  reserved, 0
//	24      for each log: topic id (16), partition (4), round of the journal (8),
//	        and the [partition.CheckpointSize] bytes of partition.Checkpoint
//	last 4  CRC-32C of everything before
//
// Directories of version 1 had no journal: "varvecp1", and no rounds.
//
// The file "clean" says that nothing was written after that checkpoint:
//
//	 0   8  "varvecl1"
//	 8   8  generation of the checkpoint
//	16   8  starts of engines on the directory, up to the one that stopped
//	24   4  CRC-32C of the bytes before
//
// It is written last of all at a clean stop, and removed, durably, before
// anything else at the next start. The number of starts, which the file FORMAT
// keeps, tells a mark that was put back from an old copy.
type checkpointFile struct {
	generation uint64
	starts     uint64 // of engines on the directory, this one included
	logs       map[logKey]keptLog
}

const (
	checkpointMagic = "varvecp2"
	checkpointOld   = "varvecp1"
	cleanMagic      = "varvecl1"
	cleanSize       = 28
	checkpointHead  = 24
	checkpointKey   = 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// load reads the checkpoint and takes the mark of a clean stop away. The mark counts
// if it belongs to the last of so many starts, and the checkpoint with it if the mark
// names it.
func (c *checkpointFile) load(fsys vfs.FS, log *slog.Logger, starts uint64) (stop partition.Stop, err error) {
	c.starts = starts
	defer func() { c.starts++ }()
	data, err := readWhole(fsys, checkpointName)
	if err == nil {
		err = c.decode(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("checkpoint is of no use, reading the logs instead", "path", fsys.Path(checkpointName), "err", err)
	}
	mark, err := readWhole(fsys, cleanName)
	if errors.Is(err, fs.ErrNotExist) {
		return partition.Crashed, nil
	}
	if generation, ok := c.decodeMark(mark); err == nil && ok {
		if stop = partition.Stopped; generation == c.generation && c.logs != nil {
			stop = partition.Clean
		}
	}
	if err := fsys.Remove(cleanName); err != nil {
		return stop, err
	}
	return stop, fsys.SyncDir(".")
}

func (c *checkpointFile) cleanMark() []byte {
	b := binary.BigEndian.AppendUint64([]byte(cleanMagic), c.generation)
	b = binary.BigEndian.AppendUint64(b, c.starts)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark returns the generation of the checkpoint that a mark speaks of, if it
// is a mark of the last start.
func (c *checkpointFile) decodeMark(b []byte) (generation uint64, ok bool) {
	be := binary.BigEndian
	if len(b) != cleanSize || string(b[:8]) != cleanMagic || crc32.Checksum(b[:cleanSize-4], castagnoli) != be.Uint32(b[cleanSize-4:]) {
		return 0, false
	}
	return be.Uint64(b[8:]), be.Uint64(b[16:]) == c.starts
}

func (c *checkpointFile) decode(data []byte) error {
	be := binary.BigEndian
	if len(data) < checkpointHead+4 || string(data[:8]) != checkpointMagic && string(data[:8]) != checkpointOld {
		return errors.New("is not a checkpoint")
	}
	body, sum := data[:len(data)-4], be.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return errors.New("has a wrong checksum")
	}
	key := checkpointKey
	if string(data[:8]) == checkpointOld {
		key -= 8
	}
	entry := key + partition.CheckpointSize
	n := int(be.Uint32(body[16:]))
	if entries := body[checkpointHead:]; n != len(entries)/entry || len(entries)%entry != 0 {
		return fmt.Errorf("has %d bytes for %d logs", len(entries), n)
	}
	logs := make(map[logKey]keptLog, n)
	for b := body[checkpointHead:]; len(b) > 0; b = b[entry:] {
		cp, err := partition.DecodeCheckpoint(b[key:])
		if err != nil {
			return err
		}
		kept := keptLog{Checkpoint: cp}
		if key == checkpointKey {
			kept.round = be.Uint64(b[20:])
		}
		logs[logKey{Topic: [16]byte(b[:16]), Partition: int32(be.Uint32(b[16:]))}] = kept
	}
	c.generation, c.logs = be.Uint64(body[8:]), logs
	return nil
}

func (c *checkpointFile) encode() []byte {
	be := binary.BigEndian
	b := make([]byte, 0, checkpointHead+len(c.logs)*(checkpointKey+partition.CheckpointSize)+4)
	b = append(b, checkpointMagic...)
	b = be.AppendUint64(b, c.generation)
	b = be.AppendUint32(b, uint32(len(c.logs)))
	b = be.AppendUint32(b, 0)
	for k, kept := range c.logs {
		b = append(b, k.Topic[:]...)
		b = be.AppendUint32(b, uint32(k.Partition))
		b = be.AppendUint64(b, kept.round)
		b = kept.Append(b)
	}
	return be.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// round is the highest round of the journal that it speaks of.
func (c *checkpointFile) round() (round uint64) {
	for _, kept := range c.logs {
		round = max(round, kept.round)
	}
	return round
}

// save replaces the checkpoint. What it says is on stable storage already.
func (c *checkpointFile) save(fsys vfs.FS, logs map[logKey]keptLog) error {
	next := checkpointFile{generation: c.generation + 1, starts: c.starts, logs: logs}
	const tmp = checkpointName + ".tmp"
	if err := writeSynced(fsys, tmp, next.encode()); err != nil {
		return fmt.Errorf("write the checkpoint: %w", err)
	}
	if err := fsys.Rename(tmp, checkpointName); err != nil {
		return err
	}
	if err := fsys.SyncDir("."); err != nil {
		return err
	}
	*c = next
	return nil
}

// markClean is the last write of a clean stop.
func (c *checkpointFile) markClean(fsys vfs.FS) error {
	if err := writeSynced(fsys, cleanName, c.cleanMark()); err != nil {
		return err
	}
	return fsys.SyncDir(".")
}

// writeSynced writes a whole file and makes its bytes durable.
func writeSynced(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		fsys.Remove(name)
		return err
	}
	return nil
}

// readWhole reads a file of the engine's own, of which none is large.
func readWhole(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, 0, size))
}
