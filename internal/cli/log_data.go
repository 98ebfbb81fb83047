package cli

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

// Names in a data directory of varve's.
const (
	formatName  = "FORMAT"
	topicsName  = "topics"
	topicName   = "topic.json"
	journalName = "wal"
)

// store is what a data directory of varve's keeps beside its topics.
type store struct {
	dir        string
	version    int
	generation uint64 // of the checkpoint
	logs       map[wal.Log]checkpoint.Entry
	left       partition.Left // by its last engine
	notes      []fault

	read  *catalog // nil until it is asked for
	asked bool     // which topics are missing
}

// storeAt reads what a data directory says of itself. One of a newer version is
// refused, as the engine does: what is in it would be misread. nil is none of varve's:
// there are neither the files of the version nor topics.
func storeAt(dir string) (*store, error) {
	if !hasTwin(dir, formatName) && !hasTopics(dir) {
		return nil, nil
	}
	s := &store{dir: dir}
	var format struct {
		Version int `json:"version"`
	}
	starts, f := readTwin(dir, formatName, twin.Identity{}, &format)
	if f != nil {
		s.notes = append(s.notes, *f)
	}
	if format.Version > varve.FormatVersion {
		return nil, &varve.VersionError{Path: dir, Found: format.Version, Supported: varve.FormatVersion}
	}
	s.version = format.Version
	s.readCheckpoint(starts)
	return s, nil
}

// hasTopics says whether a directory has topics where a data directory does.
func hasTopics(dir string) bool {
	topics := filepath.Join(dir, topicsName)
	return slices.ContainsFunc(listNames(topics), func(name string) bool {
		return topicForm.MatchString(name) && hasTwin(filepath.Join(topics, name), topicName)
	})
}

// depth is how far below its data directory the deepest file of varve's is:
// topics/orders/0/00000000000000000000.log.
const depth = 4

// storeOf finds the data directory that a path lies in, nil when there is none.
func storeOf(path string) (*store, error) {
	for range depth + 1 {
		if s, err := storeAt(path); s != nil || err != nil {
			return s, err
		}
		path = filepath.Join(path, "..")
	}
	return nil, nil
}

// covered is the round of the journal that all logs in the checkpoint are done with.
func (s *store) covered() uint64 { return (&checkpoint.File{Logs: s.logs}).Covered() }

// readCheckpoint reads what the engine keeps of its logs, and whether it stopped
// cleanly, on a directory with so many starts. What is wrong with the checkpoint
// costs the next start time, and nobody records.
func (s *store) readCheckpoint(starts uint64) {
	kept, err := s.checkpoint()
	s.logs, s.generation = kept.Logs, kept.Generation
	path := filepath.Join(s.dir, checkpoint.Name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.notes = append(s.notes, *warning(path, plainCause(err).Error()+": the next start reads the logs instead"))
	}
	marked := filepath.Join(s.dir, checkpoint.MarkName)
	if info, err := os.Stat(marked); err == nil {
		s.left.Marked = vfs.Changed(info)
	}
	data, err := os.ReadFile(marked)
	if mark, ok := checkpoint.DecodeMark(data); err == nil && ok && mark.Starts == starts {
		if s.left.Stop = partition.Stopped; kept.Logs != nil && mark.Generation == kept.Generation {
			s.left.Stop = partition.Clean
		}
	}
}

func (s *store) checkpoint() (kept checkpoint.File, err error) {
	data, err := os.ReadFile(filepath.Join(s.dir, checkpoint.Name))
	if err == nil {
		kept, err = checkpoint.Decode(data)
	}
	return kept, err
}

// topicDoc is what varve keeps of a topic.
type topicDoc struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
}

// key names a partition of the topic.
func (t *topicDoc) key(partition int) (k wal.Log, ok bool) {
	id, err := hex.DecodeString(strings.ReplaceAll(t.ID, "-", ""))
	if err != nil || len(id) != len(k.Topic) {
		return k, false
	}
	return wal.Log{Topic: [16]byte(id), Partition: int32(partition)}, true
}

// topicAt reads the document of a topic directory.
func topicAt(dir string) (topicDoc, *fault) {
	var t topicDoc
	_, f := readTwin(dir, topicName, topicIdentity(filepath.Base(dir)), &t)
	if f == nil && (t.Partitions < 1 || t.Partitions > varve.MaxPartitions) {
		f = wholeFile(filepath.Join(dir, topicName), fmt.Sprintf("says that there are %d partitions", t.Partitions))
		t.Partitions = 0
	}
	return t, f
}

// topicIdentity tells documents of topics apart, as the engine does.
func topicIdentity(name string) twin.Identity {
	decode := func(body json.RawMessage) (t topicDoc) {
		json.Unmarshal(body, &t) // what is no topic has no id
		return t
	}
	return twin.Identity{
		ID:  func(body json.RawMessage) string { return decode(body).ID },
		Own: func(body json.RawMessage) bool { return decode(body).Name == name },
	}
}

// readTwin reads a document that is kept twice, and says what is wrong with either
// file, nil when nothing is.
func readTwin(dir, name string, of twin.Identity, into any) (generation uint64, f *fault) {
	fsys, path := vfs.Dir(dir), filepath.Join(dir, name)
	doc, stale, err := twin.Read(fsys, name, of)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, wholeFile(path, "is missing, and so is its copy")
	}
	if err == nil {
		err = json.Unmarshal(doc.Body, into)
	}
	if err != nil {
		return 0, wholeFile(path, strings.TrimPrefix(err.Error(), fsys.Path(name)+": "))
	}
	if stale == "" {
		return doc.Generation, nil
	}
	reason := strings.TrimPrefix(doc.Mended, fsys.Path(stale)+": ")
	if _, err := fsys.Stat(stale); errors.Is(err, fs.ErrNotExist) {
		reason = "is missing"
	}
	return doc.Generation, wholeFile(filepath.Join(dir, stale), reason)
}

// hasTwin says whether one of the two files of a document is there.
func hasTwin(dir, name string) bool {
	return isFile(filepath.Join(dir, name)) || isFile(filepath.Join(dir, name+twin.CopySuffix))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// plainCause is why a call of the file system failed, without the path that whoever
// tells of it names already.
func plainCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
