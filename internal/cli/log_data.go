package cli

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
)

// Names in a data directory of varve's.
const (
	formatName     = "FORMAT"
	checkpointName = "checkpoint"
	topicsName     = "topics"
	topicName      = "topic.json"
)

// store is what a data directory of varve's keeps beside its topics.
type store struct {
	dir   string
	logs  map[logKey]partition.Checkpoint
	notes []fault
}

// logKey names a partition in a checkpoint.
type logKey struct {
	topic     [16]byte // its id
	partition int32
}

// storeAt reads what a data directory says of itself. One of a newer version is
// refused, as the engine does: what is in it would be misread. nil is none of varve's.
func storeAt(dir string) (*store, error) {
	if !hasTwin(dir, formatName) {
		return nil, nil
	}
	s := &store{dir: dir}
	var format struct {
		Version int `json:"version"`
	}
	if f := readTwin(dir, formatName, &format); f != nil {
		s.notes = append(s.notes, *f)
	}
	if format.Version > varve.FormatVersion {
		return nil, &varve.VersionError{Path: dir, Found: format.Version, Supported: varve.FormatVersion}
	}
	s.readCheckpoint()
	return s, nil
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

// readCheckpoint reads what the engine keeps of its logs; docs/format/checkpoint.md
// has the bytes. What is wrong with it costs the next start time, and nobody records.
func (s *store) readCheckpoint() {
	const magic, head, entry = "varvecp1", 24, 20 + partition.CheckpointSize
	path := filepath.Join(s.dir, checkpointName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	be := binary.BigEndian
	end := len(data) - 4
	switch {
	case err != nil:
		err = plainCause(err)
	case end < head || string(data[:8]) != magic:
		err = errors.New("is not a checkpoint")
	case crc32.Checksum(data[:end], castagnoli) != be.Uint32(data[end:]):
		err = errors.New("has a wrong checksum")
	case (end-head)%entry != 0:
		err = fmt.Errorf("ends %s into a log", count(int64((end-head)%entry), "byte"))
	default:
		s.logs = make(map[logKey]partition.Checkpoint, (end-head)/entry)
		for b := data[head:end]; len(b) > 0 && err == nil; b = b[entry:] {
			var cp partition.Checkpoint
			cp, err = partition.DecodeCheckpoint(b[20:])
			s.logs[logKey{[16]byte(b), int32(be.Uint32(b[16:]))}] = cp
		}
	}
	if err != nil {
		s.logs = nil
		s.notes = append(s.notes, *warning(path, err.Error()+": the next start reads the logs instead"))
	}
}

// topicDoc is what varve keeps of a topic.
type topicDoc struct {
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
}

// key names a partition of the topic.
func (t *topicDoc) key(partition int) (k logKey, ok bool) {
	id, err := hex.DecodeString(strings.ReplaceAll(t.ID, "-", ""))
	if err != nil || len(id) != len(k.topic) {
		return k, false
	}
	return logKey{[16]byte(id), int32(partition)}, true
}

// topicAt reads the document of a topic directory.
func topicAt(dir string) (topicDoc, *fault) {
	var t topicDoc
	f := readTwin(dir, topicName, &t)
	if f == nil && (t.Partitions < 1 || t.Partitions > varve.MaxPartitions) {
		f = wholeFile(filepath.Join(dir, topicName), fmt.Sprintf("says that there are %d partitions", t.Partitions))
		t.Partitions = 0
	}
	return t, f
}

// readTwin reads a document that is kept twice, and says what is wrong with either
// file, nil when nothing is.
func readTwin(dir, name string, into any) *fault {
	fsys, path := vfs.Dir(dir), filepath.Join(dir, name)
	doc, stale, err := twin.Read(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return wholeFile(path, "is missing, and so is its copy")
	}
	if err == nil {
		err = json.Unmarshal(doc.Body, into)
	}
	if err != nil {
		return wholeFile(path, strings.TrimPrefix(err.Error(), fsys.Path(name)+": "))
	}
	if stale == "" {
		return nil
	}
	reason := strings.TrimPrefix(doc.Mended, fsys.Path(stale)+": ")
	if _, err := fsys.Stat(stale); errors.Is(err, fs.ErrNotExist) {
		reason = "is missing"
	}
	return wholeFile(filepath.Join(dir, stale), reason)
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
