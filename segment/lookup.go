package segment

import (
	"errors"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// lookup is where to start scanning for off. An index that cannot be had costs
// a scan from the start of the segment, never an answer.
func (s *Segment) lookup(h *handle, off record.Offset) index.Stretch {
	return s.ask(h,
		func(a *index.Active) index.Stretch { return a.Around(off) },
		func(x *index.Sealed) (index.Stretch, error) { return x.Around(off) })
}

// lookupTime is where to start scanning for the first batch whose largest
// timestamp is at or after ts.
func (s *Segment) lookupTime(h *handle, ts int64) index.Stretch {
	return s.ask(h,
		func(a *index.Active) index.Stretch { return a.AroundTime(ts) },
		func(x *index.Sealed) (index.Stretch, error) { return x.AroundTime(ts) })
}

func (s *Segment) ask(h *handle, active func(*index.Active) index.Stretch, sealed func(*index.Sealed) (index.Stretch, error)) index.Stretch {
	start := index.Stretch{Entry: index.Entry{Offset: s.base - 1}}
	if !s.Finished() {
		a, err := s.activeIndex()
		switch {
		case err == nil:
			return active(a)
		case !errors.Is(err, errFinished):
			return start
		}
	}
	x := s.sealedIndex(h)
	if x == nil {
		return start
	}
	st, err := sealed(x)
	if err != nil {
		return start
	}
	return st
}

// beginning is a place to begin at, and how much to read there at once so that all is
// read that may hold what was looked up; 0 where that is much, or the index does not tell.
type beginning struct {
	index.Entry
	ask int64
}

// beginnings are where to begin for what was looked up, of which nothing is in the batch
// of st itself, if it is one and not the start of the segment. Where entries are further
// apart than small batches have them each batch has one, so that the one behind is the
// place: that is ahead, to be tried first. The caller sees that nothing lies between, or
// goes back.
func (s *Segment) beginnings(st index.Stretch, limit record.Pos) (ahead *beginning, at beginning) {
	end := or(st.End, limit)
	gap := int64(st.Next.Pos - st.Pos)
	if st.Pos == 0 || gap <= 2*s.opt.Index.Gap() || st.Next.Pos >= limit {
		return nil, beginning{st.Entry, atMost(int64(end-st.Pos), mostAsked)}
	}
	return &beginning{st.Next, atMost(int64(end-st.Next.Pos), trusted)}, beginning{st.Entry, atMost(gap, mostAsked)}
}

// or is pos where an index tells it and there is as much, and limit otherwise.
func or(pos, limit record.Pos) record.Pos {
	if pos == 0 {
		return limit
	}
	return min(pos, limit)
}

// mostAsked bounds what is read at once of several batches, one of which is wanted.
const mostAsked = 64 << 10

// atMost is n, or 0 where that is more than most.
func atMost(n, most int64) int64 {
	if n > most {
		return 0
	}
	return n
}
