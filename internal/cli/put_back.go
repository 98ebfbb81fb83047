package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// putBack is what the journal has of a log file and the file lacks. Only that is in
// memory: after most crashes, those of a process, it is nothing.
type putBack struct {
	pieces []piece // in the order they are written: a later one counts
}

type piece struct {
	pos  int64
	data []byte
}

func (b *putBack) end() (end int64) {
	for _, p := range b.pieces {
		end = max(end, p.pos+int64(len(p.data)))
	}
	return end
}

// add notes that data is written at pos over what the file has there, nil where
// there is no file.
func (b *putBack) add(file io.ReaderAt, pos int64, data []byte) error {
	again := slices.ContainsFunc(b.pieces, func(p piece) bool {
		return pos < p.pos+int64(len(p.data)) && p.pos < pos+int64(len(data))
	})
	if file != nil && !again {
		there := make([]byte, len(data))
		n, err := file.ReadAt(there, pos)
		if err != nil && err != io.EOF {
			return err
		}
		same := 0
		for same < n && there[same] == data[same] {
			same++
		}
		pos, data = pos+int64(same), data[same:]
	}
	if len(data) > 0 {
		b.pieces = append(b.pieces, piece{pos, slices.Clone(data)})
	}
	return nil
}

// logFile is a log file that is read.
type logFile interface {
	io.ReaderAt
	io.Closer
}

// open opens the log file of a segment as the next start will find it.
func (s *segmentFiles) open() (logFile, int64, error) {
	f, err := os.Open(s.path(segment.LogSuffix))
	if s.back != nil && errors.Is(err, fs.ErrNotExist) {
		return &mended{back: s.back}, s.back.end(), nil
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		f.Close()
		return nil, 0, err
	case s.back == nil:
		return f, info.Size(), nil
	}
	return &mended{f, s.back}, max(info.Size(), s.back.end()), nil
}

// mended is a log file together with what is put back into it.
type mended struct {
	file *os.File // nil: there is none
	back *putBack
}

func (m *mended) ReadAt(b []byte, at int64) (n int, err error) {
	if m.file != nil {
		if n, err = m.file.ReadAt(b, at); err != nil && err != io.EOF {
			return n, err
		}
	}
	if end := m.back.end(); at+int64(n) < end { // between the file and the first piece are zeros
		full := int(min(int64(len(b)), end-at))
		clear(b[n:full])
		n = full
	}
	for _, p := range m.back.pieces {
		if from, to := max(at, p.pos), min(at+int64(n), p.pos+int64(len(p.data))); from < to {
			copy(b[from-at:], p.data[from-p.pos:to-p.pos])
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (m *mended) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// restoring is a data directory into which a journal is put back. What is written
// stays beside the files; of those it makes the directories need not be there.
type restoring struct {
	vfs.FS
	files map[string]*putBack // by name
}

func (r *restoring) OpenFile(name string, flag int) (vfs.File, error) {
	f, err := r.FS.OpenFile(name, os.O_RDONLY)
	if flag == os.O_RDONLY {
		return f, err
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if r.files[name] == nil {
		r.files[name] = &putBack{}
	}
	return &restored{File: f, back: r.files[name]}, nil
}

// restored is a log file of restoring.
type restored struct {
	vfs.File // nil: there is none
	back     *putBack
}

func (f *restored) WriteAt(b []byte, pos int64) (int, error) {
	if err := f.back.add(f.reader(), pos, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (f *restored) reader() io.ReaderAt {
	if f.File == nil {
		return nil
	}
	return f.File
}

func (f *restored) Close() error {
	if f.File == nil {
		return nil
	}
	return f.File.Close()
}

// journalEnd is where a log ended when a round of the journal was on stable storage.
type journalEnd struct {
	base, next record.Offset // of the segment, and behind the last record
}
