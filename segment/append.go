package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/varvelog/varve/record"
)

// NoMaxTimestamp is the largest timestamp of a segment without records. It is
// below every timestamp, NoTimestamp included, so that a running maximum can
// start from it.
const NoMaxTimestamp int64 = math.MinInt64

// Entry is what the segment notes of one batch it is given.
type Entry struct {
	Base         record.Offset
	Last         record.Offset
	Size         int // bytes
	MaxTimestamp int64
	Epoch        record.Epoch
	// AppendTime is when it was appended, in ms, where the batch itself says so;
	// 0 else. Append knows better.
	AppendTime int64
}

// head writes into b the header bytes that the checksum of the batch leaves out.
func (e *Entry) head(b *[uncovered]byte) {
	binary.BigEndian.PutUint64(b[0:], uint64(e.Base))
	binary.BigEndian.PutUint32(b[8:], uint32(e.Size-record.LogOverhead))
	binary.BigEndian.PutUint32(b[12:], uint32(e.Epoch))
	b[16] = 2
}

// entryOf is the entry of a batch as it stands in a file.
func entryOf(b *record.Batch) Entry {
	e := Entry{
		Base: b.BaseOffset, Last: b.LastOffset(), Size: b.Size(),
		MaxTimestamp: b.MaxTimestamp, Epoch: b.LeaderEpoch,
	}
	if b.Attributes.LogAppendTime() {
		e.AppendTime = b.MaxTimestamp
	}
	return e
}

// Append writes whole batches at the end of the file; bufs together are the
// bytes that entries describe. now is the wall clock in milliseconds.
//
// It is all or nothing: after an error the file is as long as before, and the
// next append gets the same place. Where the cut back fails too, the segment
// is poisoned. Nothing becomes visible or durable by it.
func (s *Segment) Append(bufs [][]byte, entries []Entry, now int64) error {
	if err := s.Failed(); err != nil {
		return err
	}
	h, err := s.pin()
	if err != nil {
		return err
	}
	defer h.unpin()
	if _, err := s.activeIndex(); err != nil {
		return err
	}
	start, end := s.size.Load(), s.size.Load()
	for i := range entries {
		end += int64(entries[i].Size)
	}
	if err := s.makeRoom(h, end); err != nil {
		return err
	}
	if _, err := h.file.WriteVecAt(bufs, start); err != nil {
		s.room = 0
		if terr := s.cutBack(h, start); terr != nil {
			err = fmt.Errorf("%w (and %w: %w)", err, ErrLeftBehind, terr)
			s.fail(err)
		}
		return err
	}
	for i := range entries {
		s.note(&entries[i])
	}
	if start == 0 {
		s.firstAppend.Store(now)
	}
	s.lastAppend.Store(max(now, s.lastAppend.Load()))
	return nil
}

// cutBack takes back a write that failed, durably: where nothing of the file needs a sync
// for long, a power cut would bring it back.
func (s *Segment) cutBack(h *handle, end int64) error {
	if err := h.file.Truncate(end); err != nil {
		return err
	}
	s.syncMu.Lock() // see syncHandle
	defer s.syncMu.Unlock()
	return h.file.Sync()
}

// makeRoom has the disk keep space for a file of need bytes, and for some that follow,
// so that a full disk is met before anything is written, and not when the kernel comes
// to write it back.
func (s *Segment) makeRoom(h *handle, need int64) error {
	if need <= s.room {
		return nil
	}
	room := need
	if free, _, err := s.fs.Space(); err == nil && free >= plenty {
		room = max(need, min(need+min(max(need/4, leastRoom), mostRoom), s.opt.Bytes))
	}
	err := h.file.Allocate(room)
	if err != nil && room > need {
		room = need
		err = h.file.Allocate(room)
	}
	if s.roomless = errors.Is(err, errors.ErrUnsupported); s.roomless {
		err = nil
	}
	if err == nil {
		s.room = room
	}
	return err
}

// Reserve has the disk keep space for size bytes behind the end, and says whether it does:
// then a write of them, some time later, meets no full disk.
func (s *Segment) Reserve(size int64) bool {
	end := s.size.Load() + size
	switch {
	case s.Failed() != nil || s.active.Load() == nil || s.roomless:
		return false
	case end <= s.room:
		return true
	}
	h, err := s.pin()
	if err != nil {
		return false
	}
	defer h.unpin()
	return s.makeRoom(h, end) == nil && !s.roomless
}

// A segment keeps a quarter more space than it takes, within these bounds, while there is
// plenty: on a disk that is nearly full others need it more.
const (
	leastRoom = 16 << 10
	mostRoom  = 1 << 20
	plenty    = 64 << 20
)

// giveBack frees the space behind the end of the file. Where that fails it costs the
// space, and nothing else.
func (s *Segment) giveBack() {
	if s.room <= s.size.Load() {
		return
	}
	h, err := s.pin()
	if err != nil {
		return
	}
	defer h.unpin()
	if h.file.Truncate(s.size.Load()) == nil {
		s.room = 0
	}
}

// note takes a batch that is in the file into the indexes and the facts.
func (s *Segment) note(e *Entry) {
	if s.size.Load() == 0 {
		s.firstTimestamp.Store(e.MaxTimestamp)
		s.firstEpoch.Store(int32(e.Epoch))
	}
	if e.Base != s.Next() {
		s.dense.Store(false)
	}
	if e.MaxTimestamp > s.maxTimestamp.Load() {
		s.maxTimestamp.Store(e.MaxTimestamp)
	}
	if e.AppendTime > s.LastAppend() {
		s.lastAppend.Store(e.AppendTime)
	}
	e.head(&s.head)
	s.headerSum.Store(crc32.Update(s.headerSum.Load(), castagnoli, s.head[:]))
	if s.Size() > 0 && e.Epoch < s.LastEpoch() {
		s.dropTurn(e.Epoch)
	}
	s.noteTurn(e)
	s.lastEpoch.Store(int32(e.Epoch))
	s.active.Load().Append(e.Last, record.Pos(s.size.Load()), e.Size, e.MaxTimestamp)
	s.next.Store(int64(e.Last) + 1)
	s.size.Add(int64(e.Size))
}

// noteTurn notes where a leader epoch begins. It comes before the epoch itself,
// so that a reader who sees the epoch sees where it begins.
func (s *Segment) noteTurn(e *Entry) {
	var old []EpochStart
	if p := s.turns.Load(); p != nil {
		old = *p
	}
	if e.Epoch == s.LastEpoch() && s.before.Size+record.Pos(len(old)) > 0 {
		return
	}
	turns := append(slices.Clip(old), EpochStart{e.Epoch, e.Base})
	s.turns.Store(&turns)
}

// dropTurn takes back the last turn, which a batch behind it with a lower epoch shows
// to have been a flipped bit: recovery hands such batches on, see Chain.Lenient.
func (s *Segment) dropTurn(epoch record.Epoch) {
	turns := slices.Clone(*s.turns.Load())
	turns = turns[:len(turns)-1]
	front := s.before.LastEpoch
	switch n := len(turns); {
	case n > 0:
		front = turns[n-1].Epoch
	case s.before.Size == 0: // it was the first batch
		front, turns = epoch, append(turns, EpochStart{epoch, s.base})
		s.firstEpoch.Store(int32(epoch))
	}
	s.turns.Store(&turns)
	s.lastEpoch.Store(int32(front))
}

// Fits says whether size more bytes, the last batch of which ends at last, can be
// in this segment at all: neither a position nor a relative offset may pass 31
// bits (KAFKA-4451). A batch of any size fits an empty segment.
func (s *Segment) Fits(size int64, last record.Offset) bool {
	if int64(last-s.base) > math.MaxInt32 {
		return false
	}
	return s.size.Load() == 0 || s.size.Load()+size <= math.MaxInt32
}

// IndexFull says that an index has no room for one more entry by its limit, so
// that it is time to roll.
func (s *Segment) IndexFull() bool {
	a := s.active.Load()
	return s.size.Load() > 0 && a != nil && a.Full()
}

// Sync makes everything written so far durable. It may run beside an append,
// of which it then covers nothing. A failure poisons the segment: what the
// kernel dropped cannot be asked for again.
func (s *Segment) Sync() error {
	if !s.Unsynced() {
		return s.Failed()
	}
	h, err := s.pin()
	if err != nil {
		return err
	}
	defer h.unpin()
	return s.syncHandle(h)
}

// syncHandle syncs one at a time. The kernel reports a failed write-back to one
// sync of a file only: another one that runs beside it would be told that all is
// well, of bytes that are lost.
func (s *Segment) syncHandle(h *handle) error {
	s.syncMu.Lock()
	defer s.syncMu.Unlock()
	if !s.Unsynced() || s.Failed() != nil {
		return s.Failed()
	}
	end := s.size.Load()
	if err := h.file.Sync(); err != nil {
		s.fail(fmt.Errorf("sync: %w", err))
		return s.Failed()
	}
	s.synced.Store(end)
	return nil
}

// Failed is the error that poisoned the segment, or nil. A poisoned segment
// takes no append and no sync until the engine is opened again; what was
// visible stays readable.
func (s *Segment) Failed() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Segment) fail(err error) { s.failed.CompareAndSwap(nil, &err) }
