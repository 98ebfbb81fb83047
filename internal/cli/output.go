package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// errOutputClosed says that whoever read standard output has had enough, as
// head does. It ends a command quietly and is no failure.
var errOutputClosed = errors.New("standard output was closed")

// output is standard output: it tells a reader that went away from a disk that
// is full.
type output struct {
	w   io.Writer
	err error // of the first write that failed
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		err = errOutputClosed
	default:
		err = fmt.Errorf("write to standard output: %w", err)
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// isTerminal says whether a stream is a terminal: somebody can answer a
// question on it, or watch a bar grow.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
