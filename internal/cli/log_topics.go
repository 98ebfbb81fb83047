package cli

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// catalog is what the topic directories of a data directory say of themselves.
type catalog struct {
	topics  map[[16]byte]namedTopic // those that are called what their directory is
	names   map[[16]byte][]string   // of the directories of those with an id: of one, unless there are copies
	strange map[[16]byte]bool       // the ids of those that are called something else
	unread  bool                    // there are some that say nothing
}

// namedTopic is a topic of a data directory.
type namedTopic struct {
	name       string
	partitions int
}

// catalog reads the documents of all topics, once. What is wrong with one of them is
// said where it is looked at.
func (s *store) catalog() *catalog {
	if s.read != nil {
		return s.read
	}
	c := &catalog{
		topics: make(map[[16]byte]namedTopic), names: make(map[[16]byte][]string), strange: make(map[[16]byte]bool),
	}
	for _, name := range listNames(filepath.Join(s.dir, topicsName)) {
		if !topicForm.MatchString(name) {
			continue
		}
		doc, _ := topicAt(filepath.Join(s.dir, topicsName, name))
		switch key, ok := doc.key(0); {
		case !ok:
			c.unread = true
		case doc.Name != name: // no engine opens it
			c.strange[key.Topic] = true
		default:
			c.topics[key.Topic] = namedTopic{name, doc.Partitions}
			c.names[key.Topic] = append(c.names[key.Topic], name)
		}
	}
	s.read = c
	return c
}

// has says whether a directory is that of a topic with an id, or may be.
func (c *catalog) has(id [16]byte) bool {
	return c.unread || c.strange[id] || len(c.names[id]) > 0
}

// identity notes why the engine does not take a topic for what its directory says: that
// was renamed, or is a copy.
func (f *found) identity(dir string, doc *topicDoc, s *store) {
	key, ok := doc.key(0)
	at, err := filepath.Abs(dir)
	if !ok || err != nil || !s.holds(at) {
		return // where no engine looks for it, its directory may have any name
	}
	path, name := filepath.Join(dir, topicName), filepath.Base(at)
	if doc.Name != name {
		reason := fmt.Sprintf("is that of topic %q: the directory was renamed, or is a copy", doc.Name)
		f.notes = append(f.notes, *wholeFile(path, reason))
		return
	}
	for _, other := range s.catalog().names[key.Topic] {
		if other != name {
			reason := fmt.Sprintf("has the id of topic %s: one of the two directories is a copy", other)
			f.notes = append(f.notes, *wholeFile(path, reason))
		}
	}
}

// uncounted notes a partition that the document of a topic does not count, and that the
// checkpoint knows, or of which there are records: the engine does not open the topic.
func (f *found) uncounted(dir string, doc *topicDoc, s *store) {
	key, ok := doc.key(0)
	if !ok || doc.Partitions == 0 || s == nil {
		return
	}
	older := func(n int, where string) {
		f.notes = append(f.notes, *wholeFile(filepath.Join(dir, topicName),
			fmt.Sprintf("is older than the topic: it counts %d partitions, and there is partition %d in %s", doc.Partitions, n, where)))
	}
	known := doc.Partitions
	for log := range s.logs {
		if log.Topic == key.Topic {
			known = max(known, int(log.Partition)+1)
		}
	}
	if known > doc.Partitions {
		older(known-1, filepath.Join(s.dir, checkpoint.Name))
		return
	}
	for _, name := range listNames(dir) {
		n, err := strconv.Atoi(name)
		if err != nil || n < doc.Partitions || strconv.Itoa(n) != name {
			continue
		}
		if used, _ := partition.Used(vfs.Dir(dir), name); used {
			older(n, filepath.Join(dir, name))
			return
		}
	}
}

// holds says whether a directory is where the data directory has its topics.
func (s *store) holds(topic string) bool {
	return s != nil && samePath(filepath.Join(topic, ".."), filepath.Join(s.dir, topicsName))
}
