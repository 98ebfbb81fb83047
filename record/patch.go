package record

import "encoding/binary"

// The functions below change a batch in place. raw is one whole batch that
// Parse accepted, and the caller's alone: a Batch parsed before still holds
// the old header.

// SetBaseOffset gives the batch its place in a partition. The checksum does
// not cover it, so this costs eight bytes.
func SetBaseOffset(raw []byte, o Offset) {
	binary.BigEndian.PutUint64(raw[posBaseOffset:], uint64(o))
}

// SetLeaderEpoch sets the leader epoch, which the checksum does not cover.
func SetLeaderEpoch(raw []byte, e Epoch) {
	binary.BigEndian.PutUint32(raw[posLeaderEpoch:], uint32(e))
}

// StampAppendTime makes ts, in milliseconds, the timestamp of every record
// (LogAppendTime) and redoes the checksum. What the producer had set stays in
// the records, unseen.
func StampAppendTime(raw []byte, ts int64) {
	raw[posAttributes+1] |= byte(flagLogAppendTime)
	SetMaxTimestamp(raw, ts)
}

// SetMaxTimestamp sets the largest timestamp, in milliseconds, and redoes the
// checksum. A producer's claim need not be true (Validate returns what is).
func SetMaxTimestamp(raw []byte, ts int64) {
	binary.BigEndian.PutUint64(raw[posMaxTimestamp:], uint64(ts))
	putCRC(raw)
}

func putCRC(raw []byte) {
	binary.BigEndian.PutUint32(raw[posCRC:], Checksum(0, raw[CoveredFrom:]))
}
