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
// used again for something else, while any of them is in use. Headers take
// memory of their own: 40 bytes for one that may take two in the payload.
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

// NextOffset returns the lowest offset that the next record can have; after Err,
// that of the first record that was not read.
func (it *Iterator) NextOffset() Offset { return it.baseOffset + Offset(it.lastDelta+1) }

// Next reads the next record into r, all of whose fields it sets, and reports
// whether there was one. What r holds stays valid when Next is called again,
// headers included; without one, r is as it was.
//
// Offsets rise but may leave gaps: compaction takes records out of a batch.
func (it *Iterator) Next(r *Record) bool {
	if it.left <= 0 {
		return it.finish()
	}
	// What most records are, with numbers of one or two bytes and without
	// headers, is read here, in half the time. All others, the wrong ones
	// included, are left to nextFull.
	n, i := shortVarint(it.payload, it.pos)
	if !fits(n, len(it.payload)-i) {
		return it.nextFull(r)
	}
	end := i + int(n>>1)
	p := it.payload[:end]
	timeDelta, i := shortVarint(p, i+1)
	delta, i := shortVarint(p, i)
	var key, value []byte
	if n, i = shortVarint(p, i); n != zigzagNull {
		if !fits(n, end-i) {
			return it.nextFull(r)
		}
		k := i + int(n>>1)
		key = p[i:k:k]
		i = k
	}
	if n, i = shortVarint(p, i); n != zigzagNull {
		if !fits(n, end-i) {
			return it.nextFull(r)
		}
		v := i + int(n>>1)
		value = p[i:v:v]
		i = v
	}
	if i != end-1 || p[i] != 0 || !it.follows(delta) {
		return it.nextFull(r)
	}
	r.Key, r.Value, r.Headers = key, value, nil
	it.advance(r, end, timeDelta, delta)
	return true
}

// nextFull is Next for every record.
func (it *Iterator) nextFull(r *Record) bool {
	start := it.pos
	n, i := varint32(it.payload, start)
	if !fits(n, len(it.payload)-i) {
		return it.fail(start, "record length malformed or past the end")
	}
	end := i + int(n>>1)
	p := it.payload[:end]
	timeDelta, i := varint64(p, i+1) // the byte before it: attributes, which no version uses
	delta, i := varint32(p, i)
	key, i, ok := nullable(p, i)
	if !ok {
		return it.fail(start, "record key or a number before it malformed")
	}
	value, i, ok := nullable(p, i)
	if !ok {
		return it.fail(start, "record value malformed")
	}
	headers, reason := it.arena.read(p, i, int(it.left))
	if reason != "" {
		return it.fail(start, reason)
	}
	if !it.follows(delta) {
		return it.failDelta(start, unzigzag(delta))
	}
	r.Key, r.Value, r.Headers = key, value, headers
	it.advance(r, end, timeDelta, delta)
	return true
}

// follows reports whether delta, in zigzag form, is a place after the record before.
func (it *Iterator) follows(delta uint64) bool {
	d := unzigzag(delta)
	return d > it.lastDelta && d <= it.maxDelta
}

// advance sets what the two deltas say of r and moves on to end.
func (it *Iterator) advance(r *Record, end int, timeDelta, delta uint64) {
	r.Offset = it.baseOffset + Offset(unzigzag(delta))
	r.Timestamp = it.baseTimestamp + unzigzag(timeDelta) // wraps, as Kafka's does
	if it.logAppendTime {
		r.Timestamp = it.appendTime
	}
	it.pos = end
	it.lastDelta = unzigzag(delta)
	it.left--
}

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
