package partition

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
	"github.com/varvelog/varve/segment"
)

// mergeBytes bounds a batch that the appender makes of several requests: large
// enough to make its header cheap, small enough to read one record out of it.
const mergeBytes = 32 << 10

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
	parts   []part          // what to write, in order
	entries []segment.Entry // one for each batch in parts
	bytes   int64           // of all parts
	wrote   []*Append       // requests in parts
	bufs    [][]byte

	done   []*Append // requests to be told once appendMu is free
	commit bool      // bytes wait for the journal
}

// part is a piece of a write: arena[start:end], then raw.
type part struct {
	start, end int
	raw        []byte
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// write appends the requests in order. On return each is done, or waits for its
// bytes to become durable.
func (l *Log) write(reqs []*Append) {
	w := writers.Get().(*writer)
	l.appendMu.Lock()
	w.l, w.cfg, w.seg, w.next, w.now = l, l.Config(), l.active, l.LogEnd(), l.tickLocked()
	for _, a := range reqs {
		w.take(a)
	}
	w.closeBatch()
	w.flush()
	l.appendMu.Unlock()

	if w.commit {
		l.env.Journal.Commit(l)
	}
	for _, a := range w.done {
		a.Done(a)
	}
	w.release()
}

// take adds a request to what is to be written, unless it is cancelled. Whatever
// has to go to the disk before it goes while it can still be cancelled.
func (w *writer) take(a *Append) {
	if w.endsBatch(a) && a.state.Load() == stateQueued {
		w.closeBatch()
	}
	state := stateEncoding
	if a.Batch != nil {
		state = stateEncoded // its bytes are the request's own
	}
	if !a.state.CompareAndSwap(stateQueued, state) {
		return
	}
	err := w.add(a)
	a.state.Store(stateEncoded)
	if err != nil {
		w.refuse(a, err)
	}
}

// endsBatch says whether the batch under construction cannot take a. One that may
// turn out too large, and give its offsets back, takes nothing: so that whoever
// comes next is told the true next offset.
func (w *writer) endsBatch(a *Append) bool {
	return len(w.open) > 0 && (a.Batch != nil || w.codec != a.Codec ||
		w.size+a.Size > min(mergeBytes, w.cfg.MaxBatchBytes))
}

func (w *writer) refuse(a *Append, err error) {
	a.Err = err
	w.done = append(w.done, a)
}

func (w *writer) release() {
	if cap(w.arena) > 4<<20 {
		w.arena = nil
	}
	clear(w.done)
	w.l, w.cfg, w.seg, w.err, w.commit = nil, nil, nil, nil, false
	w.arena, w.done = w.arena[:0], w.done[:0]
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
		return &ConflictError{Expected: a.Expect, Next: w.next}
	}
	a.Time = -1
	if w.cfg.AppendTime {
		a.Time = w.now
	}
	if a.Batch != nil {
		return w.addBatch(a)
	}
	return w.addRecords(a)
}

// addRecords puts the records of a request into the batch under construction, or
// begins one. Whether a large request keeps to the limit of a batch is seen when its
// batch is complete, for it may compress.
func (w *writer) addRecords(a *Append) error {
	if len(w.open) == 0 {
		w.builder.Reset(w.arena, w.next, record.BatchOptions{
			Codec: a.Codec, Epoch: w.l.epoch, LogAppendTime: w.cfg.AppendTime, AppendTime: w.now,
		})
		w.size, w.codec = 0, a.Codec
	}
	a.Base, a.count = w.next, int32(len(a.Records))
	for i := range a.Records {
		r := &a.Records[i]
		ts := r.Timestamp
		if ts == 0 {
			ts = w.now
		}
		w.builder.Add(ts, r.Key, r.Value, r.Headers)
	}
	w.next += record.Offset(a.count)
	w.size += a.Size
	w.open = append(w.open, a)
	return nil
}

// closeBatch completes the batch under construction.
func (w *writer) closeBatch() {
	if len(w.open) == 0 {
		return
	}
	start := len(w.arena)
	w.arena = w.builder.Finish()
	b, err := record.Parse(w.arena[start:])
	if err != nil {
		panic(fmt.Sprintf("varve: built a batch that does not parse: %v", err))
	}
	if b.Size() > w.cfg.MaxBatchBytes { // of one request: merged ones are within the limit
		w.arena, w.next = w.arena[:start], b.BaseOffset
		for _, a := range w.open {
			w.refuse(a, &TooLargeError{Size: b.Size(), Limit: w.cfg.MaxBatchBytes})
		}
	} else {
		w.place(&b, part{start: start, end: len(w.arena)}, w.open)
	}
	clear(w.open)
	w.open = w.open[:0]
}

// addBatch takes a finished batch: the first 16 bytes of its header, which the
// checksum does not cover, are made anew; the rest is written as it came.
func (w *writer) addBatch(a *Append) error {
	b := *a.Batch
	if b.Size() > w.cfg.MaxBatchBytes {
		return &TooLargeError{Size: b.Size(), Limit: w.cfg.MaxBatchBytes}
	}
	if a.KeepOffsets {
		if b.BaseOffset < w.next || (b.BaseOffset > w.next && !w.l.sparse.Load()) {
			return &ConflictError{Expected: b.BaseOffset, Next: w.next}
		}
		w.next = b.BaseOffset
	}
	a.Base, a.count = w.next, b.LastOffsetDelta+1
	b.BaseOffset, b.LeaderEpoch = w.next, w.l.epoch
	w.next += record.Offset(a.count)
	w.place(&b, w.copyIn(&b), []*Append{a})
	return nil
}

// copyIn puts the header of a finished batch into the arena, or all of it where
// the time of the append has to go into it.
func (w *writer) copyIn(b *record.Batch) part {
	const uncovered = 16 // base offset, length, leader epoch
	start := len(w.arena)
	if w.cfg.AppendTime {
		w.arena = append(w.arena, b.Bytes()...)
		raw := w.arena[start:]
		record.SetBaseOffset(raw, b.BaseOffset)
		record.SetLeaderEpoch(raw, b.LeaderEpoch)
		record.StampAppendTime(raw, w.now)
		b.MaxTimestamp = w.now
		return part{start: start, end: len(w.arena)}
	}
	w.arena = binary.BigEndian.AppendUint64(w.arena, uint64(b.BaseOffset))
	w.arena = binary.BigEndian.AppendUint32(w.arena, uint32(b.Length))
	w.arena = binary.BigEndian.AppendUint32(w.arena, uint32(b.LeaderEpoch))
	return part{start: start, end: len(w.arena), raw: b.Bytes()[uncovered:]}
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
	w.wrote = append(w.wrote, of...)
}

// rollBefore says whether b has to start a new segment: the active one would
// pass its size, its age, or what its index can hold.
func (w *writer) rollBefore(b *record.Batch) bool {
	size := int64(w.seg.Size()) + w.bytes
	if size == 0 { // offsets that are kept may begin far above an empty segment
		return !w.seg.Fits(int64(b.Size()), b.LastOffset())
	}
	if size+int64(b.Size()) > w.cfg.SegmentBytes || w.seg.IndexFull() || !w.seg.Fits(w.bytes+int64(b.Size()), b.LastOffset()) {
		return true
	}
	facts := activeFacts(w.seg)
	if len(w.entries) > 0 {
		if facts.Next == facts.Base {
			facts.FirstTimestamp, facts.FirstAppend = w.entries[0].MaxTimestamp, w.now
		}
		facts.Next = b.BaseOffset
		for i := range w.entries {
			facts.MaxTimestamp = max(facts.MaxTimestamp, w.entries[i].MaxTimestamp)
		}
	}
	facts.MaxTimestamp = max(facts.MaxTimestamp, b.MaxTimestamp)
	return retention.RollDue(facts, w.cfg.SegmentAge, w.now)
}

// roll makes a new active segment for b to start. Where that cannot be done the
// log goes on with the old one, if b can be there at all.
func (w *writer) roll(b *record.Batch) error {
	err := w.l.rollLocked(b.BaseOffset)
	if err != nil && w.seg.Fits(int64(b.Size()), b.LastOffset()) {
		w.l.log.Warn("cannot roll, going on with the segment", "partition", w.l.name, "segment", w.seg.Path(), "err", err)
		return nil
	}
	w.seg = w.l.active
	return err
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
		for _, a := range w.wrote {
			w.refuse(a, w.err)
		}
	} else {
		w.appended(last + 1)
	}
	clear(w.parts)
	clear(w.wrote)
	clear(w.bufs)
	w.parts, w.entries, w.wrote, w.bufs, w.bytes = w.parts[:0], w.entries[:0], w.wrote[:0], w.bufs[:0], 0
}

// append writes to the segment. On a topic of level fsync nothing goes into a new
// one before everything in front of it is durable. All that waits for the one
// waits for the other anyway, and recovery can tell by it: a crash leaves no batch
// behind a torn place but in the same file.
func (w *writer) append() error {
	if w.cfg.Level == Fsync && w.seg.Size() == 0 {
		if err := w.l.syncRolledLocked(); err != nil {
			return err
		}
	}
	return w.seg.Append(w.bufs, w.entries, w.now)
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
			w.bufs = append(w.bufs, w.arena[start:p.end], p.raw)
			start = -1
		}
	}
	if start >= 0 {
		w.bufs = append(w.bufs, w.arena[start:w.parts[len(w.parts)-1].end])
	}
}

// appended notes that all batches are in the file, up to end.
func (w *writer) appended(end record.Offset) {
	l := w.l
	l.logEnd.Store(int64(end))
	if int64(w.seg.Size()) == w.bytes { // its first: the name of its file has to become durable too
		l.names++
	}
	l.stats.appended(w.entries, w.bytes)
	l.noteEpochLocked(w.entries[0].Base)
	if w.cfg.Level != Fsync {
		w.seg.Show(w.seg.Size())
		l.publish(end)
	} else {
		w.commit = true
	}
	for _, a := range w.wrote {
		ack := a.Ack
		if ack == LevelDefault {
			ack = w.cfg.Level
		}
		if ack != Fsync {
			w.done = append(w.done, a)
			continue
		}
		w.commit = true
		l.acks.wait(a, a.Base+record.Offset(a.count))
	}
}
