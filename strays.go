package varve

import (
	"io/fs"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// nameStraysIn is nameStrays for a directory that was not listed yet.
func (e *Engine) nameStraysIn(dir string, ours func(name string, isDir bool) bool) error {
	entries, err := e.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	e.nameStrays(dir, entries, ours)
	return nil
}

// nameStrays names in the log what is in a directory of the engine and was not put
// there by it. It is left alone, except for a file that was being made when an
// engine stopped.
func (e *Engine) nameStrays(dir string, entries []fs.DirEntry, ours func(name string, isDir bool) bool) {
	for _, f := range entries {
		name, path := f.Name(), dir+"/"+f.Name()
		if dir == "." {
			path = name
		}
		made := strings.TrimSuffix(name, twin.TmpSuffix)
		switch {
		case ours(name, f.IsDir()):
		case made != name && f.Type().IsRegular() && ours(made, false):
			if err := e.fs.Remove(path); err != nil {
				e.log.Warn("cannot remove a leftover", "path", e.fs.Path(path), "err", err)
			}
		default:
			e.log.Warn("ignoring what does not belong into a data directory", "path", e.fs.Path(path))
		}
	}
}

// inRoot says whether the engine gives a name in the data directory.
func inRoot(name string, isDir bool) bool {
	switch name {
	case lockName, formatName, formatName + twin.CopySuffix, checkpointName, cleanName:
		return !isDir
	case topicsName, journalDir, partition.QuarantineName, "lost+found":
		return isDir
	}
	return false
}

// inJournal says whether the engine gives a name in the directory of the journal.
func inJournal(name string, isDir bool) bool {
	return !isDir && strings.HasSuffix(strings.TrimSuffix(name, twin.TmpSuffix), wal.Suffix)
}

// inTopic says whether the engine gives a name in the directory of a topic of so
// many partitions.
func inTopic(partitions int) func(name string, isDir bool) bool {
	return func(name string, isDir bool) bool {
		switch name {
		case topicFile, topicFile + twin.CopySuffix:
			return !isDir
		}
		n, ok := partitionNumber(name)
		return isDir && ok && n < partitions
	}
}

// partitionNumber is the partition of which a directory has the name.
func partitionNumber(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && strconv.Itoa(n) == name
}
