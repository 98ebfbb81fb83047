package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/wal"
)

// journalFiles are the files of a journal, wherever they lie, as the directory that
// package wal reads. Nothing in it can be changed: not even what a start would tidy
// away is listed.
type journalFiles struct {
	vfs.FS // of the working directory: nothing is looked for there

	dir   string            // as messages name the whole
	names []string          // in order
	paths map[string]string // of names, as the user wrote them
}

// journalIn lists the files of the journal of a data directory; none where it has
// none yet.
func journalIn(dir string) (*journalFiles, error) {
	dir = filepath.Join(dir, journalName)
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var paths []string
	for _, e := range entries { // sorted
		if _, ok := journalNumber(e.Name()); ok && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return journalOf(dir, paths), nil
}

// journalOf is a journal of files in an order that matters to none of them. Those
// that are named as wal names them keep their names.
func journalOf(dir string, paths []string) *journalFiles {
	j := &journalFiles{FS: vfs.Dir("."), dir: dir, paths: make(map[string]string)}
	for i, p := range paths {
		name := filepath.Base(p)
		_, taken := j.paths[name]
		if _, ok := journalNumber(name); taken || !ok {
			name = fmt.Sprintf("%020d%s", i+1, wal.Suffix) // longer than any that a file has
		}
		j.names = append(j.names, name)
		j.paths[name] = p
	}
	return j
}

// journalNumber is the number in the name of a journal file.
func journalNumber(name string) (n uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, wal.Suffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil
}

// read calls visit for each round of the journal.
func (j *journalFiles) read(visit func(wal.Round) error) (*wal.Old, error) {
	return wal.Read(j, ".", visit)
}

// missing is what package wal says is missing of the journal as a whole: a file that
// it could not read at all, or rounds.
func (j *journalFiles) missing(err error) *fault {
	for _, p := range j.paths {
		if reason, ok := strings.CutPrefix(err.Error(), p+": "); ok {
			return wholeFile(p, reason)
		}
	}
	return wholeFile(j.dir, strings.TrimPrefix(err.Error(), j.dir+": "))
}

// Path is how the user wrote it.
func (j *journalFiles) Path(name string) string {
	if p, ok := j.paths[path.Base(name)]; ok {
		return p
	}
	return j.dir
}

func (j *journalFiles) ReadDir(string) ([]fs.DirEntry, error) {
	entries := make([]fs.DirEntry, len(j.names))
	for i, name := range j.names {
		info, err := os.Stat(j.paths[name])
		if err != nil {
			return nil, err
		}
		entries[i] = journalEntry{fs.FileInfoToDirEntry(info), name}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// journalEntry is a file under the name that it has in the journal.
type journalEntry struct {
	fs.DirEntry
	name string
}

func (e journalEntry) Name() string { return e.name }

func (j *journalFiles) OpenFile(name string, flag int) (vfs.File, error) {
	if flag != os.O_RDONLY {
		return nil, j.refuse("write", name)
	}
	p := j.paths[path.Base(name)]
	return vfs.Dir(filepath.Dir(p)).OpenFile(filepath.Base(p), os.O_RDONLY)
}

func (j *journalFiles) Remove(name string) error { return j.refuse("remove", name) }

func (j *journalFiles) refuse(op, name string) error {
	return &fs.PathError{Op: op, Path: j.Path(name), Err: fs.ErrPermission}
}
