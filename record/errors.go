package record

import (
	"errors"
	"fmt"
)

var (
	// ErrShort is returned by Parse and PeekSize when data ends inside the
	// batch it starts with: more bytes may complete it.
	ErrShort = errors.New("record: data ends inside a batch")

	// ErrMagic matches the *FormatError of a batch in a format this package
	// does not read: the message sets (magic 0 and 1) of Kafka before 0.11.
	ErrMagic = errors.New("record: message format before v2")

	// ErrTooLarge matches the error of a batch whose records take more bytes
	// than the caller allows.
	ErrTooLarge = errors.New("record: records larger than the limit")
)

// FormatError says what in a batch breaks the format, and where.
type FormatError struct {
	// At is the byte of the batch that failed. Inside the records of a
	// compressed batch it is where the byte would stand if they were not.
	At     int
	Reason string

	kind error // sentinel this error also matches, or nil
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("record: batch byte %d: %s", e.At, e.Reason)
}

// Unwrap lets errors.Is find the sentinel of a kind that has one.
func (e *FormatError) Unwrap() error { return e.kind }

func formatErrorf(at int, format string, args ...any) *FormatError {
	return &FormatError{At: at, Reason: fmt.Sprintf(format, args...)}
}
