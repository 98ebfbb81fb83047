package record

// Attributes are the 16 flag bits of a batch.
type Attributes int16

const (
	codecMask         Attributes = 0x07
	flagLogAppendTime Attributes = 0x08
	flagTransactional Attributes = 0x10
	flagControl       Attributes = 0x20
	flagDeleteHorizon Attributes = 0x40
)

// Codec returns the codec of the records; it may be one nobody knows.
func (a Attributes) Codec() Codec { return Codec(a & codecMask) }

// LogAppendTime reports whether every record carries the time of the append,
// which is the batch's MaxTimestamp, in place of its own.
func (a Attributes) LogAppendTime() bool { return a&flagLogAppendTime != 0 }

// Transactional reports whether the batch belongs to a transaction.
func (a Attributes) Transactional() bool { return a&flagTransactional != 0 }

// Control reports whether the records are marks of the log (commit, abort)
// and not data.
func (a Attributes) Control() bool { return a&flagControl != 0 }

// DeleteHorizon reports whether BaseTimestamp is the time from which the
// cleaner may drop the batch's tombstones (KIP-534). Timestamps of records
// still count from BaseTimestamp.
func (a Attributes) DeleteHorizon() bool { return a&flagDeleteHorizon != 0 }
