package record

// Iterator walks the records of a batch. It allocates nothing per record;
// headers come out of an arena that grows in chunks.
//
// An Iterator is for one goroutine. Any number of them may walk one payload.
type Iterator struct {
	payload []byte
	pos     int
	arena   headerArena

	baseOffset    Offset
	baseTimestamp int64
	appendTime    int64 // every record's time, if logAppendTime
	logAppendTime bool

	left      int32 // records still to come
	lastDelta int64 // offset delta of the record before
	maxDelta  int64
	err       error
}

// Records returns an iterator over payload, which is what Payload returned.
//
// Keys, values and header keys point into payload: it must not change, nor be
// used again for something else, while any of them is in use.
func (b *Batch) Records(payload []byte) Iterator {
	return Iterator{
		payload:       payload,
		baseOffset:    b.BaseOffset,
		baseTimestamp: b.BaseTimestamp,
		appendTime:    b.MaxTimestamp,
		logAppendTime: b.Attributes.LogAppendTime(),
		left:          b.Count,
		lastDelta:     -1,
		maxDelta:      int64(b.LastOffsetDelta),
	}
}

// Err returns what ended the iteration early, a *FormatError, or nil.
func (it *Iterator) Err() error { return it.err }

// Next reads the next record into r, all of whose fields it sets, and reports
// whether there was one. What r holds stays valid when Next is called again,
// headers included; without one, r is as it was.
//
// Offsets rise but may leave gaps: compaction takes records out of a batch.
func (it *Iterator) Next(r *Record) bool {
	if it.left <= 0 {
		return it.finish()
	}
	start := it.pos
	n, i := varint32(it.payload, start)
	if !fits(n, len(it.payload)-i) {
		return it.fail(start, "record length past the end")
	}
	end := i + int(n>>1)
	p := it.payload[:end]

	// The first byte is the record's attributes, which no version uses.
	timeDelta, i := varint64(p, i+1)
	delta, i := varint32(p, i)
	n, i = varint32(p, i)
	var key, value []byte
	if n != zigzagNull {
		if !fits(n, end-i) {
			return it.fail(start, "record key past the end")
		}
		k := i + int(n>>1)
		key = p[i:k:k]
		i = k
	}
	n, i = varint32(p, i)
	if n != zigzagNull {
		if !fits(n, end-i) {
			return it.fail(start, "record value past the end")
		}
		v := i + int(n>>1)
		value = p[i:v:v]
		i = v
	}
	var headers []Header
	if i != end-1 || p[i] != 0 {
		var reason string
		if headers, reason = it.arena.read(p, i, int(it.left)); reason != "" {
			return it.fail(start, reason)
		}
	}
	offsetDelta := unzigzag(delta)
	if offsetDelta <= it.lastDelta || offsetDelta > it.maxDelta {
		return it.failDelta(start, offsetDelta)
	}

	r.Offset = it.baseOffset + Offset(offsetDelta)
	r.Timestamp = it.baseTimestamp + unzigzag(timeDelta) // wraps, as Kafka's does
	if it.logAppendTime {
		r.Timestamp = it.appendTime
	}
	r.Key, r.Value, r.Headers = key, value, headers
	it.pos = end
	it.lastDelta = offsetDelta
	it.left--
	return true
}

// fits reports whether n, a length in zigzag form, is one and no more than room.
func fits(n uint64, room int) bool { return n&1 == 0 && n>>1 <= uint64(room) }

func (it *Iterator) finish() bool {
	if it.err == nil && it.pos != len(it.payload) {
		return it.fail(it.pos, "bytes after the last record")
	}
	return false
}

func (it *Iterator) fail(at int, reason string) bool {
	it.err = &FormatError{At: BatchOverhead + at, Reason: reason}
	it.left = 0
	return false
}

func (it *Iterator) failDelta(at int, delta int64) bool {
	it.err = formatErrorf(BatchOverhead+at, "offset delta %d, want one of %d to %d", delta, it.lastDelta+1, it.maxDelta)
	it.left = 0
	return false
}
