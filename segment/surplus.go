package segment

import (
	"errors"
	"io"
	"math"
	"math/bits"

	"github.com/varvelog/varve/record"
)

// Owns says whether a log file is the one that was left in the state st, damaged
// perhaps, or somebody else's: its first batch tells, or where that is damaged any
// other. A file without batches is nobody else's.
func (st *State) Owns(file io.ReaderAt, size record.Pos) (bool, error) {
	owned := true
	w := st.search(file, 0, size, func(b *record.Batch, at record.Pos) {
		if at == 0 {
			wrong := bits.OnesCount32(uint32(b.LeaderEpoch ^ st.FirstEpoch))
			if st.Dense {
				wrong += bits.OnesCount64(uint64(b.BaseOffset ^ st.Base))
			}
			owned = b.MaxTimestamp == st.FirstTimestamp && wrong <= 1 // no checksum covers these
		} else {
			owned = b.BaseOffset >= st.Base && b.NextOffset() <= st.Next &&
				b.LeaderEpoch >= st.FirstEpoch && b.LeaderEpoch <= st.LastEpoch
		}
	})
	err := w.Run()
	return owned && st.Size > 0, err
}

// Surplus says whether a log file that is longer than it was left in the state st may
// have batches behind that.
func (st *State) Surplus(file io.ReaderAt, size record.Pos) (bool, error) {
	head := make([]byte, record.HeadSize)
	n, err := file.ReadAt(head, int64(st.Size))
	if n < len(head) && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch claimed, err := record.PeekSize(head[:n]); {
	case err == nil && claimed <= int64(size-st.Size): // it may be damaged
		return true, nil
	case errors.Is(err, record.ErrMagic): // of an old Kafka
		return true, nil
	}
	found := false
	w := st.search(file, st.Size, size, func(*record.Batch, record.Pos) { found = true })
	err = w.Run()
	return found, err
}

// search is a walk to the first batch there is.
func (st *State) search(file io.ReaderAt, from, end record.Pos, found func(b *record.Batch, at record.Pos)) Walk {
	return Walk{
		File: file, From: from, End: end, Next: math.MaxInt64, open: true, Chain: Chain{Epoch: -1},
		Batch: func(b *record.Batch, at record.Pos) bool { found(b, at); return false },
	}
}
