package partition

import (
	"encoding/binary"
	"fmt"

	"github.com/varvelog/varve/record"
)

// mergeBytes bounds a batch that the appender makes of several requests: large
// enough to make its header cheap, small enough to read one record out of it.
const mergeBytes = 32 << 10

// endsBatch says whether the batch under construction cannot take a. One that may
// turn out too large, and give its offsets back, takes nothing: so that whoever
// comes next is told the true next offset.
func (w *writer) endsBatch(a *Append) bool {
	return len(w.open) > 0 && (a.Batch != nil || a.pack != nil || w.codec != a.Codec ||
		w.size+a.Size > min(mergeBytes, w.cfg.MaxBatchBytes))
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
