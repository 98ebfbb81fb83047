package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// segmentFiles names the files of one segment and says which of them are there.
type segmentFiles struct {
	dir                   string
	base                  record.Offset
	log, index, timeIndex bool
	last                  bool // of its partition: may be the active one
}

// path is the path of the segment's file with a suffix.
func (s *segmentFiles) path(suffix string) string {
	return filepath.Join(s.dir, segment.FileName(s.base)+suffix)
}

// partitionFiles are the segments of one partition, in order of their offsets: none
// in one of varve's that nothing was published to yet.
type partitionFiles struct {
	dir      string
	segments []segmentFiles
	// dense says that offsets follow on without a gap: varve's own logs, which
	// nothing compacts. A log of Kafka's may have gaps.
	dense bool
}

// findPartitions finds all partitions at or below the paths, each of which is a
// file of a segment or a directory at any level: a partition, a topic, a whole
// data directory. A file stands for itself, or with whole for its segment.
func findPartitions(paths []string, whole bool) ([]partitionFiles, error) {
	var found []partitionFiles
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no file or directory %s", path)
		}
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			p, err := partitionOfFile(path, whole)
			if err != nil {
				return nil, err
			}
			found = append(found, p)
			continue
		}
		below, err := partitionsBelow(path)
		if err != nil {
			return nil, err
		}
		if len(below) == 0 {
			return nil, fmt.Errorf("there are no log files in %s", path)
		}
		found = append(found, below...)
	}
	return found, nil
}

func partitionOfFile(path string, whole bool) (partitionFiles, error) {
	base, kind, ok := parseSegmentName(filepath.Base(path))
	if !ok {
		return partitionFiles{}, hintf(fmt.Errorf("%s is no file of a segment", path),
			"their names are 20 digits and .log, .index or .timeindex")
	}
	dir := filepath.Dir(path)
	p := partitionFiles{dir: dir, dense: isDense(dir)}
	if !whole {
		s := segmentFiles{dir: dir, base: base}
		s.has(kind)
		p.segments = []segmentFiles{s}
		return p, nil
	}
	all, err := listSegments(dir)
	if err != nil {
		return p, err
	}
	for _, s := range all {
		if s.base == base {
			p.segments = append(p.segments, s)
		}
	}
	return p, nil
}

func partitionsBelow(root string) ([]partitionFiles, error) {
	var found []partitionFiles
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		segments, err := listSegments(path)
		p := partitionFiles{dir: path, segments: segments, dense: isDense(path)}
		if err == nil && (len(segments) > 0 || p.dense) {
			found = append(found, p)
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b partitionFiles) int { return compareNatural(a.dir, b.dir) })
	return found, err
}

// listSegments lists the segments in a directory; other files are passed over.
func listSegments(dir string) ([]segmentFiles, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segments []segmentFiles
	for _, e := range entries { // sorted, so that the files of a segment are neighbours
		base, kind, ok := parseSegmentName(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		if n := len(segments); n == 0 || segments[n-1].base != base {
			segments = append(segments, segmentFiles{dir: dir, base: base})
		}
		segments[len(segments)-1].has(kind)
	}
	if n := len(segments); n > 0 {
		segments[n-1].last = true
	}
	return segments, nil
}

func (s *segmentFiles) has(suffix string) {
	switch suffix {
	case segment.LogSuffix:
		s.log = true
	case segment.IndexSuffix:
		s.index = true
	case segment.TimeIndexSuffix:
		s.timeIndex = true
	}
}

// parseSegmentName takes the name of a segment's file apart.
func parseSegmentName(name string) (base record.Offset, suffix string, ok bool) {
	const digits = 20
	if len(name) <= digits {
		return 0, "", false
	}
	for _, s := range []string{segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix} {
		if name[digits:] == s {
			suffix = s
		}
	}
	n, err := strconv.ParseInt(name[:digits], 10, 64)
	return record.Offset(n), suffix, err == nil && n >= 0 && suffix != ""
}

// isDense says whether a partition directory is one of varve's.
func isDense(dir string) bool {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(filepath.Dir(abs), "topic.json"))
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// listNames lists the directories in a directory, for completion: no errors.
func listNames(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// compareNatural orders names as people do: runs of digits count as numbers, so
// that partition 2 comes before partition 10.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		na, nb := digitRun(a), digitRun(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digitRun(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}
