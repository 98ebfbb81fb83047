package record

import "unsafe"

// headerArena gives memory to the headers of record after record. What it
// gave stays as it is: a full chunk is left behind, never used again.
type headerArena struct {
	free    []Header // empty; its capacity is what may be given
	discard bool     // check headers and keep none
}

// read returns the headers at p[i], which must reach exactly to the end of p,
// or the reason why they do not. left is how many records, this one included,
// may still ask.
func (a *headerArena) read(p []byte, i, left int) (headers []Header, reason string) {
	n, i := varint32(p, i)
	// A header takes two bytes at least.
	if !fits(n, (len(p)-i)/2) {
		return nil, "header count malformed or larger than what follows"
	}
	count := int(n >> 1)
	var kept []Header
	if !a.discard {
		kept = a.room(count, left)
	}
	for ; count > 0; count-- {
		var h Header
		if i, reason = h.read(p, i); reason != "" {
			return nil, reason
		}
		if !a.discard {
			kept = append(kept, h)
		}
	}
	if i != len(p) {
		return nil, "record length and content differ"
	}
	if len(kept) == 0 {
		return nil, ""
	}
	a.free = kept[len(kept):]
	return kept[:len(kept):len(kept)], ""
}

// room returns an empty slice for count headers, or for a chunk of them when
// there are more. The rest append pays for with headers that were really
// there: no memory follows a count.
func (a *headerArena) room(count, left int) []Header {
	const minChunk, maxChunk = 8, 256
	if count <= cap(a.free) {
		return a.free
	}
	// Where one record carries headers, mostly all do, and as many.
	chunk := int64(count) * int64(left)
	return make([]Header, 0, min(max(chunk, minChunk), maxChunk))
}

// read sets h to the header at p[i] and returns the position after it.
func (h *Header) read(p []byte, i int) (next int, reason string) {
	n, i := varint32(p, i)
	if !fits(n, len(p)-i) {
		return 0, "header key null, malformed or past the end"
	}
	if size := int(n >> 1); size > 0 {
		// No copy: what Records was given does not change.
		h.Key = unsafe.String(&p[i], size)
		i += size
	}
	var ok bool
	if h.Value, i, ok = nullable(p, i); !ok {
		return 0, "header value malformed"
	}
	return i, ""
}
