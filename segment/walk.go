package segment

import (
	"errors"
	"io"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// Hole is a damaged range of a log file: what lies in it cannot be read, what
// lies behind it can.
type Hole struct {
	Damage
	From, To record.Offset // offsets that are lost, [From, To)
	Resume   record.Pos    // where the next good batch starts, or the end
}

// Walk is one pass over the good batches of a log file, past any damage.
type Walk struct {
	File  io.ReaderAt
	From  record.Pos
	End   record.Pos
	ask   int64 // how much to read first; 0: nobody knows
	Chain Chain
	Next  record.Offset // one past the last offset the file should hold

	// Batch is called for each batch that checks; false ends the walk.
	Batch func(b *record.Batch, at record.Pos) bool
	// Hole is called for each damaged range; false ends the walk. Nil passes on.
	Hole func(Hole) bool
	// partial says that the file goes on behind End, up to Next.
	partial bool
	// open says that it is not known what the file should hold: Next is beyond it.
	open bool
	// entry finds the first index entry behind a position, where there is an index.
	entry func(after record.Pos) (index.Entry, bool)
}

// Run walks. Its error is that of a read, never damage.
func (w *Walk) Run() error {
	for from := w.From; from < w.End; {
		sc := NewScanner(w.File, from, w.End)
		sc.ask, w.ask = w.ask, 0
		why := ""
		for why == "" && sc.Next() {
			if why = w.Chain.acceptAt(sc.Batch(), sc.At(), w.File, w.End); why == "" && !w.Batch(sc.Batch(), sc.At()) {
				return nil
			}
		}
		if why == "" {
			var d *Damage
			if sc.Err() == nil {
				return nil
			}
			if !errors.As(sc.Err(), &d) {
				return sc.Err()
			}
			why = d.Reason
		}
		hole, err := w.resync(sc.At(), why)
		if err != nil {
			return err
		}
		if w.Hole != nil && !w.Hole(hole) {
			return nil
		}
		from = hole.Resume
		w.Chain.goOn(hole.To)
	}
	return nil
}
