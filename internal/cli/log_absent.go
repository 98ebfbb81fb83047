package cli

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/varvelog/varve/internal/checkpoint"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/wal"
)

const (
	// deletedPrefix begins the names of the directories of deleted topics, which stay, empty,
	// until neither the checkpoint nor the journal speaks of the topic.
	deletedPrefix = "~deleted-"
	// deletionsLast is the version of the data directory from which on they do.
	deletionsLast = 3
)

// absent notes the topics of which there is nothing but their logs in the checkpoint
// of a clean stop; who reads the journal asks for those of any other. dir is the data
// directory, or that of its topics.
func (f *found) absent(dir string, s *store) {
	if s == nil || s.asked || !samePath(dir, s.dir) && !samePath(dir, filepath.Join(s.dir, topicsName)) {
		return
	}
	if s.asked = true; s.left.Stop == partition.Clean {
		f.notes = append(f.notes, s.missing(nil)...)
	}
}

// missing are the topics that the checkpoint has, or one of some logs of the journal, and
// that are neither there nor deleted. Where an engine is at work no more is said than what
// it cannot have changed meanwhile.
func (s *store) missing(journal map[wal.Log]bool) (notes []fault) {
	s.read = nil // a topic may have been made since
	topics, deleted := s.catalog(), listNames(filepath.Join(s.dir, topicsName))
	if kept, _ := s.checkpoint(); kept.Generation != s.generation {
		return nil
	}
	note := func(logs map[[16]byte]int64, who string) {
		for _, id := range sortedTopics(logs) {
			if topics.has(id) || slices.Contains(deleted, deletedPrefix+idText(id)) {
				continue
			}
			reason := fmt.Sprintf("topic with id %s is missing: the %s has %s of it", idText(id), who, count(logs[id], "partition"))
			notes = append(notes, *wholeFile(filepath.Join(s.dir, topicsName), reason))
		}
	}
	known, spoken := make(map[[16]byte]int64), make(map[[16]byte]int64)
	for log := range s.logs {
		known[log.Topic]++
	}
	for log := range journal {
		if known[log.Topic] == 0 {
			spoken[log.Topic]++
		}
	}
	note(known, checkpoint.Name)
	note(spoken, "journal")
	return notes
}

func sortedTopics(topics map[[16]byte]int64) [][16]byte {
	return slices.SortedFunc(maps.Keys(topics), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
}

// idText writes the id of a topic as its document does.
func idText(id [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
