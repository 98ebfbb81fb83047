package segment

import (
	"errors"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/varvelog/varve/record"
)

// Owns says whether a log file is the one that was left in the state st, damaged
// perhaps, or somebody else's.
func (st *State) Owns(file io.ReaderAt, size record.Pos) (bool, error) {
	o := owner{size: st.Size, base: st.Base, next: st.Next, first: st.FirstEpoch, last: st.LastEpoch, dense: st.Dense}
	o.dated = func(ts int64) bool { return ts == st.FirstTimestamp }
	return o.owns(file, size)
}

// Owns says whether a log file is the one that was sealed, damaged perhaps, or somebody
// else's.
func (s *Seal) Owns(file io.ReaderAt, size record.Pos) (bool, error) {
	o := owner{size: s.Size, base: s.Base, next: s.Next, first: s.FirstEpoch, last: s.LastEpoch, dense: s.Dense}
	o.dated = func(ts int64) bool { return ts <= s.MaxTimestamp }
	return o.owns(file, size)
}

// Is says whether a log file is the one that was sealed, as far as its length, its batch
// headers and its largest timestamp tell. It reads the file.
func (s *Seal) Is(file io.ReaderAt, size record.Pos) (bool, error) {
	if size != s.Size {
		return false, nil
	}
	largest := NoMaxTimestamp
	w := search(file, 0, size, func(b *record.Batch, _ record.Pos) bool {
		largest = max(largest, b.MaxTimestamp)
		return true
	})
	if err := w.Run(); err != nil || largest != s.MaxTimestamp {
		return false, err
	}
	sum, err := headerSum(file, size)
	return sum == s.HeaderSum, err
}

func headerSum(file io.ReaderAt, size record.Pos) (sum uint32, err error) {
	err = eachHeader(file, size, func(_ record.Pos, head []byte) {
		sum = crc32.Update(sum, castagnoli, head)
	})
	return sum, err
}

// Fits says whether a log file may be the one of the offsets [base, next), of which
// nothing else is known, and where its batches end: it has none outside of them, and begins
// with the first of them where none may be missing.
func Fits(file io.ReaderAt, size record.Pos, base, next record.Offset, dense bool) (end record.Offset, fits bool, err error) {
	fits = true
	w := search(file, 0, size, func(b *record.Batch, at record.Pos) bool {
		end = b.NextOffset()
		fits = b.BaseOffset >= base && end <= next && (at > 0 || !dense || b.BaseOffset == base)
		return fits
	})
	w.Chain.Next = sureBase(file, base)
	err = w.Run()
	return end, fits, err
}

// owner is what is known of a log file.
type owner struct {
	size        record.Pos
	base, next  record.Offset
	first, last record.Epoch
	dense       bool
	dated       func(ts int64) bool // its first batch
}

// owns goes by the batches there are: the first, if it checks, is the one the file began
// with, and none is outside of its offsets but for one that a flip may have put there.
// Where all are damaged it goes by what the first header claims. A file without any is
// nobody else's. Of a file that has its length only the first batch is looked at: all
// files of a directory that was copied are new.
func (o *owner) owns(file io.ReaderAt, size record.Pos) (bool, error) {
	found, owned, inside, strays := false, true, 0, 0
	w := search(file, 0, size, func(b *record.Batch, at record.Pos) bool {
		found = true
		count := b.LastOffset() - b.BaseOffset + 1
		switch {
		case at == 0:
			owned = o.dated(b.MaxTimestamp) && count <= o.next-o.base && o.begins(b.BaseOffset, b.LeaderEpoch)
			inside++
		case b.BaseOffset >= o.base && b.NextOffset() <= o.next:
			owned = b.LeaderEpoch >= o.first && b.LeaderEpoch <= o.last
			inside++
		default:
			owned = IsFlipped(b.BaseOffset, o.base, o.next-count)
			strays++
		}
		return owned && size != o.size
	})
	w.Chain.Next = sureBase(file, o.base)
	if err := w.Run(); found || err != nil {
		return owned && strays <= min(1, inside), err
	}
	if size == o.size {
		return true, nil // all of it is damaged
	}
	head := make([]byte, record.HeadSize)
	n, err := file.ReadAt(head, 0)
	if n < len(head) {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return true, err
	}
	_, err = record.PeekSize(head)
	switch {
	case errors.Is(err, record.ErrMagic): // of an old Kafka
		return false, nil
	case head[16] == 2:
		return o.begins(baseOffset(head), epochOf(head)), nil
	}
	return true, nil
}

// begins says whether the file may begin with such a batch. No checksum covers these, so
// one bit may be wrong.
func (o *owner) begins(base record.Offset, epoch record.Epoch) bool {
	wrong := bits.OnesCount32(uint32(epoch ^ o.first))
	if o.dense {
		wrong += bits.OnesCount64(uint64(base ^ o.base))
	}
	return wrong <= 1
}

// Begins says whether a log file begins with what was there when it was left in the
// state st, by its headers, or is all zeros, which are nobody's.
func (st *State) Begins(file io.ReaderAt, size record.Pos) (bool, error) {
	sum, err := headerSum(file, st.Size)
	if sum == st.HeaderSum || err != nil {
		return err == nil, err
	}
	buf := make([]byte, min(scanWindow, int64(size)))
	for pos := int64(0); pos < int64(size); pos += int64(len(buf)) {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), int64(size)-pos)], pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if slices.ContainsFunc(buf[:n], func(b byte) bool { return b != 0 }) {
			return false, nil
		}
	}
	return true, nil
}

// Surplus says whether a log file that begins with what was left in the state st, and is
// longer, may have batches behind that.
func (st *State) Surplus(file io.ReaderAt, size record.Pos) (bool, error) {
	head := make([]byte, record.HeadSize)
	n, err := file.ReadAt(head, int64(st.Size))
	if n < len(head) && !errors.Is(err, io.EOF) {
		return false, err
	}
	switch claimed, err := record.PeekSize(head[:n]); {
	case err == nil && claimed <= int64(size-st.Size): // it may be damaged
		return true, nil
	case errors.Is(err, record.ErrMagic):
		return true, nil
	}
	found := false
	w := search(file, st.Size, size, func(*record.Batch, record.Pos) bool {
		found = true
		return false
	})
	err = w.Run()
	return found, err
}

// sureBase is the base offset of a file's first batch where that is the one by which the
// file is known: no neighbour can put it in doubt. Else it is 0.
func sureBase(file io.ReaderAt, base record.Offset) record.Offset {
	head := make([]byte, record.HeadSize)
	if n, _ := file.ReadAt(head, 0); n < len(head) || baseOffset(head) != base {
		return 0 // an error comes back when the batch is read
	}
	return base
}

// search is a walk over the batches there are, until found says that it is enough.
func search(file io.ReaderAt, from, end record.Pos, found func(b *record.Batch, at record.Pos) bool) Walk {
	return Walk{File: file, From: from, End: end, Next: math.MaxInt64, open: true, Chain: Chain{Epoch: -1}, Batch: found}
}
