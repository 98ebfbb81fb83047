package record

// RecordSize returns the bytes that a record takes in a batch before
// compression, its own length field included. offsetDelta is its place in the
// batch, tsDelta its timestamp less that of the first record.
func RecordSize(offsetDelta int, tsDelta int64, key, value []byte, headers []Header) int {
	size := bodySize(offsetDelta, tsDelta, len(key), len(value), headers)
	return varintSize(int64(size)) + size
}

// bodySize is what the length field of a record says. Null and empty count
// alike: both lengths take one byte.
func bodySize(offsetDelta int, tsDelta int64, keySize, valueSize int, headers []Header) int {
	size := 1 + varintSize(tsDelta) + varintSize(int64(offsetDelta)) + // 1: attributes
		varintSize(int64(keySize)) + keySize +
		varintSize(int64(valueSize)) + valueSize +
		varintSize(int64(len(headers)))
	for i := range headers {
		k, v := len(headers[i].Key), len(headers[i].Value)
		size += varintSize(int64(k)) + k + varintSize(int64(v)) + v
	}
	return size
}
