package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// session is one engine on a disk, and what it says in the log.
type session struct {
	engine *varve.Engine
	log    *warnings
}

// trialTime is the time of all trials: later than everything that was published.
var trialTime = time.UnixMilli(1_700_000_900_000)

// begin opens an engine. The session is there when that fails, too.
func begin(disk vfs.FS) (*session, error) {
	s := &session{log: new(warnings)}
	var err error
	s.engine, err = varve.OpenFS(disk, varve.Options{
		Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelWarn})), CacheBytes: -1, ScrubRate: -1,
		RetentionInterval: 1000 * time.Hour, JournalBytes: trialJournal, OpenFiles: 64, Clock: func() time.Time { return trialTime },
	})
	return s, err
}

// warnings keeps the lines of a log from level WARN on.
//
//	field  guarded by  written by
//	buf    mu          Write
type warnings struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *warnings) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.Write(b)
}

// lines are those written so far.
func (s *session) lines() []string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return strings.FieldsFunc(s.log.buf.String(), func(r rune) bool { return r == '\n' })
}

// told says whether a line speaks of a loss: in a partition, by its name or by a file of
// it, or in the journal, which does not know whose it was.
func told(lines []string, name string) bool {
	for _, line := range lines {
		for _, of := range []string{"partition=" + name, "topics/" + name + "/", "part of the journal is missing", "journal is damaged"} {
			if strings.Contains(line, of) {
				return true
			}
		}
	}
	return false
}
