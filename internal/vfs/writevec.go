package vfs

import "io"

// vecWriter is what writeVecAt builds on.
type vecWriter interface {
	// writeVec writes up to vecMax buffers in one call, and may write less than
	// all of them without an error.
	writeVec(bufs [][]byte, off int64) (n int, err error)
	// WriteAt writes all or returns an error.
	io.WriterAt
}

// writeVecAt writes all buffers, or returns an error and how many bytes it wrote.
func writeVecAt(w vecWriter, bufs [][]byte, off int64) (n int, err error) {
	if len(bufs) == 1 {
		return w.WriteAt(bufs[0], off)
	}
	for len(bufs) > 0 {
		batch := bufs[:min(len(bufs), vecMax)]
		bufs = bufs[len(batch):]
		m, err := writeBatch(w, batch, off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// writeBatch writes what one call left over a buffer at a time: after a short
// write the next one mostly brings the error that says why.
func writeBatch(w vecWriter, bufs [][]byte, off int64) (n int, err error) {
	n, err = w.writeVec(bufs, off)
	if err != nil {
		return n, err
	}
	done := n
	for _, b := range bufs {
		if done >= len(b) {
			done -= len(b)
			continue
		}
		m, err := w.WriteAt(b[done:], off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
		done = 0
	}
	return n, nil
}
