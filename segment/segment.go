package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Options are what all segments of a partition share.
type Options struct {
	Index index.Options
	// Dense says that offsets never have gaps, as in every log that was only
	// ever published to: a jump is then damage. Compacted and imported logs
	// have gaps.
	Dense bool
	// Bytes is where the segment is rolled: no space is kept for more than that.
	Bytes int64
}

// Segment is one log file and its indexes, active or sealed.
//
// Locking. finishMu comes before openMu, and that before Files.mu; none is on the
// path of a read that finds the file open. Finish and Remove hold finishMu, so
// that files which are gone do not come back. syncMu is a leaf, held across a sync.
//
//	field            guarded by   written by
//	fs, files, dir, base, opt, mark, before, holed   (immutable)   Create, Open…, Adopt
//	room, roomless   the appender's, and then of Finish   makeRoom, giveBack
//	head             the appender's   note
//	size, next, maxTimestamp, firstTimestamp, firstAppend, lastAppend,
//	firstEpoch, lastEpoch, turns, headerSum, dense   atomic   the appender
//	visible          atomic, rising   the publisher
//	synced           atomic       syncHandle (under syncMu)
//	failed           atomic, set once   Append, syncHandle
//	active           atomic       Create, activeIndex; nil once indexed by file
//	seal             atomic, set once   Finish, Open
//	sealing          atomic       Roll
//	heads            atomic       headsOf (under openMu)
//	open             atomic       pin, drop
//	removed          atomic, set once   Remove
type Segment struct {
	fs    vfs.FS
	files *Files
	dir   string
	base  record.Offset
	opt   Options

	size           atomic.Int64 // bytes written
	visible        atomic.Int64 // bytes that readers may touch
	synced         atomic.Int64 // bytes on stable storage
	next           atomic.Int64
	maxTimestamp   atomic.Int64
	firstTimestamp atomic.Int64
	firstAppend    atomic.Int64
	lastAppend     atomic.Int64
	firstEpoch     atomic.Int32
	lastEpoch      atomic.Int32
	headerSum      atomic.Uint32
	room           int64                        // bytes of space that the disk keeps, as far as this process knows
	roomless       bool                         // it keeps none for a file
	head           [uncovered]byte              // room for the head of an entry
	turns          atomic.Pointer[[]EpochStart] // epochs that began since the segment was taken up
	dense          atomic.Bool
	failed         atomic.Pointer[error]

	sealed atomic.Bool
	active atomic.Pointer[index.Active]
	seal   atomic.Pointer[Seal]
	mark   *index.Mark // of the active index on disk, to resume it by
	before earlier     // as the segment was taken up
	holed  bool        // Adopt has taken it up
	heads  atomic.Pointer[heads]

	finishMu sync.Mutex
	syncMu   sync.Mutex

	openMu  sync.Mutex
	open    atomic.Pointer[handle]
	removed atomic.Bool
}

// Suffixes of the files of a segment.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
)

// FileName is the name, without a suffix, of the segment that starts at base:
// 20 digits, so that names sort as offsets do.
func FileName(base record.Offset) string { return fmt.Sprintf("%020d", int64(base)) }

func newSegment(fsys vfs.FS, files *Files, dir string, base record.Offset, opt Options) *Segment {
	s := &Segment{fs: fsys, files: files, dir: dir, base: base, opt: opt}
	s.next.Store(int64(base))
	s.maxTimestamp.Store(NoMaxTimestamp)
	s.firstTimestamp.Store(NoMaxTimestamp)
	s.dense.Store(true)
	return s
}

// Create makes a new, empty active segment. Its name is durable once the
// directory is synced. An empty file of that name, left by a roll that was cut
// short, is taken over (KAFKA-6388); one with bytes in it is an error. No file is left
// behind by a Create that fails, as far as the disk lets it.
func Create(fsys vfs.FS, files *Files, dir string, base record.Offset, opt Options) (*Segment, error) {
	s := newSegment(fsys, files, dir, base, opt)
	if err := s.create(); err != nil {
		s.uncreate()
		return nil, err
	}
	s.active.Store(index.Create(fsys, s.name(), base, opt.Index))
	return s, nil
}

// create makes the file and keeps it open.
func (s *Segment) create() error {
	h, err := s.files.openHandle(s, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer h.unpin()
	s.open.Store(h)
	size, err := h.file.Size()
	if err == nil && size > 0 {
		err = fmt.Errorf("create segment %s: there is one of %d bytes", s.Path(), size)
	}
	if err != nil {
		s.files.drop(h)
	}
	return err
}

// uncreate removes the file that a create which failed may have made all the same: the log
// goes on in another, up to offsets that the name of this one claims. Only if it is known
// to be empty: what it holds is not ours to judge. Where that fails too, who opens the log
// knows what it is.
func (s *Segment) uncreate() {
	if info, err := s.fs.Stat(s.LogName()); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		s.fs.Remove(s.LogName())
	}
}

// OpenSealed takes up a sealed segment from what is kept of it. It touches no
// file: damage shows itself when the segment is read.
func OpenSealed(fsys vfs.FS, files *Files, dir string, seal Seal, opt Options) *Segment {
	s := newSegment(fsys, files, dir, seal.Base, opt)
	s.size.Store(int64(seal.Size))
	s.visible.Store(int64(seal.Size))
	s.synced.Store(int64(seal.Size))
	s.next.Store(int64(seal.Next))
	s.maxTimestamp.Store(seal.MaxTimestamp)
	s.lastAppend.Store(seal.LastAppend)
	s.firstAppend.Store(seal.LastAppend)
	s.firstEpoch.Store(int32(seal.FirstEpoch))
	s.lastEpoch.Store(int32(seal.LastEpoch))
	s.headerSum.Store(seal.HeaderSum)
	s.dense.Store(seal.Dense)
	s.before = earlier{Size: seal.Size, HeaderSum: seal.HeaderSum, FirstEpoch: seal.FirstEpoch, LastEpoch: seal.LastEpoch}
	s.seal.Store(&seal)
	s.sealed.Store(true)
	return s
}

// State is what a checkpoint keeps of an active segment.
type State struct {
	Base           record.Offset
	Next           record.Offset
	Size           record.Pos
	MaxTimestamp   int64
	FirstTimestamp int64
	FirstAppend    int64
	LastAppend     int64
	FirstEpoch     record.Epoch
	LastEpoch      record.Epoch
	HeaderSum      uint32
	Dense          bool
	Index          index.Mark
}

// earlier is what is known of the batches that a segment had when it was taken up.
type earlier struct {
	Size                  record.Pos
	HeaderSum             uint32
	FirstEpoch, LastEpoch record.Epoch
}

// OpenActive takes up an active segment as a checkpoint left it, without
// touching a file; the index is resumed, or rebuilt, when it is first needed. A
// state of size 0 is a new segment, whose file is made by the first append. The
// caller has made sure that nothing was written after the checkpoint.
func OpenActive(fsys vfs.FS, files *Files, dir string, st State, opt Options) *Segment {
	s := newSegment(fsys, files, dir, st.Base, opt)
	if st.Size == 0 {
		s.active.Store(index.Create(fsys, s.name(), st.Base, opt.Index))
		return s
	}
	s.restore(st)
	s.mark = &st.Index
	return s
}

func (s *Segment) restore(st State) {
	s.size.Store(int64(st.Size))
	s.visible.Store(int64(st.Size))
	s.synced.Store(int64(st.Size))
	s.next.Store(int64(st.Next))
	s.maxTimestamp.Store(st.MaxTimestamp)
	s.firstTimestamp.Store(st.FirstTimestamp)
	s.firstAppend.Store(st.FirstAppend)
	s.lastAppend.Store(st.LastAppend)
	s.firstEpoch.Store(int32(st.FirstEpoch))
	s.lastEpoch.Store(int32(st.LastEpoch))
	s.headerSum.Store(st.HeaderSum)
	s.dense.Store(st.Dense)
	s.before = earlier{Size: st.Size, HeaderSum: st.HeaderSum, FirstEpoch: st.FirstEpoch, LastEpoch: st.LastEpoch}
}

// state is the segment as it stands, without its index. For the appender.
func (s *Segment) state() State {
	return State{
		Base: s.base, Next: s.Next(), Size: s.Size(),
		MaxTimestamp: s.MaxTimestamp(), FirstTimestamp: s.firstTimestamp.Load(),
		FirstAppend: s.firstAppend.Load(), LastAppend: s.LastAppend(),
		FirstEpoch: record.Epoch(s.firstEpoch.Load()), LastEpoch: record.Epoch(s.lastEpoch.Load()),
		HeaderSum: s.headerSum.Load(), Dense: s.dense.Load(),
	}
}

// Base is the first offset the segment may hold.
func (s *Segment) Base() record.Offset { return s.base }

// Next is one past the last offset written.
func (s *Segment) Next() record.Offset { return record.Offset(s.next.Load()) }

// Size is the number of bytes written.
func (s *Segment) Size() record.Pos { return record.Pos(s.size.Load()) }

// MaxTimestamp is the largest record timestamp, or NoMaxTimestamp.
func (s *Segment) MaxTimestamp() int64 { return s.maxTimestamp.Load() }

// FirstTimestamp is the largest timestamp of the first batch, or NoMaxTimestamp.
func (s *Segment) FirstTimestamp() int64 { return s.firstTimestamp.Load() }

// FirstAppend and LastAppend are times of the wall clock in milliseconds, 0 when
// nothing was appended.
func (s *Segment) FirstAppend() int64 { return s.firstAppend.Load() }

// LastAppend is when the last batch was appended.
func (s *Segment) LastAppend() int64 { return s.lastAppend.Load() }

// Sealed says that the segment takes no more appends.
func (s *Segment) Sealed() bool { return s.sealed.Load() }

// Finished says that the segment is sealed, on stable storage and indexed, and
// so needs no recovery.
func (s *Segment) Finished() bool { return s.seal.Load() != nil }

// Unsynced says that there are bytes a power cut could take.
func (s *Segment) Unsynced() bool { return s.synced.Load() < s.size.Load() }

// Show makes the bytes below pos visible to readers, and never fewer than before.
// Call it before the end that covers them is published; any goroutine may.
func (s *Segment) Show(pos record.Pos) {
	for {
		was := s.visible.Load()
		if was >= int64(pos) || s.visible.CompareAndSwap(was, int64(pos)) {
			return
		}
	}
}

func (s *Segment) name() string { return s.dir + "/" + FileName(s.base) }

// LogName is the log file's name in the file system of the engine.
func (s *Segment) LogName() string { return s.name() + LogSuffix }

// Path is the log file as a user would name it.
func (s *Segment) Path() string { return s.fs.Path(s.LogName()) }

// Remove deletes the files, indexes first and the log last, so that a removal
// cut short leaves a segment that can be opened or removed again. Readers that
// have it pinned read on. It waits for Finish.
func (s *Segment) Remove() error {
	s.finishMu.Lock()
	defer s.finishMu.Unlock()
	s.openMu.Lock()
	s.removed.Store(true)
	h := s.open.Load()
	s.openMu.Unlock()
	if h != nil {
		s.files.drop(h)
	}
	for _, suffix := range []string{IndexSuffix, TimeIndexSuffix, LogSuffix} {
		if err := s.fs.Remove(s.name() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Close gives back the open file. Nothing may use the segment afterwards.
func (s *Segment) Close() {
	s.openMu.Lock()
	s.removed.Store(true)
	h := s.open.Load()
	s.openMu.Unlock()
	if h != nil {
		s.files.drop(h)
	}
	if a := s.active.Load(); a != nil {
		a.Close()
	}
}

// LastEpoch is the leader epoch of the last batch.
func (s *Segment) LastEpoch() record.Epoch { return record.Epoch(s.lastEpoch.Load()) }
