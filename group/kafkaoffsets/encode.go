package kafkaoffsets

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/record"
)

// LengthError is returned for a string that the format has no room for.
type LengthError struct {
	Field string
	Bytes int
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("%s: %s of %d bytes, %d fit", Topic, e.Field, e.Bytes, math.MaxInt16)
}

// AppendCommitKey appends the key of a commit. With a null value it is the tombstone
// of it. The error is a *LengthError.
func AppendCommitKey(dst []byte, groupID, topic string, partition int32) ([]byte, error) {
	if err := fits("group id", groupID); err != nil {
		return dst, err
	}
	if err := fits("topic", topic); err != nil {
		return dst, err
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(CommitKind))
	dst = appendString(dst, groupID)
	dst = appendString(dst, topic)
	return binary.BigEndian.AppendUint32(dst, uint32(partition)), nil
}

// AppendGroupKey appends the key of the metadata of a group of the classic
// protocol: with a null value the tombstone of a group that Kafka kept. The error
// is a *LengthError.
func AppendGroupKey(dst []byte, groupID string) ([]byte, error) {
	if err := fits("group id", groupID); err != nil {
		return dst, err
	}
	return appendString(binary.BigEndian.AppendUint16(dst, uint16(GroupMetadata)), groupID), nil
}

// AppendCommitValue appends the value of a commit: version 4, or version 1 where
// the commit has a time of its own to expire at. A zero id says that it is not
// known. Times are kept to the millisecond. The error is a *LengthError.
func AppendCommitValue(dst []byte, id group.TopicID, c group.Commit) ([]byte, error) {
	if err := fits("metadata", c.Metadata); err != nil {
		return dst, err
	}
	if !c.Expires.IsZero() {
		dst = binary.BigEndian.AppendUint16(dst, versionExpiring)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
		dst = appendString(dst, c.Metadata)
		dst = appendTime(dst, c.Time)
		return appendTime(dst, c.Expires), nil
	}
	dst = binary.BigEndian.AppendUint16(dst, versionWritten)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.LeaderEpoch))
	dst = binary.AppendUvarint(dst, uint64(len(c.Metadata))+1)
	dst = append(dst, c.Metadata...)
	dst = appendTime(dst, c.Time)
	if id == (group.TopicID{}) {
		return append(dst, 0), nil
	}
	dst = append(dst, 1, tagTopicID, byte(len(id)))
	return append(dst, id[:]...), nil
}

func fits(field, s string) error {
	if len(s) > math.MaxInt16 {
		return &LengthError{field, len(s)}
	}
	return nil
}

func appendString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// appendTime appends milliseconds since 1970; -1 where there is no time.
func appendTime(dst []byte, t time.Time) []byte {
	ms := record.NoTimestamp
	if !t.IsZero() {
		ms = t.UnixMilli()
	}
	return binary.BigEndian.AppendUint64(dst, uint64(ms))
}
