package segment

import (
	"fmt"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// lookup is where to start scanning for off. An index that cannot be had costs
// a scan from the start of the segment, never an answer.
func (s *Segment) lookup(h *handle, off record.Offset) index.Entry {
	start := index.Entry{Offset: s.base - 1}
	if !s.Finished() {
		a, err := s.activeIndex()
		if err != nil {
			return start
		}
		return a.Lookup(off)
	}
	x := s.sealedIndex(h)
	if x == nil {
		return start
	}
	e, err := x.Lookup(off)
	if err != nil {
		return start
	}
	return e
}

// lookupTime is where to start scanning for the first batch whose largest
// timestamp is at or after ts.
func (s *Segment) lookupTime(h *handle, ts int64) index.Entry {
	start := index.Entry{Offset: s.base - 1}
	if !s.Finished() {
		a, err := s.activeIndex()
		if err != nil {
			return start
		}
		return a.LookupTime(ts)
	}
	x := s.sealedIndex(h)
	if x == nil {
		return start
	}
	e, err := x.LookupTime(ts)
	if err != nil {
		return start
	}
	return e
}

// activeIndex is the index of a segment that is not finished. After a clean
// stop it lies on disk and is resumed here, when first asked for; where the
// files do not agree with the checkpoint it is rebuilt from the log.
func (s *Segment) activeIndex() (*index.Active, error) {
	if a := s.active.Load(); a != nil {
		return a, nil
	}
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if a := s.active.Load(); a != nil {
		return a, nil
	}
	if s.removed.Load() {
		return nil, errRemoved
	}
	a, err := index.Resume(s.fs, s.name(), s.base, s.opt.Index, *s.mark)
	if err != nil {
		if a, err = s.rebuild(); err != nil {
			return nil, err
		}
	}
	s.active.Store(a)
	return a, nil
}

// sealedIndex is the mapped index of a finished segment, nil when there is
// none and none can be made. For a caller that has h pinned.
func (s *Segment) sealedIndex(h *handle) *index.Sealed {
	if x := h.index.Load(); x != nil {
		return x
	}
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if x := h.index.Load(); x != nil {
		return x
	}
	x, err := s.openIndexLocked()
	if err != nil {
		return nil
	}
	h.index.Store(x)
	return x
}

func (s *Segment) openIndexLocked() (*index.Sealed, error) {
	mark := s.seal.Load().Index
	x, err := index.OpenSealed(s.fs, s.name(), s.base, mark)
	if err == nil || s.removed.Load() {
		return x, err
	}
	a, err := s.rebuild()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	mark, err = a.Seal()
	if err != nil {
		return nil, err
	}
	seal := *s.seal.Load()
	seal.Index = mark
	s.seal.Store(&seal)
	return index.OpenSealed(s.fs, s.name(), s.base, mark)
}

// rebuild makes the index anew from the log, over what can be read of it.
func (s *Segment) rebuild() (*index.Active, error) {
	file, err := s.fs.OpenFile(s.LogName(), readOnly)
	if err != nil {
		return nil, fmt.Errorf("rebuild the index of %s: %w", s.Path(), err)
	}
	defer file.Close()
	a := index.Create(s.fs, s.name(), s.base, s.opt.Index)
	w := Walk{
		File: file, End: s.Size(), Chain: Chain{Next: s.base, Exact: s.dense.Load(), Dense: s.dense.Load()}, Next: s.Next(),
		Batch: func(b *record.Batch, at record.Pos) bool {
			a.Append(b.LastOffset(), at, b.Size(), b.MaxTimestamp)
			return true
		},
	}
	if err := w.Run(); err != nil {
		a.Close()
		return nil, fmt.Errorf("rebuild the index of %s: %w", s.Path(), err)
	}
	return a, nil
}
