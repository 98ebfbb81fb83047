package varve

import (
	"errors"
	"fmt"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/segment"
)

// Sentinel errors, matched with errors.Is.
var (
	// ErrClosed is returned by every call on a closed engine, or on a topic that
	// was deleted meanwhile.
	ErrClosed = partition.ErrClosed
	// ErrReadOnly is returned by every publish to a partition whose disk failed a
	// sync: what was published stays readable, appends come back with the next
	// Open. It wraps the cause.
	ErrReadOnly = partition.ErrReadOnly
	// ErrNoTopic is returned where a topic of that name does not exist.
	ErrNoTopic = errors.New("topic does not exist")
	// ErrTopicExists is returned by CreateTopic.
	ErrTopicExists = errors.New("topic exists")
	// ErrNoPartition is returned where a topic has no partition of that number.
	ErrNoPartition = errors.New("partition does not exist")
	// ErrNoRecords is returned by a publish of no records.
	ErrNoRecords = errors.New("no records to publish")
)

// Errors that say more, matched with errors.As.
type (
	// OutOfRangeError says that an offset is not there, and what is.
	OutOfRangeError = partition.OutOfRangeError
	// ConflictError says that a conditional publish found another next offset.
	ConflictError = partition.ConflictError
	// MaybeStoredError says that it is not known whether records are or will be
	// stored: the context of a publish ended while it was under way, or the disk
	// failed it (the cause then matches ErrReadOnly). After any other error of a
	// publish nothing of it is stored.
	MaybeStoredError = partition.MaybeStoredError
	// TooLargeError says that a batch is larger than max.message.bytes.
	TooLargeError = partition.TooLargeError
	// CorruptError reports damage, and the offset at which reading can go on.
	CorruptError = segment.CorruptError
	// LockedError says which process has the directory open.
	LockedError = vfs.LockedError
)

// NameError says why a topic cannot have a name.
type NameError struct {
	Name   string
	Reason string
}

func (e *NameError) Error() string { return fmt.Sprintf("topic name %q %s", e.Name, e.Reason) }

// ConfigError says which config is wrong, and why.
type ConfigError struct {
	Key, Value string
	Reason     string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("config %s=%s: %s", e.Key, e.Value, e.Reason)
}

// RecordError says why a record cannot be published. Nothing of its batch was
// stored.
type RecordError struct {
	Index  int // in what was published together
	Reason string
}

func (e *RecordError) Error() string { return fmt.Sprintf("record %d: %s", e.Index, e.Reason) }

// VersionError says that a directory was written by a newer varve. It was not
// touched.
type VersionError struct {
	Path      string // the directory
	Found     int
	Supported int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this varve knows up to %d: use the newer varve that wrote it",
		e.Path, e.Found, e.Supported)
}
