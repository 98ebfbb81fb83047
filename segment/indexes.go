package segment

import (
	"errors"
	"fmt"
	"math"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/record"
)

// errFinished says that the index of a segment is in its files by now.
var errFinished = errors.New("segment is finished")

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
	switch {
	case s.Finished():
		return nil, errFinished
	case s.removed.Load():
		return nil, errRemoved
	}
	a, err := index.Resume(s.fs, s.name(), s.base, s.opt.Index, *s.mark)
	if err != nil {
		if a, err = s.rebuildLocked(); err != nil {
			return nil, err
		}
	}
	s.active.Store(a)
	return a, nil
}

// sealedIndex is the mapped index of a finished segment, nil when there is none
// and none can be made; that is tried once for each time the file is opened. For
// a caller that has h pinned.
func (s *Segment) sealedIndex(h *handle) *index.Sealed {
	if x := h.index.Load(); x != nil || h.unindexed.Load() {
		return x
	}
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if x := h.index.Load(); x != nil || h.unindexed.Load() {
		return x
	}
	x, err := s.openIndexLocked()
	if err != nil {
		h.unindexed.Store(true)
		return nil
	}
	h.index.Store(x)
	return x
}

func (s *Segment) openIndexLocked() (x *index.Sealed, err error) {
	err = s.files.withRoom(func() error {
		x, err = index.OpenSealed(s.fs, s.name(), s.base, s.seal.Load().Index)
		return err
	})
	var damage *index.DamageError
	if !errors.As(err, &damage) || s.removed.Load() {
		return x, err
	}
	mark, err := s.reindexLocked()
	if err != nil {
		return nil, err
	}
	seal := *s.seal.Load()
	seal.Index = mark
	s.seal.Store(&seal)
	return index.OpenSealed(s.fs, s.name(), s.base, mark)
}

// reindexLocked writes complete index files from the log.
func (s *Segment) reindexLocked() (index.Mark, error) {
	a, err := s.rebuildLocked()
	if err != nil {
		return index.Mark{}, err
	}
	defer a.Close()
	mark, err := a.Seal()
	if cause := a.Err(); errors.Is(err, index.ErrIncomplete) && cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return mark, err
}

// rebuildLocked makes the index anew from the log, over what can be read of it.
func (s *Segment) rebuildLocked() (*index.Active, error) {
	file, err := s.fs.OpenFile(s.LogName(), readOnly)
	if err != nil {
		return nil, fmt.Errorf("rebuild the index of %s: %w", s.Path(), err)
	}
	defer file.Close()
	a := index.Create(s.fs, s.name(), s.base, s.opt.Index)
	w := Walk{
		File: file, End: s.Size(), Chain: s.chain(s.headsLocked(file)), Next: s.Next(),
		Batch: func(b *record.Batch, at record.Pos) bool {
			// What no entry can say is not asked for: of a segment of another log that
			// spans too much (KAFKA-6264) the front is indexed, and the rest scanned.
			if b.LastOffset()-s.base <= math.MaxInt32 && at <= math.MaxInt32 {
				a.Append(b.LastOffset(), at, b.Size(), b.MaxTimestamp)
			}
			return true
		},
		Hole: func(Hole) bool { a.Due(); return true },
	}
	if err := w.Run(); err != nil {
		a.Close()
		return nil, fmt.Errorf("rebuild the index of %s: %w", s.Path(), err)
	}
	return a, nil
}
