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

// listing is what there is in the directory of a log, in order.
type listing struct {
	bases []record.Offset // of the log files
	swaps []record.Offset // of files that may be about to take the place of some
	// leftovers are files that were being made at a stop, and indexes of no log file: a
	// crash may bring back the names of some files of a segment that was deleted, and not
	// of others.
	leftovers []string
	strays    []string // what does not belong there
}

// list reads a directory.
func list(fsys vfs.FS, dir string) (listing, error) {
	entries, err := fsys.ReadDir(dir)
	var found listing
	var indexes []string
	for _, e := range entries { // sorted, and so are names of 20 digits as numbers
		name := e.Name()
		base, suffix, ok := parseName(name)
		switch {
		case !e.Type().IsRegular() || !ours(name):
			found.strays = append(found.strays, name)
		case ok && suffix == segment.LogSuffix:
			found.bases = append(found.bases, base)
		case ok && suffix == segment.LogSuffix+swapSuffix:
			found.swaps = append(found.swaps, base)
		case ok && (suffix == segment.IndexSuffix || suffix == segment.TimeIndexSuffix):
			indexes = append(indexes, name)
		case strings.HasSuffix(name, tmpSuffix):
			found.leftovers = append(found.leftovers, name)
		}
	}
	for _, name := range indexes {
		base, _, _ := parseName(name)
		if _, of := slices.BinarySearch(found.bases, base); !of {
			found.leftovers = append(found.leftovers, name)
		}
	}
	return found, err
}

// listLogs lists the base offsets of the log files in a directory.
func listLogs(fsys vfs.FS, dir string) ([]record.Offset, error) {
	found, err := list(fsys, dir)
	return found.bases, err
}

// listSegments lists the directory, which is made where there is none.
func (l *Log) listSegments() (listing, error) {
	found, err := list(l.env.FS, l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		l.log.Error("partition directory is missing, making it anew", "partition", l.name, "dir", l.env.FS.Path(l.dir))
		err = errors.Join(Create(l.env.FS, l.dir), l.env.FS.SyncDir(path.Dir(l.dir)))
	}
	return found, err
}

// tidyListed names what does not belong into the directory, and removes what is left over.
func (l *Log) tidyListed(found *listing) {
	for _, name := range found.strays {
		l.log.Warn("ignoring what does not belong into a partition", "partition", l.name,
			"path", l.env.FS.Path(l.dir+"/"+name))
	}
	for _, name := range found.leftovers {
		l.env.FS.Remove(l.dir + "/" + name)
	}
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

// parseName splits the name of a file of a segment.
func parseName(name string) (base record.Offset, suffix string, ok bool) {
	if len(name) < 20 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(name[:20], 10, 63)
	return record.Offset(n), name[20:], err == nil
}

// parseLogName reads the base offset out of the name of a log file.
func parseLogName(name string) (record.Offset, bool) {
	base, suffix, ok := parseName(name)
	return base, ok && suffix == segment.LogSuffix
}

// ours says whether a name is one that varve, or Kafka, gives to a file of a partition.
func ours(name string) bool {
	if _, suffix, ok := parseName(name); ok {
		switch suffix {
		case segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix, segment.LogSuffix + swapSuffix, ".snapshot", ".txnindex":
			return true
		}
	}
	switch strings.TrimSuffix(strings.TrimSuffix(name, tmpSuffix), twin.CopySuffix) {
	case sealsName, MetadataName, epochsName, "partition.metadata":
		return true
	}
	return false
}
