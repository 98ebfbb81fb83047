package partition

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// swapSuffix is that of a log file which is to take the place of the one of its base
// offset; an empty one, to take it away. Kafka calls what its cleaner has ready the same.
const swapSuffix = ".swap"

func swapName(dir string, base record.Offset) string {
	return dir + "/" + segment.FileName(base) + segment.LogSuffix + swapSuffix
}

// swap ends what a Quarantine that was cut short had begun, or takes it back where the
// metadata does not say that all its files are ready.
func (o *opening) swap(swaps []record.Offset) (err error) {
	l := o.l
	if l.meta.body.Swapping {
		l.log.Warn("damage was being set aside at the stop: ending that", "partition", l.name, "segments", len(swaps))
	}
	if err := l.endSwap(swaps); err != nil {
		return err
	}
	o.bases, err = listLogs(l.env.FS, l.dir)
	return err
}

func (l *Log) endSwap(swaps []record.Offset) error {
	if !l.meta.body.Swapping {
		return l.removeSwaps(swaps)
	}
	// A seal that speaks of the old file would make damage of the new one, so it is
	// gone for certain before there is one.
	if err := l.seals.forget(swaps); err != nil {
		return err
	}
	for _, base := range swaps {
		if err := l.swapOne(base); err != nil {
			return err
		}
	}
	if err := l.env.FS.SyncDir(l.dir); err != nil {
		return err
	}
	body := l.meta.body
	body.Swapping = false
	return l.meta.save(l, body)
}

// swapOne puts one file in its place. Its indexes are made again by who opens it.
func (l *Log) swapOne(base record.Offset) error {
	fsys, swap, name := l.env.FS, swapName(l.dir, base), l.dir+"/"+segment.FileName(base)
	info, err := fsys.Stat(swap)
	if err != nil {
		return err
	}
	stale := []string{name + segment.IndexSuffix, name + segment.TimeIndexSuffix}
	if info.Size() == 0 {
		stale = append(stale, name+segment.LogSuffix)
	}
	for _, file := range stale {
		if err := fsys.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if info.Size() > 0 {
		return fsys.Rename(swap, name+segment.LogSuffix)
	}
	if err := fsys.SyncDir(l.dir); err != nil { // or the order for it goes first
		return err
	}
	return fsys.Remove(swap)
}

func (l *Log) removeSwaps(swaps []record.Offset) error {
	for _, base := range swaps {
		if err := l.env.FS.Remove(swapName(l.dir, base)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil // one that comes back is gone for good before others count, see writeAnew
}

// forget drops the seals of some segments, for good. Those of the others hold on, though
// the log counts one more than when they were made.
func (f *sealFile) forget(bases []record.Offset) error {
	seals, _, err := f.read()
	if err == nil && f.foreign {
		before := sealFile{fs: f.fs, name: f.name, id: f.id, taken: f.taken - 1}
		seals, _, err = before.read()
	}
	if err != nil || len(seals) == 0 {
		return err
	}
	data := f.head()
	for _, base := range slices.Sorted(maps.Keys(seals)) {
		if !slices.Contains(bases, base) {
			s := seals[base]
			data = s.Append(data)
		}
	}
	if err := vfs.WriteSynced(f.fs, f.name+tmpSuffix, data); err != nil {
		return err
	}
	if err := f.fs.Rename(f.name+tmpSuffix, f.name); err != nil {
		return err
	}
	return f.fs.SyncDir(path.Dir(f.name))
}
