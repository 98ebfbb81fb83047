package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// found is what there is at or below some paths, each of which is a file of a
// segment or a directory at any level: a partition, a topic, a whole data directory.
type found struct {
	parts []partitionFiles
	// notes are faults and warnings about what is above partitions: directories that
	// cannot be read, the documents of topics and data directories.
	notes []fault

	stores []*store // the data directories they are in
}

// findPartitions looks at all paths. A file stands for itself, or with whole for its
// segment.
func findPartitions(paths []string, whole bool) (*found, error) {
	f := &found{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no file or directory %s", path)
		}
		if err != nil {
			return nil, err
		}
		s, err := storeOf(path)
		if err != nil {
			return nil, err
		}
		s = f.note(s)
		if !info.IsDir() {
			err = f.file(path, s, whole)
		} else {
			err = f.below(path, s)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// note takes over what is to be said of a data directory, once, and returns what was
// read of it the first time.
func (f *found) note(s *store) *store {
	if s == nil {
		return nil
	}
	for _, old := range f.stores {
		if samePath(old.dir, s.dir) {
			return old
		}
	}
	f.stores = append(f.stores, s)
	f.notes = append(f.notes, s.notes...)
	return s
}

func samePath(a, b string) bool {
	x, err := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return err == nil && err2 == nil && x == y
}

// file adds the partition that a file belongs to, with its segment alone.
func (f *found) file(path string, s *store, whole bool) error {
	base, kind, ok := parseSegmentName(filepath.Base(path))
	if !ok {
		return hintf(fmt.Errorf("%s is no file of a segment", path),
			"their names are 20 digits and .log, .index or .timeindex")
	}
	dir := filepath.Dir(path)
	p := partitionOf(dir, s)
	p.whole = false
	if !whole {
		one := segmentFiles{dir: dir, base: base}
		one.has(kind)
		p.segments = []segmentFiles{one}
		f.parts = append(f.parts, p)
		return nil
	}
	all, err := listSegments(dir)
	if err != nil {
		return err
	}
	for _, one := range all {
		if one.base == base {
			p.segments = append(p.segments, one)
		}
	}
	f.parts = append(f.parts, p)
	return nil
}

// below adds the partitions in a tree. What cannot be read there is noted, and not
// gone into.
func (f *found) below(root string, s *store) error {
	var parts []partitionFiles
	notes := len(f.notes)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			f.notes = append(f.notes, unreadable(path, 0, -1, err))
			return fs.SkipDir
		case !d.IsDir():
			return nil
		case path != root && strings.HasPrefix(d.Name(), "~"):
			return fs.SkipDir // a topic being made or deleted
		}
		if inner, err := storeAt(path); err != nil {
			return err
		} else if inner != nil {
			s = f.note(inner)
		}
		segments, err := listSegments(path)
		if err != nil {
			f.notes = append(f.notes, unreadable(path, 0, -1, err))
			return fs.SkipDir
		}
		f.absent(path, s)
		if isTopic(path, s) {
			parts = append(parts, f.topic(path, s)...)
			return nil
		}
		p := partitionOf(path, s)
		p.segments = segments
		if len(segments) > 0 || p.ours {
			parts = append(parts, p)
		}
		return nil
	})
	if err == nil && len(parts) == 0 && len(f.notes) == notes && s == nil {
		err = fmt.Errorf("there are no log files in %s", root)
	}
	slices.SortStableFunc(parts, func(a, b partitionFiles) int { return compareNatural(a.dir, b.dir) })
	f.parts = append(f.parts, parts...)
	return err
}

// isTopic says whether a directory is that of one of varve's topics.
func isTopic(dir string, s *store) bool {
	if hasTwin(dir, topicName) {
		return true
	}
	return topicForm.MatchString(filepath.Base(dir)) && s.holds(dir)
}

// topic notes what is wrong with the document of a topic, and returns the partitions
// that it counts and that are not there.
func (f *found) topic(dir string, s *store) (missing []partitionFiles) {
	doc, wrong := topicAt(dir)
	if wrong != nil {
		f.notes = append(f.notes, *wrong)
	}
	f.identity(dir, &doc, s)
	f.uncounted(dir, &doc, s)
	for i := range doc.Partitions {
		path := filepath.Join(dir, strconv.Itoa(i))
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		p := partitionOf(path, s)
		p.gone = true
		missing = append(missing, p)
	}
	return missing
}
