package record

// RecordSize returns the bytes that a record takes in a batch before
// compression, its own length field included. offsetDelta is its place in the
// batch, tsDelta its timestamp less that of the first record. SizeBound is what it
// takes at most, in any batch.
func RecordSize(offsetDelta int, tsDelta int64, key, value []byte, headers []Header) int64 {
	size := bodySize(offsetDelta, tsDelta, len(key), len(value), headers)
	return int64(varintSize(uint64(size)<<1)) + size
}

// Numbers of a record: its length, attributes, time, offset, the lengths of key and
// value, the number of headers; and of a header the lengths of key and value.
const (
	mostOverhead       = 5 + 1 + 10 + 5 + 5 + 5 + 5
	mostHeaderOverhead = 5 + 5
)

// SizeBound returns what RecordSize is at most, wherever the record stands in whichever
// batch: its content, and for each number beside it as many bytes as it can take.
func SizeBound(key, value []byte, headers []Header) int64 {
	size := mostOverhead + int64(len(key)) + int64(len(value))
	for i := range headers {
		size += mostHeaderOverhead + int64(len(headers[i].Key)) + int64(len(headers[i].Value))
	}
	return size
}

// bodySize is what the length field of a record says, if it can. Null and empty
// count alike: both lengths take one byte. Headers may share bytes, so that the
// sum need not fit an int of 32 bits.
func bodySize(offsetDelta int, tsDelta int64, keySize, valueSize int, headers []Header) int64 {
	size := int64(1+varintSize(zigzag(tsDelta))+varintSize(length(offsetDelta))+ // 1: attributes
		varintSize(length(keySize))+varintSize(length(valueSize))+varintSize(length(len(headers)))) +
		int64(keySize) + int64(valueSize)
	for i := range headers {
		k, v := len(headers[i].Key), len(headers[i].Value)
		size += int64(varintSize(length(k))+varintSize(length(v))) + int64(k) + int64(v)
	}
	return size
}
