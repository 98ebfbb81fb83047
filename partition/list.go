package partition

import (
	"math"
	"sync"

	"github.com/google/btree"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// item is one segment in the ordered list of a log.
//
// maxBefore is the largest timestamp of this segment and all before it, the
// active one left out. Timestamps need not rise from segment to segment, but
// these prefix maxima do, so that a lookup by time can bisect them. It may be
// too large after segments in front were removed, never too small.
type item struct {
	base      record.Offset
	seg       *segment.Segment
	maxBefore int64
}

func lessItem(a, b item) bool { return a.base < b.base }

const treeDegree = 32

func newTree() *btree.BTreeG[item] { return btree.NewG(treeDegree, lessItem) }

// showListLocked lets readers see the list as it is now. Readers hold a copy that
// shares its nodes with the writer's tree; the next change copies what it touches.
func (l *Log) showListLocked() { l.view.Store(l.tree.Clone()) }

// appendSegmentLocked adds a new last segment; the one that was last is sealed and
// gets its prefix maximum.
func (l *Log) appendSegmentLocked(s *segment.Segment) {
	if last, ok := l.tree.Max(); ok {
		last.maxBefore = max(last.maxBefore, last.seg.MaxTimestamp())
		l.tree.ReplaceOrInsert(last)
		l.tree.ReplaceOrInsert(item{s.Base(), s, last.maxBefore})
		return
	}
	l.tree.ReplaceOrInsert(item{s.Base(), s, segment.NoMaxTimestamp})
}

// removeFirstLocked takes the n oldest segments out and lowers the prefix maxima
// that came from them.
func (l *Log) removeFirstLocked(n int) []*segment.Segment {
	gone := make([]*segment.Segment, 0, n)
	for range n {
		it, ok := l.tree.DeleteMin()
		if !ok {
			break
		}
		gone = append(gone, it.seg)
	}
	var lower []item
	running := segment.NoMaxTimestamp
	active, _ := l.tree.Max()
	l.tree.Ascend(func(it item) bool {
		if it.base != active.base {
			running = max(running, it.seg.MaxTimestamp())
		}
		if it.maxBefore <= running {
			return false // from here on the maximum is one that is still there
		}
		it.maxBefore = running
		lower = append(lower, it)
		return true
	})
	for _, it := range lower {
		l.tree.ReplaceOrInsert(it)
	}
	return gone
}

// locate finds the segment that holds off, or the first behind it where no
// segment does; nil when there is none.
func (l *Log) locate(off record.Offset) *segment.Segment {
	w := walks.Get().(*walk)
	l.view.Load().DescendLessOrEqual(item{base: off}, w.first)
	found := w.end().seg
	if found != nil && (off < found.Next() || !found.Sealed()) {
		return found
	}
	return l.after(off)
}

// after is the first segment whose base is above off.
func (l *Log) after(off record.Offset) *segment.Segment {
	if off == math.MaxInt64 {
		return nil
	}
	var next *segment.Segment
	l.view.Load().AscendGreaterOrEqual(item{base: off + 1}, func(it item) bool {
		next = it.seg
		return false
	})
	return next
}

// segments lists all segments, oldest first.
func (l *Log) segments() []*segment.Segment {
	view := l.view.Load()
	list := make([]*segment.Segment, 0, view.Len())
	view.Ascend(func(it item) bool {
		list = append(list, it.seg)
		return true
	})
	return list
}

// walk is what goes through a list. It is used again: functions that are given to a tree
// are allocated.
type walk struct {
	found
	first func(item) bool // finds one, and ends
	add   func(item) bool // adds up all
}

type found struct {
	seg   *segment.Segment
	bytes int64
}

var walks = sync.Pool{New: func() any {
	w := new(walk)
	w.first = func(it item) bool {
		w.seg = it.seg
		return false
	}
	w.add = func(it item) bool {
		w.bytes += int64(it.seg.Size())
		return true
	}
	return w
}}

// end returns what was found, and the walk to the pool.
func (w *walk) end() found {
	f := w.found
	w.found = found{}
	walks.Put(w)
	return f
}
