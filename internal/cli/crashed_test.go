package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/segment"
	"github.com/varvelog/varve/wal"
)

// crash publishes lines to a topic, one at a time, and trims it. It leaves the directory
// as a process does that is killed when that is done and the engine is idle.
func crash(dir, topic string, config map[string]string, lines []string, trim varve.Offset) error {
	e, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	live := dir + ".live"
	err = publishLines(e, topic, config, lines)
	if err == nil && trim > 0 {
		err = trimTo(e, topic, trim)
	}
	if err == nil {
		err = awaitMark(dir)
	}
	if err == nil {
		err = awaitIndexes(filepath.Join(dir, "topics", topic, "0"))
	}
	// Seals first: segments are finished in the background, and a seal without what
	// it speaks of is none that a crash leaves.
	isSeals := func(name string) bool { return name == "seals" }
	if err == nil {
		err = copyTree(live, dir, isSeals)
	}
	if err == nil {
		err = copyTree(live, dir, func(name string) bool { return !isSeals(name) && name != "LOCK" })
	}
	if err == nil {
		err = tellJournal(live)
	}
	if err := errors.Join(err, e.Close()); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(dir), os.Rename(live, dir))
}

// tellJournal writes the journal of a directory anew, with the same frames: one in
// each round, and a mark behind the last. How an engine shares them out depends on
// how fast the machine is.
func tellJournal(dir string) error {
	var frames []wal.Frame
	after := uint64(0) // the rounds of an earlier life, which a checkpoint knows of
	_, err := wal.Read(vfs.Dir(dir), journalName, func(r wal.Round) error {
		if len(frames) == 0 {
			after = r.Number - 1
		}
		for _, f := range r.Frames {
			f.Payload = slices.Clone(f.Payload)
			frames = append(frames, f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, journalName)), os.Mkdir(filepath.Join(dir, journalName), 0o700)); err != nil {
		return err
	}
	j := wal.Open(vfs.Dir(dir), journalName, wal.Options{}, &wal.Old{}, after)
	for _, f := range frames {
		if _, err := j.Write([]wal.Frame{f}); err != nil {
			return errors.Join(err, j.Close())
		}
	}
	_, err = j.Write(nil)
	return errors.Join(err, j.Close())
}

func publishLines(e *varve.Engine, topic string, config map[string]string, lines []string) error {
	t, err := e.Topic(topic)
	if errors.Is(err, varve.ErrNoTopic) {
		t, err = e.CreateTopic(topic, varve.TopicConfig{Config: config})
	}
	for _, line := range lines {
		if err == nil {
			_, err = t.Publish(context.Background(), varve.Record{Value: []byte(line)})
		}
	}
	return err
}

func trimTo(e *varve.Engine, topic string, before varve.Offset) error {
	t, err := e.Topic(topic)
	if err != nil {
		return err
	}
	p, err := t.Partition(0)
	if err == nil {
		_, err = p.Trim(before)
	}
	return err
}

// awaitMark waits for the closing mark behind the last round.
func awaitMark(dir string) error {
	for closed := false; !closed; runtime.Gosched() {
		_, err := wal.Read(vfs.Dir(dir), journalName, func(r wal.Round) error {
			closed = r.Last && len(r.Frames) == 0
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitIndexes waits until two segments of a partition have their indexes, if so many were
// rolled: they are made in the background.
func awaitIndexes(dir string) error {
	for {
		var count [3]int
		for i, suffix := range []string{segment.LogSuffix, segment.IndexSuffix, segment.TimeIndexSuffix} {
			files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
			if err != nil {
				return err
			}
			count[i] = len(files)
		}
		if want := min(2, count[0]-1); count[1] >= want && count[2] >= want {
			return nil
		}
		runtime.Gosched()
	}
}

// copyTree copies the files that have a name that is wanted.
func copyTree(to, from string, wanted func(name string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case !wanted(d.Name()):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}
