package varve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// deletion is a topic that was deleted and whose directory is still there, empty. As long
// as the checkpoint or the journal speaks of the topic, the directory is what tells that
// it was deleted and that nobody has taken it away:
//
//	rename to topics/~deleted-UUID, sync of topics/    the topic is deleted
//	its contents are removed, in any order             cut short: by the next start
//	a checkpoint without it is saved, and synced
//	the journal is released, and a round, synced, says so
//	the directory is removed; should it come back, that is done again
//
// So at any moment a topic that is spoken of and has no directory, under its name or that
// of a deleted one, is missing, after a kill and a power cut too.
type deletion struct {
	id    uuid.UUID
	round uint64 // of the journal, up to which it may have frames of the topic
	saved bool   // a checkpoint without it is on stable storage
}

func deletedDir(id uuid.UUID) string { return topicsName + "/" + deletedPrefix + id.String() }

// DeleteTopic deletes a topic and its records. Publishes under way and readers
// get ErrClosed. It is durable when it returns; a new topic may take the name at
// once, and has another id and none of the old records.
func (e *Engine) DeleteTopic(name string) error {
	e.catalogMu.Lock()
	defer e.catalogMu.Unlock()
	t, err := e.Topic(name)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if kept, err := e.putAway(t); err != nil {
		if kept {
			e.keepCheckpoint(true) // its epochs have risen
		}
		e.groups.topicsChanged()
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	e.groups.topicDeleted(t)
	if err := e.clear(deletedDir(t.id)); err != nil {
		e.log.Warn("cannot remove the files of a deleted topic, trying again at the next start", "topic", name, "err", err)
		return nil
	}
	e.checkpointMu.Lock()
	defer e.checkpointMu.Unlock()
	e.deleted = append(e.deleted, deletion{id: t.id, round: e.journal.wal.Round()})
	return nil
}

// putAway closes a topic and renames its directory; kept says that it was not to be, and
// that the topic is there as before. No checkpoint is written meanwhile: one without the
// topic would have the journal forget records that a power cut may bring back.
func (e *Engine) putAway(t *Topic) (kept bool, err error) {
	e.checkpointMu.Lock()
	defer e.checkpointMu.Unlock()
	e.mu.Lock()
	delete(e.topics, t.name)
	for _, p := range t.parts() {
		if p.log != nil {
			e.gone.Add(p.log.Counters())
		}
	}
	e.mu.Unlock()
	for _, p := range t.parts() {
		if p.log != nil {
			p.log.Abandon()
			p.wakeHeld()
		}
	}
	if err := e.fs.Rename(topicDir(t.name), deletedDir(t.id)); err != nil {
		e.takeBackLocked(t.name)
		return true, err
	}
	if err := e.fs.SyncDir(topicsName); err != nil {
		e.mayReturn = true
		return false, fmt.Errorf("it is gone, but a crash may bring it back: %w", err)
	}
	return false, nil
}

// clear removes everything in a directory.
func (e *Engine) clear(dir string) error {
	entries, err := e.fs.ReadDir(dir)
	for _, f := range entries {
		err = errors.Join(err, e.fs.RemoveAll(dir+"/"+f.Name()))
	}
	return err
}

// settleDeletionsLocked sees to it that no deleted topic can come back. Until then what
// the checkpoint and the journal have of one is kept.
func (e *Engine) settleDeletionsLocked() error {
	if !e.mayReturn {
		return nil
	}
	err := e.fs.SyncDir(topicsName)
	e.mayReturn = err != nil
	return err
}

// takeBackLocked opens a topic again that was closed and could not be deleted. Who had
// it before has to ask for it again.
func (e *Engine) takeBackLocked(name string) {
	t, err := e.loadTopic(name, e.checkpoint.partitions())
	if err == nil {
		openPartitions(seatsOf([]*Topic{t}), &takeUp{logs: e.checkpoint.Logs})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.broken[name] = err
		e.log.Error("cannot open a topic", "topic", name, "err", err)
		return
	}
	e.topics[name] = t
}

// takeUpDeletion finishes a deletion of before this start, if that is what a name in
// topics/ stands for. The directory stays, unless it has nothing to tell: after a clean
// stop, when the checkpoint does not have the topic and no journal is read.
func (e *Engine) takeUpDeletion(name string, clean bool) bool {
	rest, ok := strings.CutPrefix(name, deletedPrefix)
	id, err := uuid.Parse(rest)
	if !ok || err != nil || deletedPrefix+id.String() != name {
		return false
	}
	if clean && e.checkpoint.partitions()[id] == 0 {
		return false
	}
	if err := e.clear(deletedDir(id)); err != nil {
		e.log.Warn("cannot remove a leftover", "path", e.fs.Path(deletedDir(id)), "err", err)
	}
	e.deleted = append(e.deleted, deletion{id: id})
	return true
}

// isDeletedLocked says whether a topic was deleted and its directory is still there.
func (e *Engine) isDeletedLocked(id uuid.UUID) bool {
	return slices.ContainsFunc(e.deleted, func(d deletion) bool { return d.id == id })
}

// unsavedDeletionsLocked says that there is no checkpoint yet without a deleted topic.
func (e *Engine) unsavedDeletionsLocked() bool {
	return slices.ContainsFunc(e.deleted, func(d deletion) bool { return !d.saved })
}

// forgetDeletionsLocked removes the directories of topics of which nothing speaks any
// more.
func (e *Engine) forgetDeletionsLocked() {
	noted := e.journal.wal.Noted()
	e.deleted = slices.DeleteFunc(e.deleted, func(d deletion) bool {
		if !d.saved || d.round > noted {
			return false
		}
		if err := e.fs.RemoveAll(deletedDir(d.id)); err != nil {
			e.log.Warn("cannot remove a leftover", "path", e.fs.Path(deletedDir(d.id)), "err", err)
		}
		return true
	})
}

// noteDeletions sees to it that the journal says soon that it need not speak of deleted
// topics. A start does not ask for that: it retires the journal, beside which nothing is
// written.
func (e *Engine) noteDeletions() {
	e.checkpointMu.Lock()
	defer e.checkpointMu.Unlock()
	if len(e.deleted) > 0 {
		e.journal.note()
	}
}
