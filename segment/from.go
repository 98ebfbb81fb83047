package segment

import "github.com/varvelog/varve/record"

// From is how many bytes there are from the index entry in front of an offset to the end:
// all of them where the index cannot be had, none behind the last offset.
func (s *Segment) From(off record.Offset) int64 {
	size := int64(s.Size())
	switch {
	case off >= s.Next():
		return 0
	case off <= s.base:
		return size
	}
	h, err := s.pin()
	if err != nil {
		return size
	}
	defer h.unpin()
	return max(size-int64(s.lookup(h, off).Pos), 0)
}
