package varve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/varvelog/varve/internal/twin"
)

// FormatVersion is the version of the data directory that this varve writes, and
// the newest it reads. A newer directory is refused, untouched.
const FormatVersion = 3

// deletionsLast is the version from which on the directory of a deleted topic stays until
// nothing speaks of that topic any more, see deletion. A directory has the new version as
// soon as its first start counts: should that start be cut short, the next one may miss a
// topic that the older varve had deleted in its last seconds.
const deletionsLast = 3

type formatBody struct {
	Version int `json:"version"`
}

// foundFormat is what the document of the version says: 0 of each where there is none.
type foundFormat struct {
	version int
	starts  uint64 // of engines on the directory: the generation of the document
	mended  string // what is wrong with one of its two files
}

// checkFormat reads the version without changing anything. Without starts the directory
// is empty and has still to be made one of varve's, or has lost the document.
func (e *Engine) checkFormat() (foundFormat, error) {
	doc, _, err := twin.Read(e.fs, formatName, twin.Identity{})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return foundFormat{}, e.checkEmpty()
	case err != nil:
		return foundFormat{}, err
	}
	var f formatBody
	if err := json.Unmarshal(doc.Body, &f); err != nil {
		return foundFormat{}, fmt.Errorf("%s: %w", e.fs.Path(formatName), err)
	}
	if f.Version > FormatVersion {
		return foundFormat{}, &VersionError{Path: e.fs.Path("."), Found: f.Version, Supported: FormatVersion}
	}
	if f.Version < 1 {
		return foundFormat{}, fmt.Errorf("%s: there is no format version %d", e.fs.Path(formatName), f.Version)
	}
	return foundFormat{f.Version, doc.Generation, doc.Mended}, nil
}

// checkEmpty refuses a directory that has something in it and is not varve's. One
// that has lost its version files but has topics is taken for version 1.
func (e *Engine) checkEmpty() error {
	entries, err := e.fs.ReadDir(".")
	if err != nil {
		return err
	}
	stranger := ""
	for _, f := range entries {
		switch {
		case f.Name() == topicsName && f.IsDir():
			return nil
		case f.Name() == "lost+found" || f.Name() == lockName || strings.HasPrefix(f.Name(), formatName) || strings.HasPrefix(f.Name(), "."):
		case stranger == "":
			stranger = f.Name()
		}
	}
	if stranger != "" {
		return fmt.Errorf("the directory has %q in it and is not a data directory of varve: name a new or an empty one", stranger)
	}
	return nil
}

// hasTopics says whether there is anything under topics/.
func (e *Engine) hasTopics() bool {
	entries, err := e.fs.ReadDir(topicsName)
	return err == nil && len(entries) > 0
}

// countStart makes the directory one of varve's where it is not yet, and notes
// that there is one start more: no mark of a clean stop before it counts any more.
func (e *Engine) countStart(starts uint64) error {
	if err := e.fs.Mkdir(topicsName); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	body, err := json.Marshal(formatBody{FormatVersion})
	if err != nil {
		return err
	}
	return twin.Save(e.fs, formatName, starts, body) // syncs the directory where it makes a file
}
