package partition

import (
	"errors"
	"fmt"
	"sync"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/segment"
)

// writer turns requests into batches and batches into writes. One is borrowed
// for the length of a round of appending; appendMu is held meanwhile.
type writer struct {
	l       *Log
	cfg     *Config
	seg     *segment.Segment // the active one
	next    record.Offset    // offset the next batch gets
	now     int64
	builder record.Builder
	err     error // of a write of this round: what follows it fails with it

	arena   []byte          // batches made here, and the headers of finished ones
	open    []*Append       // requests of the batch under construction
	size    int             // bytes of that batch, at most
	codec   record.Codec    // of that batch
	level   Level           // as of the last write
	parts   []part          // what to write, in order
	entries []segment.Entry // one for each batch in parts
	bytes   int64           // of all parts
	latest  int64           // largest timestamp in entries
	wrote   []*Append       // requests in parts
	bufs    [][]byte

	done    []*Append // requests to be told once appendMu is free
	waiting []ack     // requests to be told once they are durable

	conflicts []*Append // requests for another offset than Base, which was the next one
	commit    bool      // bytes wait for the journal
	callers   int       // who wait for one of these requests
}

// part is a piece of a write: arena[start:end], then raw.
type part struct {
	start, end int
	raw        []byte
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// write appends the requests in order. On return each is done, or waits for its
// bytes to become durable; also when it does not return, because the Clock, the Logger
// or a Done panics. That is for whoever called it, and perhaps recovers; the writer is
// not used again.
func (l *Log) write(reqs []*Append) {
	w := writers.Get().(*writer)
	w.l = l
	whole := false
	defer func() {
		if !whole {
			w.handOver()
		}
	}()
	w.run(reqs)
	whole = true
	w.handOver()
	w.release()
}

// run does what appendMu is held for. No request is told or freed before it ends: until
// then all of them can be looked at.
func (w *writer) run(reqs []*Append) {
	l, whole := w.l, false
	l.appendMu.Lock()
	defer func() {
		if !whole {
			w.giveUp(reqs)
		}
		l.acks.wait(w.waiting)
		l.appendMu.Unlock()
	}()
	w.cfg, w.seg, w.next, w.now = l.Config(), l.active, l.LogEnd(), l.tickLocked()
	w.latest = segment.NoMaxTimestamp
	for _, a := range reqs {
		w.take(a)
	}
	w.closeBatch()
	w.flush()
	w.answerConflicts()
	whole = true
}

// giveUp refuses the requests of which nobody knows what becomes of them, and those that
// were not begun with.
func (w *writer) giveUp(reqs []*Append) {
	for _, a := range reqs {
		switch {
		case a.settled:
		case a.begin(stateEncoded):
			w.refuse(a, ErrPanicked)
		case a.state.Load() != stateCancelled:
			a.state.Store(stateEncoded) // its records are not looked at any more
			w.refuse(a, &MaybeStoredError{ErrPanicked})
		}
	}
}

// handOver lets go of the requests.
func (w *writer) handOver() {
	if w.commit {
		w.l.env.Journal.Commit(w.l)
	}
	w.l.crowd = w.callers > 1
	tell(w.done)
}

// take adds a request to what is to be written, unless it is cancelled. Whatever
// has to go to the disk before it goes while it can still be cancelled.
func (w *writer) take(a *Append) {
	if w.endsBatch(a) && a.state.Load() != stateCancelled {
		w.closeBatch()
	}
	state := stateEncoding
	if a.Batch != nil {
		state = stateEncoded // its bytes are the request's own
	}
	if !a.begin(state) {
		if a.pack != nil {
			a.pack.free()
		}
		return
	}
	err := w.add(a)
	a.state.Store(stateEncoded)
	if err != nil {
		w.refuse(a, err)
	}
}

func (w *writer) refuse(a *Append, err error) {
	a.Err, a.settled = err, true
	w.done = append(w.done, a)
}

func (w *writer) release() {
	if cap(w.arena) > 4<<20 {
		w.arena = nil
	}
	clear(w.done)
	clear(w.waiting)
	clear(w.conflicts)
	w.l, w.cfg, w.seg, w.err, w.commit, w.callers = nil, nil, nil, nil, false, 0
	w.arena, w.done, w.waiting, w.conflicts = w.arena[:0], w.done[:0], w.waiting[:0], w.conflicts[:0]
	writers.Put(w)
}

// add takes a request into the write under construction.
func (w *writer) add(a *Append) error {
	switch {
	case w.err != nil:
		return w.err
	case w.l.Failed() != nil:
		return w.l.Failed()
	case w.l.closed.Load():
		return ErrClosed
	}
	if a.Expect >= 0 && a.Expect != w.next {
		a.Base, w.conflicts = w.next, append(w.conflicts, a)
		return nil
	}
	a.Time = -1
	if w.cfg.AppendTime {
		a.Time = w.now
	}
	switch {
	case a.pack != nil:
		return w.addPack(a)
	case a.Batch != nil:
		return w.addBatch(a)
	}
	return w.addRecords(a)
}

// answerConflicts tells those whose offset was not the next one, which is told of no log
// that may yet be another: not where the write in front of it failed, and on a topic of level
// fsync not before that is durable, for until then the disk may refuse it, or lose it.
func (w *writer) answerConflicts() {
	l := w.l
	end := l.LogEnd()
	for _, a := range w.conflicts {
		switch {
		case a.Base > end && w.err != nil:
			w.refuse(a, w.err)
		case l.Config().Level == Fsync && l.DurableEnd() < end:
			a.Err, a.settled, w.commit = &ConflictError{Expected: a.Expect, Next: a.Base}, true, true
			w.waiting = append(w.waiting, ack{end, a})
		default:
			w.refuse(a, &ConflictError{Expected: a.Expect, Next: a.Base})
		}
	}
}

// place puts a complete batch into the write, after rolling where it may not go
// into the active segment.
func (w *writer) place(b *record.Batch, p part, of []*Append) {
	if w.rollBefore(b) {
		w.flush()
		if w.err == nil {
			w.err = w.roll(b)
		}
	}
	if w.err != nil {
		for _, a := range of {
			w.refuse(a, w.err)
		}
		return
	}
	w.parts = append(w.parts, p)
	w.entries = append(w.entries, segment.Entry{
		Base: b.BaseOffset, Last: b.LastOffset(), Size: b.Size(),
		MaxTimestamp: b.MaxTimestamp, Epoch: b.LeaderEpoch,
	})
	w.bytes += int64(b.Size())
	w.latest = max(w.latest, b.MaxTimestamp)
	w.wrote = append(w.wrote, of...)
}

// flush writes the complete batches.
func (w *writer) flush() {
	if len(w.parts) == 0 {
		return
	}
	w.gather()
	last := w.entries[len(w.entries)-1].Last
	if err := w.append(); err != nil {
		w.err = fmt.Errorf("append %s at offset %d: %w", w.l.name, w.entries[0].Base, err)
		w.l.noteFailure(w.seg)
		err := w.err
		if errors.Is(err, segment.ErrLeftBehind) {
			err = &MaybeStoredError{err}
		}
		for _, a := range w.wrote {
			w.refuse(a, err)
		}
	} else {
		w.appended(last + 1)
	}
	clear(w.parts)
	clear(w.wrote)
	clear(w.bufs)
	w.parts, w.entries, w.wrote, w.bufs, w.bytes = w.parts[:0], w.entries[:0], w.wrote[:0], w.bufs[:0], 0
	w.latest = segment.NoMaxTimestamp
}

// append writes to the segment, or leaves that to the round that makes it durable. On a
// topic of level fsync nothing goes into a new segment before everything in front of it is
// durable. All that waits for the one waits for the other anyway, and recovery can tell by
// it: a crash leaves no batch behind a torn place but in the same file.
//
// The level is asked for behind that: it may have changed since the round of appending
// began, when appendMu was let go.
func (w *writer) append() error {
	l, first := w.l, w.seg.Size() == 0
	if first && l.Config().Level == Fsync {
		if err := l.settleLocked(); err != nil {
			return err
		}
	}
	w.level = l.Config().Level
	if w.mayWait() {
		l.keepLocked(w.bufs, w.entries, w.now)
		return nil
	}
	if err := l.storeLocked(); err != nil {
		return err
	}
	if err := w.seg.Append(w.bufs, w.entries, w.now); err != nil {
		return err
	}
	l.stats.appended(w.entries, w.bytes)
	if first { // the name of its file has to become durable too
		l.names++
	}
	return nil
}

// mayWait says whether the write can wait for its round: nobody is told before that, and
// the disk has space for it.
func (w *writer) mayWait() bool {
	size := w.l.tailSizeLocked() + w.bytes
	if w.level != Fsync || w.seg.Size() == 0 || size > tailBytes || w.l.refusalLocked() != nil {
		return false
	}
	for _, a := range w.wrote {
		if a.Ack != LevelDefault && a.Ack != Fsync {
			return false
		}
	}
	return w.seg.Reserve(size)
}

// gather lists the buffers of a write. Parts made in the arena lie back to back
// there and go out as one.
func (w *writer) gather() {
	start := -1
	for _, p := range w.parts {
		if start < 0 {
			start = p.start
		}
		if len(p.raw) > 0 {
			if start < p.end {
				w.bufs = append(w.bufs, w.arena[start:p.end])
			}
			w.bufs = append(w.bufs, p.raw)
			start = -1
		}
	}
	if start >= 0 {
		w.bufs = append(w.bufs, w.arena[start:w.parts[len(w.parts)-1].end])
	}
}

// appended notes that all batches are in the log, up to end.
func (w *writer) appended(end record.Offset) {
	l, level := w.l, w.level
	l.logEnd.Store(int64(end))
	if level != Fsync {
		w.seg.Show(w.seg.Size())
		l.publish(end)
	} else {
		w.commit = true
	}
	for _, a := range w.wrote {
		at := a.Ack
		if at == LevelDefault {
			at = level
		}
		a.settled = true
		w.callers += a.callers()
		if at != Fsync {
			w.done = append(w.done, a)
			continue
		}
		w.commit = true
		w.waiting = append(w.waiting, ack{a.Base + record.Offset(a.count), a})
	}
	l.noteEpochLocked(w.entries[0].Base) // may log
}
