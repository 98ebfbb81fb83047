package partition

import (
	"fmt"
	"sync"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// tailBytes bounds a tail. What does not fit goes to the file at once.
const tailBytes = 64 << 10

// tail is the end of a log that the file of the active segment does not have yet: batches
// with offsets, which readers do not see and nobody was told of. On a topic of level
// fsync the journal makes them durable, and they are written to the file while its sync
// is under way. Whoever needs the file whole stores the tail first.
//
// What the file refuses is taken back, with all that is behind it: nobody is told of it but
// that it failed, and its offsets are given out again. Where the journal has it, the journal
// takes it back first. Meanwhile nothing is appended.
type tail struct {
	bytes   []byte
	entries []segment.Entry
	lent    int   // entries, the first of them, that the round under way has
	refused error // by the file: nothing is stored or appended until it is taken back
	now     int64 // of the last append
	bufs    [1][]byte
}

var tails = sync.Pool{New: func() any { return new(tail) }}

// size is how many bytes the first n entries have.
func (t *tail) size(n int) (size int) {
	for i := range t.entries[:n] {
		size += t.entries[i].Size
	}
	return size
}

// drop forgets the first n entries.
func (t *tail) drop(n, bytes int) {
	t.entries = t.entries[:copy(t.entries, t.entries[n:])]
	t.bytes = t.bytes[:copy(t.bytes, t.bytes[bytes:])]
	t.lent = max(0, t.lent-n)
}

// tailSizeLocked is how many bytes the log has behind the end of its active file.
func (l *Log) tailSizeLocked() int64 {
	if l.tail == nil {
		return 0
	}
	return int64(len(l.tail.bytes))
}

// keepLocked puts batches behind the tail.
func (l *Log) keepLocked(bufs [][]byte, entries []segment.Entry, now int64) {
	t := l.tail
	if t == nil {
		t = tails.Get().(*tail)
		l.tail = t
	}
	for _, b := range bufs {
		t.bytes = append(t.bytes, b...)
	}
	t.entries = append(t.entries, entries...)
	t.now = now
	l.tailed.Store(int64(len(t.bytes)))
}

// storeLocked writes the tail to its file.
func (l *Log) storeLocked() error {
	if l.tail == nil {
		return nil
	}
	return l.storeFirstLocked(len(l.tail.entries))
}

// storeFirstLocked writes the first n entries of the tail to their file. Space was kept
// for them, so that a full disk was met before.
func (l *Log) storeFirstLocked(n int) error {
	t := l.tail
	switch {
	case t.refused != nil:
		return t.refused
	case n == 0:
		return nil
	case l.gone.Load():
		return ErrClosed
	case l.Failed() != nil:
		return l.Failed()
	}
	size := t.size(n)
	t.bufs[0] = t.bytes[:size]
	if err := l.active.Append(t.bufs[:], t.entries[:n], t.now); err != nil {
		l.noteFailure(l.active)
		t.refused = err
		return err
	}
	l.stats.appended(t.entries[:n], int64(size))
	t.drop(n, size)
	l.freeTailLocked()
	return nil
}

// freeTailLocked lets go of a tail that is empty.
func (l *Log) freeTailLocked() {
	l.tailed.Store(int64(len(l.tail.bytes)))
	if t := l.tail; len(t.entries) == 0 {
		l.tail, t.refused = nil, nil
		tails.Put(t)
	}
}

// refusal is why the file has refused the tail, nil where it has not.
func (l *Log) refusal() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	return l.refusalLocked()
}

func (l *Log) refusalLocked() error {
	if l.tail == nil {
		return nil
	}
	return l.tail.refused
}

// takeBack is the end of a round that made nothing durable because the file has refused the
// tail. What is in front of the tail is for another round.
func (l *Log) takeBack() {
	behind := l.dropTail()
	if l.Unsynced() {
		l.roundWanted.Store(true)
	}
	l.endLocked()
	l.durables.wake()
	tellAll(behind)
}

// dropTail forgets a tail that was refused: the log ends where its file does. Returned is who
// waits for it, to be told.
func (l *Log) dropTail() []ack {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	t, end := l.tail, l.active.Next()
	err := fmt.Errorf("append %s at offset %d: %w", l.name, end, t.refused)
	l.refused.Store(&err)
	l.logEnd.Store(int64(end))
	t.entries, t.bytes, t.lent = t.entries[:0], t.bytes[:0], 0
	l.freeTailLocked()
	behind := l.acks.takeBehind(end)
	for _, a := range behind {
		a.done.Err = err
	}
	return behind
}

// Store writes what a round has of the tail to its file: beside the sync of the journal.
// The end of the round does it where that was not called.
func (l *Log) Store() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	if l.tail == nil {
		return nil
	}
	return l.storeFirstLocked(l.tail.lent)
}

// lendLocked notes that a round has all of the tail.
func (l *Log) lendLocked() {
	if l.tail != nil {
		l.tail.lent = len(l.tail.entries)
	}
}

// read reads bytes of a segment, from the tail those that its file does not have.
func (l *Log) read(s *segment.Segment, buf []byte, from record.Pos) error {
	l.appendMu.Lock()
	size := s.Size()
	stored := max(0, min(len(buf), int(size-from)))
	if stored < len(buf) { // s is the active one: a roll stores the tail
		copy(buf[stored:], l.tail.bytes[from+record.Pos(stored)-size:])
	}
	l.appendMu.Unlock()
	if stored == 0 {
		return nil
	}
	return s.ReadRaw(buf[:stored], from)
}
