package segment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Torn is the end of a log file that recovery could not take for batches.
type Torn struct {
	At     record.Pos // first byte of it
	Bytes  int64
	Reason string
}

// Recover takes up a log file whose end is not known, from the last state that
// is known to be on stable storage (the zero state but for Base, when nothing
// is): it reads on from there, takes what checks and follows on, and returns as
// torn what does not. until is where the next file begins, 0 when there is none. It
// changes nothing yet; Settle does.
//
// A file shorter than the known state is damage, not a torn end: the segment
// then stands as the state says, and short is true. It can be read, with a gap,
// but must not be appended to.
func Recover(fsys vfs.FS, files *Files, dir string, st State, until record.Offset, opt Options) (s *Segment, torn *Torn, short bool, err error) {
	s = newSegment(fsys, files, dir, st.Base, opt)
	if st.Size > 0 {
		s.restore(st)
	}
	s.mark = &st.Index
	h, err := s.pin()
	if err != nil {
		return nil, nil, false, err
	}
	defer h.unpin()
	size, err := h.file.Size()
	if err != nil {
		return nil, nil, false, err
	}
	if size < int64(st.Size) {
		return s, nil, true, nil
	}
	if st.Size == 0 {
		s.active.Store(index.Create(fsys, s.name(), s.base, opt.Index))
	} else if _, err := s.activeIndex(); err != nil {
		return nil, nil, false, err
	}
	torn, err = s.scanTail(h, record.Pos(size), until)
	if err != nil {
		return nil, nil, false, err
	}
	if s.Size() > st.Size {
		s.noteTimes(st)
	}
	s.visible.Store(int64(s.Size()))
	return s, torn, false, nil
}

// Adopt takes up what verifies behind the damage that Recover met, in a segment
// that is known to have been whole up to where the next one starts, at next, which is not
// known when it is negative. It ends there if the damage does, and else with its last
// batch: what is missing then is a gap between segments. Readers are told of the damage
// when they come to it. At the places there are batches beyond doubt.
func (s *Segment) Adopt(next record.Offset, places []index.Entry) error {
	h, err := s.pin()
	if err != nil {
		return err
	}
	defer h.unpin()
	size, err := h.file.Size()
	if err != nil {
		return err
	}
	w := Walk{
		File: h.file, From: s.Size(), End: record.Pos(size), Next: next,
		Chain: Chain{Next: s.Next(), Exact: s.opt.Dense, Dense: s.opt.Dense, Epoch: s.leastEpoch(), Lenient: true},
		Batch: func(b *record.Batch, at record.Pos) bool {
			s.size.Store(int64(at))
			e := entryOf(b)
			s.note(&e)
			return true
		},
		Hole: func(Hole) bool { s.active.Load().Due(); return true },
		entry: func(after record.Pos) (index.Entry, bool) {
			i := sort.Search(len(places), func(i int) bool { return places[i].Pos > after })
			if i == len(places) {
				return index.Entry{}, false
			}
			return places[i], true
		},
	}
	if next < 0 {
		w.open, w.Next = true, math.MaxInt64
	} else {
		w.Chain.file = next
	}
	if err := w.Run(); err != nil {
		return err
	}
	s.size.Store(size)
	s.visible.Store(size)
	if next < 0 || next > w.Chain.Next {
		next = w.Chain.Next
	}
	s.next.Store(int64(max(next, s.Next())))
	s.dense.Store(s.opt.Dense)
	s.holed = true
	return nil
}

// scanTail notes the batches behind what the segment knows of, below the offset until.
func (s *Segment) scanTail(h *handle, end record.Pos, until record.Offset) (*Torn, error) {
	dense := s.opt.Dense
	chain := Chain{Next: s.Next(), Exact: dense, Dense: dense, file: until, Epoch: s.leastEpoch(), Lenient: true}
	sc := NewScanner(h.file, s.Size(), end)
	for sc.Next() {
		if why := chain.acceptAt(sc.Batch(), sc.At(), h.file, end); why != "" {
			return &Torn{At: sc.At(), Bytes: int64(end - sc.At()), Reason: why}, nil
		}
		e := entryOf(sc.Batch())
		s.note(&e)
	}
	var d *Damage
	if errors.As(sc.Err(), &d) {
		return &Torn{At: d.At, Bytes: int64(end - d.At), Reason: d.Reason}, nil
	}
	return nil, sc.Err()
}

// leastEpoch is the lowest leader epoch that the next batch of a log file may
// have. Where no broker gave it one, Kafka leaves -1.
func (s *Segment) leastEpoch() record.Epoch {
	if s.Size() == 0 {
		return -1
	}
	return s.LastEpoch()
}

// noteTimes fills in when recovered batches were appended: not later than the
// file was last changed. Those that carry the time of their append say it
// themselves, see note.
func (s *Segment) noteTimes(st State) {
	info, err := s.fs.Stat(s.LogName())
	if err != nil {
		return
	}
	changed := info.ModTime().UnixMilli()
	if st.FirstAppend == 0 {
		s.firstAppend.Store(changed)
	}
	s.lastAppend.Store(max(s.LastAppend(), changed))
}

// Settle cuts what is torn and makes the rest durable. Bytes above the known
// state are written again, the same as they were read: that they could be read
// proves only that the page cache has them, and after a failed sync of an
// earlier process it may hold, as clean, what never reached the disk.
func (s *Segment) Settle(known record.Pos, torn *Torn) error {
	h, err := s.pin()
	if err != nil {
		return err
	}
	defer h.unpin()
	if torn != nil {
		if err := h.file.Truncate(int64(torn.At)); err != nil {
			return fmt.Errorf("cut the torn end of %s: %w", s.Path(), err)
		}
	}
	size, err := h.file.Size()
	if err != nil {
		return err
	}
	end := min(s.Size(), record.Pos(size)) // it may be shorter than it was
	buf := make([]byte, min(scanWindow, max(int64(end-known), 0)))
	for pos := known; pos < end; {
		part := buf[:min(int64(len(buf)), int64(end-pos))]
		if _, err := h.file.ReadAt(part, int64(pos)); err != nil {
			return err
		}
		if _, err := h.file.WriteAt(part, int64(pos)); err != nil {
			return err
		}
		pos += record.Pos(len(part))
	}
	if torn == nil && known >= end {
		return nil
	}
	s.synced.Store(int64(known) - 1) // also when only the length changed
	return s.syncHandle(h)
}

// Roll ends the appends to the segment. It costs nothing: Finish does the work.
func (s *Segment) Roll() { s.sealed.Store(true) }

// Finish completes a rolled segment: its bytes are made durable, its
// indexes complete, on the disk too where Adopt found damage, for they lead past it, and
// from now on read from their files. It returns what is to be kept
// of it, or nil and the error. Cut short, it can be done again. A segment that
// was removed meanwhile needs no finishing: the error then is that of IsRemoved.
func (s *Segment) Finish() (Seal, error) {
	s.finishMu.Lock()
	defer s.finishMu.Unlock()
	if s.removed.Load() {
		return Seal{}, errRemoved
	}
	if seal := s.seal.Load(); seal != nil {
		return *seal, nil
	}
	s.giveBack()
	if err := s.Sync(); err != nil {
		return Seal{}, err
	}
	a, err := s.activeIndex()
	if err != nil {
		return Seal{}, err
	}
	mark, err := a.Seal()
	if err != nil {
		// It has holes, because the disk refused it for a time.
		s.openMu.Lock()
		mark, err = s.reindexLocked()
		s.openMu.Unlock()
	}
	if err == nil && s.holed {
		err = a.Sync()
	}
	if err != nil {
		return Seal{}, err
	}
	st := s.state()
	seal := Seal{
		Base: st.Base, Next: st.Next, Size: st.Size, MaxTimestamp: st.MaxTimestamp, LastAppend: st.LastAppend,
		FirstEpoch: st.FirstEpoch, LastEpoch: st.LastEpoch, HeaderSum: st.HeaderSum, Dense: st.Dense, Index: mark,
	}
	s.seal.Store(&seal)
	s.active.Store(nil)
	return seal, nil
}

// Snapshot returns the state a checkpoint is to keep, with the index written up
// to it. The appender must be held off meanwhile: at most one page of each index
// is written. The state may be kept once the segment has been synced.
func (s *Segment) Snapshot() (State, error) {
	return s.snapshot((*index.Active).Flush)
}

// Rest is the Snapshot of a clean stop: it leaves the index files such that Kafka
// can open the segment too.
func (s *Segment) Rest() (State, error) {
	if s.Size() == 0 {
		if _, err := s.fs.Stat(s.LogName()); err != nil {
			return s.state(), nil // no file was made, so none is missing beside it
		}
	}
	s.giveBack()
	return s.snapshot((*index.Active).Rest)
}

func (s *Segment) snapshot(write func(*index.Active) (index.Mark, error)) (State, error) {
	st := s.state()
	switch a := s.active.Load(); {
	case a != nil:
		mark, err := write(a)
		if err != nil {
			return st, err
		}
		st.Index = mark
	case s.mark != nil:
		st.Index = *s.mark
	}
	return st, nil
}

const readOnly = os.O_RDONLY
