package partition

import (
	"errors"
	"fmt"

	"github.com/varvelog/varve/record"
)

// ErrClosed is returned by every call on a log that was closed.
var ErrClosed = errors.New("closed")

// ErrReadOnly matches the error of every append to a log whose disk failed it:
// a sync, or the cut back of a failed write. What was published stays readable;
// appends are taken again after the engine was closed and opened.
var ErrReadOnly = errors.New("read-only until the engine is opened again")

// ErrPanicked is returned by an append, its own or another's, during which the Clock,
// the Logger or a Done panicked. The panic itself goes to whose goroutine it is.
var ErrPanicked = errors.New("a callback panicked")

// OutOfRangeError says that an offset is not there: below the log start, because
// retention or a trim has taken it, or above the published end.
type OutOfRangeError struct {
	Asked      record.Offset
	Start, End record.Offset // what is there: [Start, End)
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d is out of range: there are offsets from %d up to, not including, %d",
		e.Asked, e.Start, e.End)
}

// ConflictError says that a conditional append found another next offset than
// it expected. Nothing was stored. On a topic of level fsync it is told when everything in
// front of Next is durable, so that what it is with stays.
type ConflictError struct {
	Expected, Next record.Offset
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("next offset is %d, expected %d", e.Next, e.Expected)
}

// MaybeStoredError says that it is not known whether an append is stored, or will
// be: its caller did not wait for the end, or the disk failed it on the way. An
// append that fails with any other error is not stored.
type MaybeStoredError struct {
	Cause error
}

func (e *MaybeStoredError) Error() string { return "may have been stored: " + e.Cause.Error() }

func (e *MaybeStoredError) Unwrap() error { return e.Cause }

// TooLargeError says that a batch is larger than max.message.bytes. Nothing was
// stored.
type TooLargeError struct {
	Size, Limit int // bytes of the whole batch, as it would be stored
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("batch of %d bytes is larger than max.message.bytes = %d", e.Size, e.Limit)
}
