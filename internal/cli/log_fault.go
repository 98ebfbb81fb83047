package cli

import (
	"fmt"
	"strings"

	"github.com/varvelog/varve/record"
)

// fault is one thing found wrong in a file.
type fault struct {
	Type     string `json:"type"` // "fault"; "warning" where no record depends on it
	Path     string `json:"path"`
	Position int64  `json:"position"`
	Offset   int64  `json:"offset"`              // of the first record concerned, -1 for none
	To       int64  `json:"to_offset,omitempty"` // with lost records: the first one behind them
	Reason   string `json:"reason"`
}

// wholeFile is a fault of a file or directory that no offset stands for.
func wholeFile(path, reason string) *fault {
	return &fault{Type: "fault", Path: path, Offset: -1, Reason: reason}
}

// warning is about a file that is derived: the answers are the same without it.
func warning(path, reason string) *fault {
	return &fault{Type: "warning", Path: path, Offset: -1, Reason: reason}
}

// gone says that the records from one offset up to another are not there, where
// path ought to be.
func gone(path string, from, to record.Offset, reason string) fault {
	return fault{Type: "fault", Path: path, Offset: int64(from), To: int64(to), Reason: reason}
}

// unreadable is a file or directory that the system does not let us read.
func unreadable(path string, at int64, offset record.Offset, err error) fault {
	return fault{Type: "fault", Path: path, Position: at, Offset: int64(offset), Reason: "cannot be read: " + plainCause(err).Error()}
}

func (f *fault) text() string {
	parts := []string{f.Path}
	if f.Type == "warning" {
		parts = append(parts, f.Type)
	}
	switch {
	case f.Offset >= 0:
		parts = append(parts, fmt.Sprintf("position %d, offset %d", f.Position, f.Offset))
	case f.Position > 0:
		parts = append(parts, fmt.Sprintf("position %d", f.Position))
	}
	s := strings.Join(append(parts, f.Reason), ": ")
	if f.To > f.Offset && f.Offset >= 0 {
		s += fmt.Sprintf(" (offsets %d to %d cannot be read)", f.Offset, f.To-1)
	}
	return s
}
