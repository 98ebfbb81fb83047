package record

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// gzipReader and gzipWriter are what is kept between batches.
type (
	gzipReader struct {
		src bytes.Reader
		z   gzip.Reader
	}
	gzipWriter struct {
		dst sliceWriter
		z   *gzip.Writer
	}
)

var (
	gzipReaders = sync.Pool{New: func() any { return new(gzipReader) }}
	gzipWriters [gzip.BestCompression + 1]sync.Pool // by level; 0 is the default
)

func gzipInflate(dst, src []byte, max int) ([]byte, error) {
	r := gzipReaders.Get().(*gzipReader)
	defer gzipReaders.Put(r)
	r.src.Reset(src)
	defer r.src.Reset(nil)
	if err := r.z.Reset(&r.src); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return readAll(firstGuess(dst, src, max), &r.z, max)
}

func gzipDeflate(dst, src []byte, level int) []byte {
	level = min(max(level, 0), gzip.BestCompression)
	w, _ := gzipWriters[level].Get().(*gzipWriter)
	if w == nil {
		w = newGzipWriter(level)
	}
	defer gzipWriters[level].Put(w)
	w.dst = dst
	w.z.Reset(&w.dst)
	_, err := w.z.Write(src)
	must(err)
	must(w.z.Close())
	dst, w.dst = w.dst, nil
	return dst
}

func newGzipWriter(level int) *gzipWriter {
	if level == 0 {
		level = gzip.DefaultCompression
	}
	z, err := gzip.NewWriterLevel(nil, level)
	must(err)
	return &gzipWriter{z: z}
}

// sliceWriter appends what is written to it; it never fails.
type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}

// must is for the errors of compressing in memory, of which there are none.
func must(err error) {
	if err != nil {
		panic("record: compress: " + err.Error())
	}
}
