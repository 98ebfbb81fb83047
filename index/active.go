package index

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/record"
)

// Options of an active index. The zero value is Kafka's defaults.
type Options struct {
	// Interval is how many bytes of log lie between two entries, at the least
	// (index.interval.bytes). 0 means 4096. Smaller makes lookups scan less and
	// the files larger; 1 indexes every batch but the first.
	Interval int
	// MaxBytes is the size of each file at which Full reports true
	// (segment.index.bytes). 0 means 10 MiB.
	MaxBytes int
}

const (
	defaultInterval = 4096
	defaultMaxBytes = 10 << 20
)

// Gap is Interval, or what 0 means.
func (o Options) Gap() int64 {
	if o.Interval <= 0 {
		return defaultInterval
	}
	return int64(o.Interval)
}

// Active is the index pair of a segment that takes appends. One goroutine at a
// time appends, flushes, seals and closes; any number may look up and Sync
// meanwhile, and no lookup ever waits.
//
// An index that cannot be written is no error for an append: entries that have
// no room are dropped, lookups stay right and scan longer, and Err remembers why.
//
//	field                      guarded by         written by
//	fs, name, base, options    (immutable)        Create
//	offsets, times             see table          Append, Flush, Seal
//	tail, seen, ended          the appender       Append, Seal, Close
//	trouble                    atomic, set once   whoever meets it first
type Active struct {
	fs       vfs.FS
	name     string
	base     record.Offset
	interval int64
	maxBytes int

	offsets, times table

	tail  Tail
	seen  int64 // highest relative offset known to be appended, -1 when none
	ended bool

	trouble atomic.Pointer[error]
}

// Create makes the empty index of the segment that starts at base. name is the
// path of its files without the suffix.
//
// No file is made yet. They appear with the first full page, Flush or Seal, and
// whatever they held before is gone then.
func Create(fs vfs.FS, name string, base record.Offset, o Options) *Active {
	a := &Active{
		fs: fs, name: name, base: base,
		interval: o.Gap(), maxBytes: defaultMaxBytes,
		tail: Tail{MaxTimestamp: record.NoTimestamp},
		seen: -1,
	}
	if o.MaxBytes > 0 {
		a.maxBytes = o.MaxBytes
	}
	a.offsets.init(fs, name, offsetLayout)
	a.times.init(fs, name, timeLayout)
	return a
}

// Append takes notice of a batch of size bytes at pos that ends with the offset
// last; call it for every batch, in order, after its bytes were written. Give
// NoTimestamp where the batch has no time.
//
// An entry is made when more than the interval was appended since the last one,
// not counting this batch (as Kafka's LogSegment.append); a time entry is made
// with it when the largest timestamp has risen since the last time entry.
//
// The last offset of a segment is at most base+2^31-1 and its last position at
// most 2^31-1: the caller rolls before. A batch beyond, or one that does not
// follow the last, is left out.
func (a *Active) Append(last record.Offset, pos record.Pos, size int, maxTimestamp int64) {
	rel := int64(last - a.base)
	if err := a.refuse(rel, int64(pos)); err != nil {
		a.tail.Missing++
		a.note(err)
		return
	}
	a.seen = rel
	if maxTimestamp > a.tail.MaxTimestamp {
		a.tail.MaxTimestamp, a.tail.MaxOffset = maxTimestamp, last
	}
	if a.tail.Since > a.interval {
		if err := a.add(slot{rel, int64(pos)}); err != nil {
			a.tail.Missing++
			a.note(err)
		}
		a.tail.Since = 0 // also when it was dropped: a full disk is asked once an interval
	}
	a.tail.Since += int64(size)
}

// Due has the next batch get an entry, however near the last one is: behind damage
// that leads to it where nothing else does.
func (a *Active) Due() { a.tail.Since = a.interval + 1 }

func (a *Active) refuse(rel, pos int64) error {
	switch {
	case a.ended:
		return fmt.Errorf("index %s: append after the end", a.fs.Path(a.name))
	case rel > math.MaxInt32 || pos > math.MaxInt32:
		return fmt.Errorf("index %s: offset %d at position %d is beyond what an index entry can say",
			a.fs.Path(a.name), int64(a.base)+rel, pos)
	case rel <= a.seen || pos <= a.offsets.last.value:
		return fmt.Errorf("index %s: offset %d at position %d does not follow what was appended",
			a.fs.Path(a.name), int64(a.base)+rel, pos)
	}
	return nil
}

// add makes the entry s and the time entry of this moment, both or none. The
// time entry comes first: see the package documentation.
func (a *Active) add(s slot) error {
	if err := a.offsets.room(); err != nil {
		return err
	}
	if err := a.addTime(); err != nil {
		return err
	}
	a.offsets.add(s)
	return nil
}

// addTime makes an entry of the largest timestamp unless it is there.
func (a *Active) addTime() error {
	if a.tail.MaxTimestamp <= a.times.last.key {
		return nil
	}
	if err := a.times.room(); err != nil {
		return err
	}
	a.times.add(slot{a.tail.MaxTimestamp, int64(a.tail.MaxOffset - a.base)})
	return nil
}

// Full says that it is time to roll: one of the files has no room for another
// entry. In the time index one place is kept for the entry that Seal makes.
//
// It is advice. An index that goes on growing stays right, so that a segment
// that was written with larger limits can be rebuilt.
func (a *Active) Full() bool {
	entries := max(a.maxBytes/offsetLayout.width, 1)
	times := max(a.maxBytes/timeLayout.width, 2)
	return a.offsets.entries() >= entries || a.times.entries() >= times-1
}

// Lookup gives the last entry whose offset is not above off.
func (a *Active) Lookup(off record.Offset) Entry { return a.Around(off).Entry }

// LookupTime gives the place to start scanning for the first batch whose largest
// timestamp is ts or later: no batch up to the one of the entry reaches ts. For a
// ts before 1970 that is the start of the segment.
func (a *Active) LookupTime(ts int64) Entry { return a.AroundTime(ts).Entry }

// Around is Lookup with what follows.
func (a *Active) Around(off record.Offset) Stretch {
	st, err := lookup(&a.offsets, a.base, off)
	a.note(err)
	return st
}

// AroundTime is LookupTime with what follows.
func (a *Active) AroundTime(ts int64) Stretch {
	st, err := lookupTime(&a.offsets, &a.times, a.base, ts)
	a.note(err)
	return st
}

// Flush writes what the files lack, so that Resume can go on from the mark. It
// makes nothing durable: that is Sync. Appends may go on afterwards.
func (a *Active) Flush() (Mark, error) {
	if err := errors.Join(a.offsets.flush(), a.times.flush()); err != nil {
		return Mark{}, fmt.Errorf("flush index %s: %w", a.fs.Path(a.name), err)
	}
	m := a.mark()
	m.Tail = a.tail
	return m, nil
}

// Sync makes durable what the files hold, where there are files.
func (a *Active) Sync() error {
	for _, t := range []*table{&a.offsets, &a.times} {
		if err := t.sync(); err != nil {
			return fmt.Errorf("sync index %s: %w", a.fs.Path(t.name), err)
		}
	}
	return nil
}

// Seal ends the index: it makes the entry of the largest timestamp, unless that
// is there, and both files complete and of exact length, also when they are
// empty. It makes nothing durable: that is Sync.
//
// When entries are missing it returns ErrIncomplete, and the caller rebuilds by
// Create and Append. After any other error Seal can be tried again. Lookups go
// on in any case; appends are over.
func (a *Active) Seal() (Mark, error) {
	a.ended = true
	if n := a.tail.Missing; n > 0 {
		return Mark{}, fmt.Errorf("seal index %s: %w: %d entries are missing", a.fs.Path(a.name), ErrIncomplete, n)
	}
	err := a.addTime()
	if err == nil {
		err = errors.Join(a.offsets.complete(), a.times.complete())
	}
	if err != nil {
		return Mark{}, fmt.Errorf("seal index %s: %w", a.fs.Path(a.name), err)
	}
	return a.mark(), nil
}

func (a *Active) mark() Mark {
	return Mark{
		Entries: a.offsets.entries(), Sum: a.offsets.sum,
		TimeEntries: a.times.entries(), TimeSum: a.times.sum,
	}
}

// Err is the first trouble with the files that an append or a lookup met.
func (a *Active) Err() error {
	if err := a.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

func (a *Active) note(err error) {
	if err != nil {
		first := err // a copy of its own, so that no lookup pays for an allocation
		a.trouble.CompareAndSwap(nil, &first)
	}
}

// Close ends appends without writing anything. There is no descriptor to give
// back, and readers that are still about get right answers.
func (a *Active) Close() error {
	a.ended = true
	return nil
}
