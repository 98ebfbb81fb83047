package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sort"

	"github.com/varvelog/varve/record"
)

const (
	// uncovered is how many bytes at the start of a batch its checksum leaves out:
	// base offset, length, leader epoch and magic.
	uncovered = 17
	sumAt     = 17 // where the checksum stands
	covered   = 21 // where begins what it covers
)

// heads is what is known of those bytes where the neighbours of a batch cannot
// tell: base offsets in a log with gaps, leader epochs where they change. It is
// found by reading all headers of a file once and holding them against the
// checksum that is kept of them outside the file.
type heads struct {
	epochs  []EpochStart    // where each leader epoch begins, exactly; nil: not known
	sure    record.Pos      // below it headers are what was written, but for the next one
	damaged record.Pos      // of a batch whose header is not what was written; -1: none
	written [uncovered]byte // that header as it was written

	finished bool          // it is the seal that vouches
	turns    *[]EpochStart // what Segment.turns was
}

// refuse says why the batch at a position cannot be what was written there.
func (x *heads) refuse(b *record.Batch, at record.Pos) string {
	if at == x.damaged && [uncovered]byte(b.Bytes()) != x.written {
		return "header is not what was written"
	}
	if i := sort.Search(len(x.epochs), func(i int) bool { return x.epochs[i].Start > b.BaseOffset }) - 1; i >= 0 {
		if want := x.epochs[i].Epoch; b.LeaderEpoch != want {
			return fmt.Sprintf("leader epoch is %d, expected %d", b.LeaderEpoch, want)
		}
	}
	return ""
}

// headsOf is what neighbours cannot tell of the segment's headers, nil when they
// tell everything, as in each segment without gaps and of one epoch. For others
// the first read goes through the headers of the file.
func (s *Segment) headsOf(file io.ReaderAt) *heads {
	if s.pinned() {
		return nil
	}
	if x := s.heads.Load(); s.isCurrent(x) {
		return x
	}
	s.openMu.Lock()
	defer s.openMu.Unlock()
	return s.headsLocked(file)
}

// pinned says whether the neighbours of a batch, and what is known of the whole
// segment, leave no choice for its header.
func (s *Segment) pinned() bool {
	return s.dense.Load() && s.firstEpoch.Load() == s.lastEpoch.Load()
}

func (s *Segment) isCurrent(x *heads) bool {
	return x != nil && x.finished == s.Finished() && x.turns == s.turns.Load()
}

func (s *Segment) headsLocked(file io.ReaderAt) *heads {
	if s.pinned() {
		return nil
	}
	if x := s.heads.Load(); s.isCurrent(x) {
		return x
	}
	x, err := s.findHeads(file)
	if err != nil {
		return x // not to be read now; the next who asks tries again
	}
	s.heads.Store(x)
	return x
}

// findHeads reads what has to be read, for the part of the file whose sum was
// kept: all of a finished segment, and else what was there when it was opened.
func (s *Segment) findHeads(file io.ReaderAt) (*heads, error) {
	x := &heads{damaged: -1, finished: s.Finished(), turns: s.turns.Load()}
	size, sum := s.before.Size, s.before.HeaderSum
	if x.finished {
		size, sum = s.seal.Load().Size, s.seal.Load().HeaderSum
	}
	if size > 0 && (!s.dense.Load() || s.before.FirstEpoch != s.before.LastEpoch) {
		if err := x.audit(file, size, sum); err != nil || x.epochs == nil {
			return x, err
		}
	} else if s.before.Size > 0 {
		x.epochs = []EpochStart{{s.before.FirstEpoch, s.base}}
	}
	if x.turns != nil {
		for _, turn := range *x.turns {
			if n := len(x.epochs); n == 0 || x.epochs[n-1].Epoch < turn.Epoch {
				x.epochs = append(x.epochs, turn)
			}
		}
	}
	return x, nil
}

// audit reads the headers of the first size bytes of a log file and holds them
// against their sum. One bit that flipped is found by the sum alone; when more
// is wrong nothing is known, and the neighbours have to do.
func (x *heads) audit(file io.ReaderAt, size record.Pos, sum uint32) error {
	got, n, err := x.collect(file, size, -1)
	if err == nil && got != sum {
		if bit := flippedBit(got^sum, n*uncovered); bit >= 0 {
			got, _, err = x.collect(file, size, bit)
		}
	}
	if got != sum || !rising(x.epochs) {
		x.epochs, x.damaged = nil, -1
	} else {
		x.sure = size
	}
	return err
}

// rising says whether epochs are what a log may have.
func rising(epochs []EpochStart) bool {
	return slices.IsSortedFunc(epochs, func(a, b EpochStart) int {
		if a.Epoch >= b.Epoch || a.Start >= b.Start {
			return 1
		}
		return -1
	})
}

// collect notes where epochs begin, with one bit of all the headers turned back;
// a negative one is none. It returns the checksum of the headers and their
// number. Where lengths lead astray, it is that of those up to there.
func (x *heads) collect(file io.ReaderAt, size record.Pos, bit int) (sum uint32, n int, err error) {
	x.epochs = nil
	err = eachHeader(file, size, func(at record.Pos, head []byte) {
		if bit >= 0 && n == bit/8/uncovered {
			head[bit/8%uncovered] ^= 1 << (bit % 8)
			x.damaged, x.written = at, [uncovered]byte(head)
		}
		sum = crc32.Update(sum, castagnoli, head)
		n++
		turn := EpochStart{epochOf(head), baseOffset(head)}
		if k := len(x.epochs); k == 0 || x.epochs[k-1].Epoch != turn.Epoch {
			x.epochs = append(x.epochs, turn)
		}
	})
	return sum, n, err
}

// eachHeader calls do with the first bytes of each batch, which do may change.
func eachHeader(file io.ReaderAt, size record.Pos, do func(at record.Pos, head []byte)) error {
	const window = 64 << 10
	buf := make([]byte, min(window, int64(size)))
	for pos := record.Pos(0); pos < size; {
		n, err := file.ReadAt(buf[:min(int64(len(buf)), int64(size-pos))], int64(pos))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		i := int64(0)
		for i+uncovered <= int64(n) {
			head := buf[i : i+uncovered]
			length := int64(int32(binary.BigEndian.Uint32(head[8:])))
			do(pos+record.Pos(i), head)
			i += record.LogOverhead + max(length, 0)
		}
		if i == 0 {
			return nil // the file is shorter than it was
		}
		pos += record.Pos(i)
	}
	return nil
}

// flippedBit is the one bit of n bytes, counted from the lowest of the first,
// that changes their checksum by diff; negative when no single bit does. A bit
// changes the checksum by what the shift register makes of a 1 in as many steps
// as bits are left, so the register is run backwards until the 1 is seen.
func flippedBit(diff uint32, n int) int {
	for bit := n*8 - 1; bit >= 0; bit-- {
		if diff>>31 != 0 {
			diff = (diff^crc32.Castagnoli)<<1 | 1
		} else {
			diff <<= 1
		}
		if diff == 1 {
			return bit
		}
	}
	return -1
}
