package segment

import (
	"errors"
	"hash/crc32"
	"io"
	"math"

	"github.com/varvelog/varve/record"
)

// Surplus says whether a log file that is longer than it was left in the state st
// has batches in it that were not there: behind the end, or, where it does not begin
// with what was left, anywhere.
func (st *State) Surplus(file io.ReaderAt, size record.Pos) (bool, error) {
	sum := uint32(0)
	err := eachHeader(file, st.Size, func(_ record.Pos, head []byte) {
		sum = crc32.Update(sum, castagnoli, head)
	})
	if err != nil {
		return false, err
	}
	from := st.Size
	if sum != st.HeaderSum {
		from = 0
	}
	head := make([]byte, record.HeadSize)
	n, err := file.ReadAt(head, int64(from))
	if n < len(head) && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch claimed, err := record.PeekSize(head[:n]); {
	case err == nil && claimed <= int64(size-from): // it may be damaged
		return true, nil
	case errors.Is(err, record.ErrMagic): // of an old Kafka
		return true, nil
	}
	found := false
	w := Walk{
		File: file, From: from, End: size, Next: math.MaxInt64, open: true, Chain: Chain{Epoch: -1},
		Batch: func(*record.Batch, record.Pos) bool { found = true; return false },
	}
	err = w.Run()
	return found, err
}
