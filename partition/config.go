package partition

import (
	"fmt"
	"time"

	"github.com/varvelog/varve/index"
)

// Level says when an append is acknowledged, and for a topic when readers see
// it. Levels are ordered by strength.
type Level uint8

// The levels. The zero Level stands for the topic's own where an append may
// choose, and is none where a topic has to.
const (
	LevelDefault Level = iota
	OS                 // the operating system has it; a power cut can take what was not written back
	Interval           // as OS, and synced every flush interval
	Fsync              // it is on stable storage
)

var levelNames = [...]string{"default", "os", "interval", "fsync"}

func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// Config is how a log behaves. It may change while the log is open; the size of
// an index entry and of an index take effect with the next segment.
type Config struct {
	Level         Level
	FlushInterval time.Duration // of level Interval

	SegmentBytes int64         // an append that would pass it rolls first
	SegmentAge   time.Duration // see retention.RollDue
	Index        index.Options

	RetentionAge   time.Duration // negative: forever
	RetentionBytes int64         // negative: no limit

	MaxBatchBytes int  // max.message.bytes
	AppendTime    bool // records carry the time of the append, not their own
}
