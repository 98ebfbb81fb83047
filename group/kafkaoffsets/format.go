package kafkaoffsets

import "fmt"

// Topic is the name of the topic whose records these are.
const Topic = "__consumer_offsets"

// Partitions is how many Kafka gives it by default (offsets.topic.num.partitions).
const Partitions = 50

// Kind says what a record is about. It is the first two bytes of its key, which
// Kafka called the key's version once.
type Kind int16

const (
	LegacyCommit  Kind = 0 // a commit of Kafka before 0.9, of the same form
	CommitKind    Kind = 1
	GroupMetadata Kind = 2 // of a group of the classic protocol

	lastKind Kind = 21
)

// kinds names those that Kafka 4.4 knows. Each key begins with a group's id.
var kinds = [lastKind + 1]string{
	"LegacyOffsetCommit", "OffsetCommit", "GroupMetadata",
	"ConsumerGroupMetadata", "ConsumerGroupPartitionMetadata", "ConsumerGroupMemberMetadata",
	"ConsumerGroupTargetAssignmentMetadata", "ConsumerGroupTargetAssignmentMember",
	"ConsumerGroupCurrentMemberAssignment",
	"ShareGroupMemberMetadata", "ShareGroupMetadata", "ShareGroupTargetAssignmentMetadata",
	"ShareGroupTargetAssignmentMember", "ShareGroupCurrentMemberAssignment",
	"ShareGroupStatePartitionMetadata",
	"ConsumerGroupRegularExpression",
	"StreamsGroupMetadata", "StreamsGroupMemberMetadata", "StreamsGroupTargetAssignmentMetadata",
	"StreamsGroupTargetAssignmentMember", "StreamsGroupCurrentMemberAssignment", "StreamsGroupTopology",
}

func (k Kind) String() string {
	if k < 0 || k > lastKind {
		return fmt.Sprintf("Kind(%d)", int16(k))
	}
	return kinds[k]
}

// IsCommit says whether records of the kind are commits.
func (k Kind) IsCommit() bool { return k == LegacyCommit || k == CommitKind }

// Versions of a commit's value that are written, and the last that is read.
const (
	versionExpiring = 1
	versionWritten  = 4
	versionFlexible = 4
	versionLast     = 4
)

// tagTopicID is the tagged field of a commit's value that holds the topic's id.
const tagTopicID = 0

// VersionError is a key or value whose first two bytes this package does not
// know: it was written by a later Kafka, and is not damage.
type VersionError struct {
	What    string // "key", or "value of OffsetCommit"
	Version int16
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s: %s: version %d is not known", Topic, e.What, e.Version)
}

// FormatError says what in a key or value breaks the format, and where.
type FormatError struct {
	What   string // as in VersionError
	At     int    // the byte that failed
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: %s: byte %d: %s", Topic, e.What, e.At, e.Reason)
}

// PartitionFor returns the partition that the records of a group are in, of n:
// Kafka's Utils.abs(groupId.hashCode) % n. It is 0 where n is not positive.
func PartitionFor(group string, n int32) int32 {
	hash := javaHash(group)
	if hash == -1<<31 || n <= 0 {
		return 0
	}
	return max(hash, -hash) % n
}

// javaHash is String.hashCode of Java: over UTF-16 units.
func javaHash(s string) int32 {
	hash := int32(0)
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			hash = 31*hash + 0xd800 + r>>10
			r = 0xdc00 + r&0x3ff
		}
		hash = 31*hash + r
	}
	return hash
}
