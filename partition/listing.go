package partition

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// listSegments finds the log files, and those that may be about to take the place of
// some, and names what does not belong here.
func (l *Log) listSegments() (bases, swaps []record.Offset, err error) {
	entries, err := l.env.FS.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		l.log.Error("partition directory is missing, making it anew", "partition", l.name, "dir", l.env.FS.Path(l.dir))
		return nil, nil, errors.Join(Create(l.env.FS, l.dir), l.env.FS.SyncDir(path.Dir(l.dir)))
	}
	if err != nil {
		return nil, nil, err
	}
	var indexes []string
	for _, e := range entries {
		base, ok := parseLogName(e.Name())
		if swap, ok := parseSwapName(e.Name()); ok && e.Type().IsRegular() {
			swaps = append(swaps, swap)
			continue
		}
		switch {
		case !e.Type().IsRegular() || !ok && !ours(e.Name()):
			l.log.Warn("ignoring what does not belong into a partition", "partition", l.name,
				"path", l.env.FS.Path(l.dir+"/"+e.Name()))
		case ok:
			bases = append(bases, base)
		case strings.HasSuffix(e.Name(), tmpSuffix):
			l.env.FS.Remove(l.dir + "/" + e.Name())
		case isIndex(e.Name()):
			indexes = append(indexes, e.Name())
		}
	}
	l.removeOrphans(indexes, bases) // names of 20 digits are sorted as numbers
	return bases, swaps, nil
}

// Used says whether a directory is that of a log that something was appended to.
func Used(fsys vfs.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	made, appended := false, false
	for _, e := range entries {
		_, isLog := parseLogName(e.Name())
		appended = appended || isLog && e.Type().IsRegular()
		made = made || strings.TrimSuffix(e.Name(), twin.CopySuffix) == MetadataName
	}
	return made && appended, err
}

func isIndex(name string) bool {
	return strings.HasSuffix(name, segment.IndexSuffix) || strings.HasSuffix(name, segment.TimeIndexSuffix)
}

// removeOrphans removes indexes of no log file: a crash may bring back the names
// of some files of a segment that was deleted, and not of others.
func (l *Log) removeOrphans(indexes []string, bases []record.Offset) {
	for _, name := range indexes {
		digits, _, _ := strings.Cut(name, ".")
		base, _ := parseLogName(digits + segment.LogSuffix)
		if _, found := slices.BinarySearch(bases, base); !found {
			l.env.FS.Remove(l.dir + "/" + name)
		}
	}
}

// parseLogName reads the base offset out of the name of a log file.
func parseLogName(name string) (record.Offset, bool) {
	digits, ok := strings.CutSuffix(name, segment.LogSuffix)
	if !ok || len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return record.Offset(n), err == nil
}

// ours says whether a name is one that varve, or Kafka, gives to a file of a
// partition that is not a log file.
func ours(name string) bool {
	switch strings.TrimSuffix(strings.TrimSuffix(name, tmpSuffix), twin.CopySuffix) {
	case sealsName, MetadataName, epochsName, "partition.metadata":
		return true
	}
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, ".snapshot", ".txnindex"} {
		if _, ok := parseLogName(strings.TrimSuffix(name, suffix) + segment.LogSuffix); ok && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}
