package segment

import (
	"errors"
	"fmt"

	"github.com/varvelog/varve/record"
)

// CorruptError reports damage to bytes that were complete once: a flipped bit,
// a file cut short, a file that is gone. Everything outside [From, To) can
// still be read; a reader may go on at To.
type CorruptError struct {
	Path   string        // file as opened
	At     record.Pos    // first byte that failed
	Offset record.Offset // last good offset before it, or -1
	From   record.Offset // first offset that cannot be served
	To     record.Offset // first offset behind the damage that can
	Reason string        // "crc mismatch", "length past the end of the file"
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: damaged at position %d: %s (offsets %d to %d cannot be read)",
		e.Path, e.At, e.Reason, e.From, e.To-1)
}

// ErrLeftBehind matches the error of an append that failed and of which bytes may
// be left in the file, because it could not be cut back.
var ErrLeftBehind = errors.New("cannot cut back")

// errRemoved is returned by a segment whose files were deleted while it had
// none open: retention or a trim went past it.
var errRemoved = errors.New("segment was removed")

// IsRemoved says whether err comes from a segment that retention or a trim has
// taken: its offsets are below the log start by then.
func IsRemoved(err error) bool { return errors.Is(err, errRemoved) }
