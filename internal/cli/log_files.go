package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// segmentFiles names the files of one segment and says which of them are there.
type segmentFiles struct {
	dir                   string
	base                  record.Offset
	log, index, timeIndex bool
	last                  bool // of its partition: may be the active one

	// back is what the next start puts back into the log file, nil where it is all
	// there.
	back *putBack
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

	whole bool                  // all its segments are among them
	ours  bool                  // it is one of varve's
	gone  bool                  // and its directory is missing
	store *store                // the data directory it is in, nil where that is none of varve's
	key   wal.Log               // what it is called there
	known *partition.Checkpoint // what the last checkpoint says of it
	// synced is the end that the journal says was on stable storage.
	synced journalEnd
}

// partitionOf describes a partition's directory.
func partitionOf(dir string, s *store) partitionFiles {
	topic, err := filepath.Abs(filepath.Join(dir, ".."))
	p := partitionFiles{
		dir: dir, whole: true,
		ours: hasTwin(dir, partition.MetadataName) || err == nil && hasTwin(topic, topicName),
	}
	if !p.ours || s == nil {
		return p
	}
	doc, _ := topicAt(topic)
	index, err := parseNumber[int](filepath.Base(dir))
	if key, ok := doc.key(index); ok && err == nil && doc.Name == filepath.Base(topic) {
		p.store, p.key = s, key
		if e, ok := s.logs[key]; ok {
			p.known = &e.Checkpoint
		}
	}
	return p
}

// inspect asks what is kept of the partition beside its segments; of one of Kafka's
// that is nothing.
func (p *partitionFiles) inspect() (partition.Inspection, error) {
	if p.gone {
		return partition.Inspection{Sparse: true}, nil
	}
	var left partition.Left
	if p.store != nil {
		left = p.store.left
	}
	in, err := partition.Inspect(vfs.Dir(p.dir), ".", p.known, left)
	if err == nil {
		p.known = in.Checkpoint
	}
	return in, err
}

// derived is what it is called when an index of the partition is not what its log says:
// a fault, or a warning where the last engine did not stop cleanly: nothing waits for
// an index to reach the disk, and no record depends on it.
func (p *partitionFiles) derived() string {
	if p.store != nil && p.store.left.Stop == partition.Crashed {
		return "warning"
	}
	return "fault"
}

// barred is what an inspection could not read.
func (p *partitionFiles) barred(err error) fault {
	path := p.dir
	var perr *fs.PathError
	if errors.As(err, &perr) && filepath.Base(perr.Path) != filepath.Base(p.dir) {
		path = filepath.Join(p.dir, filepath.Base(perr.Path)) // as the user wrote it
	}
	return unreadable(path, 0, -1, err)
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
