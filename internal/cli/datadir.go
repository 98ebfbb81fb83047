package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

const defaultDir = "./varve-data"

// dataDir is the directory the command works on.
func (a *app) dataDir() string {
	if a.dir != "" {
		return a.dir
	}
	if d := os.Getenv("VARVE_DIR"); d != "" {
		return d
	}
	return defaultDir
}

// withEngine opens the data directory, which must be there, runs f and closes
// it again, whatever f returned.
func (a *app) withEngine(f func(*varve.Engine) error) error {
	// Looked at first, because opening would make one: a mistyped --dir must leave
	// nothing behind.
	if a.nothingThere() {
		return hintf(fmt.Errorf("there is no data directory %s", a.dataDir()),
			"name it with --dir or $VARVE_DIR, or begin one with: varve topic create NAME")
	}
	return a.run(f)
}

// withNewEngine is withEngine for commands that may begin a data directory with a
// topic. What is wrong with the topic is found out before anything is made.
func (a *app) withNewEngine(name string, topic varve.TopicConfig, f func(*varve.Engine) error) error {
	if a.nothingThere() {
		if err := rehearse(name, topic); err != nil {
			return err
		}
	}
	return a.run(f)
}

// nothingThere says whether the data directory is missing or empty.
func (a *app) nothingThere() bool {
	entries, err := os.ReadDir(a.dataDir())
	return errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0)
}

// rehearse creates a topic in memory.
func rehearse(name string, topic varve.TopicConfig) error {
	e, err := varve.OpenFS(vfs.NewMem(), varve.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = e.CreateTopic(name, topic)
	return errors.Join(asked(err), e.Close())
}

// run opens the data directory for the length of f.
func (a *app) run(f func(*varve.Engine) error) error {
	e, err := varve.Open(a.dataDir(), varve.Options{Logger: a.logger()})
	if err != nil {
		return err
	}
	err = f(e)
	return errors.Join(err, e.Close())
}

// withTopic is withEngine for commands about one topic.
func (a *app) withTopic(name string, f func(*varve.Engine, *varve.Topic) error) error {
	return a.withEngine(func(e *varve.Engine) error {
		t, err := a.topic(e, name)
		if err != nil {
			return err
		}
		return f(e, t)
	})
}

// topic looks a topic up.
func (a *app) topic(e *varve.Engine, name string) (*varve.Topic, error) {
	t, err := e.Topic(name)
	return t, a.noTopic(err, name, "")
}

// noTopic makes the best of an error of looking a topic up, for its reader. alter is
// another way than to create it first.
func (a *app) noTopic(err error, name, alter string) error {
	var wrong *varve.NameError
	switch {
	case errors.Is(err, varve.ErrNoTopic) && errors.As(err, &wrong):
		return asked(wrong)
	case errors.Is(err, varve.ErrNoTopic):
		return hintf(fmt.Errorf("topic %q does not exist in %s", name, a.dataDir()),
			"create it with: varve topic create %s%s", name, alter)
	}
	return err
}

// retain applies retention now: the engine is open for too short a time to come to
// it by itself. What was asked for is done; that this fails is no failure of it.
func (a *app) retain(e *varve.Engine) {
	if err := e.RunRetention(); err != nil {
		fmt.Fprintf(a.err, "warning: retention: %s\n", oneLine(err.Error()))
	}
}

// topicsDir is where the topics lie, each in a directory of its name.
func (a *app) topicsDir() string { return filepath.Join(a.dataDir(), topicsName) }

// logger shows what went wrong, and with --verbose what went on. Lines carry no
// time: whoever runs the command knows when.
func (a *app) logger() *slog.Logger {
	level := slog.LevelWarn
	if a.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}
