package segment

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/varvelog/varve/record"
)

// TestOwnedWithAnyBitFlipped: one flipped bit does not make a file somebody else's, nor
// one that does not fit its place, wherever it is: not in a base offset either, though
// of two batches that cannot both be right either may be a bit away from what could be.
func TestOwnedWithAnyBitFlipped(t *testing.T) {
	for _, c := range []struct {
		base   record.Offset
		counts []int
	}{
		{9, []int{1, 2}}, // 10 and 2 are one bit apart, and so are 9 and 1
		{9, []int{1, 2, 1}},
		{0, []int{3, 1}},
		{5, []int{2}},
		{1 << 33, []int{1, 1, 4}},
	} {
		for _, dense := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d/%v/dense %v", c.base, c.counts, dense), func(t *testing.T) {
				story := newStory(c.base, 1, dense)
				for _, n := range c.counts {
					story.add(shape{n: n, epoch: 2})
				}
				s := story.write(t, newDisk(t), NewFiles(4))
				defer s.Close()
				st, data := s.state(), story.bytes()
				for bit := range 8 * len(data) {
					data[bit/8] ^= 1 << (bit % 8)
					owned, err := st.Owns(bytes.NewReader(data), record.Pos(len(data)))
					if !owned || err != nil {
						t.Errorf("bit %d of byte %d flipped: owned %v, %v", bit%8, bit/8, owned, err)
					}
					data[bit/8] ^= 1 << (bit % 8)
				}
			})
		}
	}
}
