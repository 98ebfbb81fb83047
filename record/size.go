package record

// RecordSize returns the bytes that a record takes in a batch before
// compression, its own length field included. offsetDelta is its place in the
// batch, tsDelta its timestamp less that of the first record.
func RecordSize(offsetDelta int, tsDelta int64, key, value []byte, headers []Header) int {
	size := bodySize(offsetDelta, tsDelta, len(key), len(value), headers)
	return varintSize(length(size)) + size
}

// bodySize is what the length field of a record says. Null and empty count
// alike: both lengths take one byte.
func bodySize(offsetDelta int, tsDelta int64, keySize, valueSize int, headers []Header) int {
	size := 1 + varintSize(zigzag(tsDelta)) + varintSize(length(offsetDelta)) + // 1: attributes
		varintSize(length(keySize)) + keySize +
		varintSize(length(valueSize)) + valueSize +
		varintSize(length(len(headers)))
	for i := range headers {
		k, v := len(headers[i].Key), len(headers[i].Value)
		size += varintSize(length(k)) + k + varintSize(length(v)) + v
	}
	return size
}
