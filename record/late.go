package record

import "slices"

// What a batch needs to know of its place may be said after its records were added, up
// to Finish: whoever collects records need not know where, or when, they will be stored.

// PlaceAt gives the batch its base offset and leader epoch.
func (b *Builder) PlaceAt(base Offset, epoch Epoch) { b.base, b.opts.Epoch = base, epoch }

// Shift adds ms to the time of every record: the batch has one time, and each record
// what it is later.
func (b *Builder) Shift(ms int64) {
	b.baseTimestamp += ms
	b.maxTimestamp += ms
}

// Stamp makes ts, in milliseconds, the time of every record (LogAppendTime).
func (b *Builder) Stamp(ts int64) { b.opts.LogAppendTime, b.opts.AppendTime = true, ts }

// Remove takes record i of those added back. Those behind it move down by one, so all of
// them are encoded again.
func (b *Builder) Remove(i int) {
	first := b.start + BatchOverhead
	batch := Batch{BaseTimestamp: b.baseTimestamp, Count: int32(b.count), LastOffsetDelta: int32(b.count - 1)}
	it := batch.Records(slices.Clone(b.buf[first:]))
	b.buf, b.count = b.buf[:first], 0
	for rec := (Record{}); it.Next(&rec); {
		if int(rec.Offset) != i {
			b.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
		}
	}
}
