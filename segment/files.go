package segment

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/internal/vfs"
)

// Files bounds how many segments hold a file open, over all partitions of an
// engine. A segment whose file is open is read without a lock; a cold one takes
// the lock of this table for the time of opening it.
//
// Eviction is the clock algorithm: a hand goes round, a file used since its
// last visit is passed over once. A file with unsynced bytes is synced before it
// is closed, because closing it could lose the error of the kernel's write-back.
//
// Locking. mu is never held across a sync.
//
//	field   guarded by    written by
//	limit   (immutable)   NewFiles
//	open    mu            add, drop, evict
//	hand    mu            evict
type Files struct {
	limit int

	mu   sync.Mutex
	open []*handle
	hand int
}

// NewFiles makes a table that keeps at most limit segments open (at least 4).
// A sealed segment takes one descriptor and up to two mappings.
func NewFiles(limit int) *Files {
	return &Files{limit: max(limit, 4)}
}

// Open is how many segments hold a file now.
func (f *Files) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

// handle is an open log file and, for a sealed segment, its mapped indexes.
//
//	field   guarded by   written by
//	refs    atomic       pin, unpin; one is the table's own
//	used    atomic       pin, the clock hand
//	index, unindexed   atomic, one of them set once   Segment.sealedIndex (under openMu)
//	slot    Files.mu     add, drop
type handle struct {
	seg  *Segment
	file vfs.File

	refs      atomic.Int32
	used      atomic.Bool
	index     atomic.Pointer[index.Sealed]
	unindexed atomic.Bool // there is no index, and none can be made
	slot      int
}

// pin takes a share of the handle; false when it is closed already.
func (h *handle) pin() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			if !h.used.Load() {
				h.used.Store(true)
			}
			return true
		}
	}
}

// unpin gives the share back; the last one closes the file. A close error is
// of no consequence: whatever was written had been synced, or its loss is
// reported by the sync that failed. Bytes that were written while the file was
// being evicted are synced here.
func (h *handle) unpin() {
	if h.refs.Add(-1) > 0 {
		return
	}
	if h.seg.Unsynced() && !h.seg.removed.Load() {
		h.seg.syncHandle(h) // its failure poisons the segment
	}
	if x := h.index.Load(); x != nil {
		x.Close()
	}
	h.file.Close()
}

// openHandle opens the file of s, evicting another segment's where the table is
// full. When everything open is pinned the bound is passed for the moment rather
// than a reader refused.
func (f *Files) openHandle(s *Segment, flag int) (*handle, error) {
	for f.Open() >= f.limit && f.evict() {
	}
	var file vfs.File
	err := f.withRoom(func() (err error) {
		file, err = s.fs.OpenFile(s.LogName(), flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	h := &handle{seg: s, file: file}
	h.refs.Store(2) // the table's and the caller's
	h.used.Store(true)
	f.mu.Lock()
	h.slot = len(f.open)
	f.open = append(f.open, h)
	f.mu.Unlock()
	return h, nil
}

// withRoom opens something. While the process, or the system, has no descriptor
// or mapping left for it, files of segments are closed to make room.
func (f *Files) withRoom(open func() error) error {
	err := open()
	for exhausted(err) && f.evict() {
		err = open()
	}
	return err
}

func exhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// evict closes one file that nobody has pinned; false when there is none. A sync
// that fails is the affair of the segment that it poisons, not of whoever wants
// room: its error is noted, so nothing is lost by closing the file.
func (f *Files) evict() bool {
	h := f.victim()
	if h == nil {
		return false
	}
	defer h.unpin()
	if h.seg.Unsynced() {
		h.seg.syncHandle(h)
	}
	f.drop(h)
	return true
}

// victim picks and pins the next file to close: the first that was not used
// since the hand last came by, a clean one before one that needs a sync.
func (f *Files) victim() *handle {
	f.mu.Lock()
	defer f.mu.Unlock()
	var dirty *handle
	for range 2 * len(f.open) {
		f.hand = (f.hand + 1) % len(f.open)
		h := f.open[f.hand]
		if h.refs.Load() > 1 || h.used.Swap(false) {
			continue
		}
		if h.seg.Unsynced() {
			if dirty == nil {
				dirty = h
			}
			continue
		}
		if h.refs.CompareAndSwap(1, 2) {
			return h
		}
	}
	if dirty != nil && dirty.refs.CompareAndSwap(1, 2) {
		return dirty
	}
	return nil
}

// drop takes h out of the table and gives the table's share back.
func (f *Files) drop(h *handle) {
	if !h.seg.open.CompareAndSwap(h, nil) {
		return // somebody else dropped it
	}
	f.mu.Lock()
	last := f.open[len(f.open)-1]
	f.open[h.slot] = last
	last.slot = h.slot
	f.open[len(f.open)-1] = nil
	f.open = f.open[:len(f.open)-1]
	f.mu.Unlock()
	h.unpin()
}

// pin opens the segment's file if it must and holds it for the caller.
func (s *Segment) pin() (*handle, error) {
	if h := s.open.Load(); h != nil && h.pin() {
		return h, nil
	}
	s.openMu.Lock()
	defer s.openMu.Unlock()
	if h := s.open.Load(); h != nil && h.pin() {
		return h, nil
	}
	if s.removed.Load() {
		return nil, errRemoved
	}
	flag := os.O_RDWR
	switch {
	case s.Sealed():
		flag = os.O_RDONLY
	case s.size.Load() == 0:
		flag |= os.O_CREATE
	}
	h, err := s.files.openHandle(s, flag)
	if err != nil {
		return nil, err
	}
	s.open.Store(h)
	return h, nil
}
