package partition

import (
	"github.com/varvelog/varve/record"
)

// Hold has retention keep every segment with an offset that keep says, or one above: it
// is asked before each look at the segments, and must not call the log. Nil holds
// nothing. When Hold returns no removal is under way that was decided without it. Trim
// heeds no hold. Whenever something of what Queued counts was written, written
// is called; it must not block.
func (l *Log) Hold(keep func() record.Offset, written func()) {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	l.keep = keep
	if l.written.Store(nil); written != nil {
		l.written.Store(&written)
	}
}

// noteWritten tells who counts what is queued.
func (l *Log) noteWritten() {
	if written := l.written.Load(); written != nil {
		l.queueMu.Lock()
		l.writing = 0
		l.queueMu.Unlock()
		(*written)()
	}
}

// Behind is how many bytes of records there are from an offset to the end of the log, 0
// at the end and not before. Where it begins within what has one index entry, it is more
// by what of that is in front of it.
func (l *Log) Behind(off record.Offset) int64 {
	if off >= l.LogEnd() {
		return 0
	}
	n := l.tailed.Load() // first: what goes into a file meanwhile is counted
	l.view.Load().Descend(func(it item) bool {
		if it.base > off {
			n += int64(it.seg.Size())
			return true
		}
		n += it.seg.From(off)
		return false
	})
	return max(n, 1)
}

// Queued is about how many bytes were handed to the log and are not appended yet.
func (l *Log) Queued() int64 {
	l.queueMu.Lock()
	defer l.queueMu.Unlock()
	n := int64(l.writing)
	for _, a := range l.queue {
		n += int64(a.weight())
	}
	return n
}
