package index

import (
	"fmt"
	"math"

	"github.com/varvelog/varve/record"
)

// Mark is what must be kept outside the two files to believe them again.
type Mark struct {
	Entries     int    // in the offset index
	TimeEntries int    // in the time index
	Sum         uint32 // CRC-32C of the first Entries*8 bytes of the offset index
	TimeSum     uint32 // CRC-32C of the first TimeEntries*12 bytes of the time index
	Tail        Tail   // only for Resume; zero in the mark of a sealed segment
}

// Tail is what an active index knows of the batches that no entry covers yet.
// The files do not say it, and time lookups are wrong without it.
type Tail struct {
	Since        int64         // bytes of log since the start of the last indexed batch
	MaxTimestamp int64         // largest timestamp so far, NoTimestamp when none
	MaxOffset    record.Offset // last offset of the batch that carries it
	Missing      int           // entries that were due and could not be made
}

// check refuses marks that no Flush ever returned. A mark whose tail was not
// kept is one of them: the largest timestamp of a log without bytes is none.
func (m Mark) check(base record.Offset) error {
	switch {
	case m.Entries < 0 || m.TimeEntries < 0:
		return fmt.Errorf("mark has a negative number of entries")
	case m.Tail.Since < 0 || m.Tail.MaxTimestamp < record.NoTimestamp || m.Tail.Missing < 0:
		return fmt.Errorf("mark has an impossible tail")
	case m.Tail.Since == 0 && (m.Entries > 0 || m.Tail.MaxTimestamp != record.NoTimestamp):
		return fmt.Errorf("mark has no tail")
	case m.Tail.MaxTimestamp == record.NoTimestamp:
		return nil
	case m.Tail.MaxOffset < base || m.Tail.MaxOffset-base > math.MaxInt32:
		return fmt.Errorf("mark has its largest timestamp at offset %d, outside the segment", m.Tail.MaxOffset)
	}
	return nil
}
