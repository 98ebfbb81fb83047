package partition

import (
	"runtime"
	"sync/atomic"

	"github.com/varvelog/varve/record"
)

// Append is one request to append, all or nothing. The caller fills in the first
// part and hands it to Log.Append or Log.Enqueue; from then on it belongs to the
// log until Done is called, which happens once.
type Append struct {
	// Records are put into a batch by the appender, possibly with those of other
	// requests. A timestamp of 0 becomes the time of the append. They must not
	// change until Done.
	Records []record.Record
	// Size is the most that the records can take in a batch of their own, in
	// bytes, before compression.
	Size int
	// Codec compresses that batch.
	Codec record.Codec
	// Batch is a finished batch instead of records. It is stored as it is, but
	// for base offset, leader epoch and, on a topic of append time, the time.
	Batch *record.Batch
	// KeepOffsets stores Batch under the offsets it has: for copies of another log.
	// They may leave a gap behind the end of a log that AllowGaps was called on.
	KeepOffsets bool
	// Expect is the next offset the log must have, or negative.
	Expect record.Offset
	// Ack is when Done is called; LevelDefault is the log's own level.
	Ack Level
	// Done is called with the request when it is acknowledged or has failed, from
	// a goroutine of the engine or of another caller. It must not block.
	Done func(*Append)

	// Base is the first offset and Time the time of the append (milliseconds, with
	// append time only, else -1), when Err is nil.
	Base record.Offset
	Time int64
	Err  error

	pack    *pack // of which it is the place in the queue; then most of the above is not used
	count   int32 // offsets it takes
	settled bool  // the appender knows what becomes of it
	state   atomic.Int32
}

// States of a request. The appender owns the records only while encoding.
const (
	stateQueued int32 = iota
	stateEncoding
	stateEncoded
	stateCancelled
	stateChanging // a record of a pack is being taken back
)

// Cancel takes the request back if the appender has not begun with it: true
// means that nothing of it was or will be stored, and Done is not called. False
// means that it may be stored and Done will be called; the records are no longer
// looked at.
func (a *Append) Cancel() bool {
	if a.state.CompareAndSwap(stateQueued, stateCancelled) {
		return true
	}
	for a.state.Load() == stateEncoding {
		runtime.Gosched() // the appender is copying: no system call, no lock in between
	}
	return a.state.Load() == stateCancelled
}

// begin changes the state of a request that is queued; false when it is not.
func (a *Append) begin(state int32) bool {
	for !a.state.CompareAndSwap(stateQueued, state) {
		if s := a.state.Load(); s != stateChanging && s != stateQueued { // which it may be again by now
			return false
		}
		runtime.Gosched()
	}
	return true
}

// tell calls Done.
func (a *Append) tell() {
	if a.pack != nil {
		a.pack.tell()
		return
	}
	a.Done(a)
}

// tell tells each. One that panics, which is for whoever called tell, keeps no
// other from being told.
func tell(list []*Append) {
	i := 0
	defer func() {
		if i < len(list) {
			tell(list[i+1:])
		}
	}()
	for ; i < len(list); i++ {
		list[i].tell()
	}
}

// Append queues a request and, if nobody is at work on the queue, works on it in
// this goroutine before it returns: its own request and those of others.
func (l *Log) Append(a *Append) {
	if l.enqueue(a) {
		l.drain(drainRounds)
	}
}

// Enqueue queues a request and leaves the work to a goroutine of the engine, so
// that requests which follow closely share a write.
func (l *Log) Enqueue(a *Append) {
	if l.enqueue(a) {
		l.env.Runner.Drain(l)
	}
}

// drainRounds is how many rounds a publisher works for others before it hands
// over to a goroutine of the engine.
const drainRounds = 8

// enqueue says whether the caller has to see to the queue. A closed log takes
// nothing: nobody may be left to see to it.
func (l *Log) enqueue(a *Append) bool {
	a.state.Store(stateQueued)
	a.settled = false
	l.queueMu.Lock()
	if l.closed.Load() {
		l.queueMu.Unlock()
		a.Err = ErrClosed
		a.tell()
		return false
	}
	defer l.queueMu.Unlock()
	l.queue = append(l.queue, a)
	if l.draining {
		return false
	}
	l.draining = true
	return true
}

// Drain works on the queue until it is empty. Only the goroutine that Runner.Drain
// leads to calls it.
func (l *Log) Drain() { l.drain(drainRounds) }

// drain hands the queue over to a goroutine of the engine after some rounds; and when a
// callback panics, as that of another publisher may: this one may recover.
func (l *Log) drain(rounds int) {
	empty := false
	defer func() {
		if !empty {
			l.env.Runner.Drain(l)
		}
	}()
	for range rounds {
		if l.crowd { // they are awake now and mostly come again: let them, and write for all at once
			runtime.Gosched()
		}
		l.queueMu.Lock()
		batch := l.nextLocked()
		if len(batch) == 0 {
			l.draining = false
			l.idle.Broadcast()
			l.queueMu.Unlock()
			empty = true
			return
		}
		l.queueMu.Unlock()
		l.write(batch)
		clear(batch)
		l.noteWritten()
	}
}

// writeBytes is about how much of the queue goes out with one write: enough to make the
// call cheap, and little enough that publishers bring more while it goes on.
const writeBytes = 256 << 10

// nextLocked takes from the queue what is written next. A pack that is taken is closed.
func (l *Log) nextLocked() []*Append {
	n, bytes := 0, 0
	for n < len(l.queue) && bytes < writeBytes {
		bytes += l.queue[n].weight()
		n++
	}
	l.inHand = append(l.inHand[:0], l.queue[:n]...)
	l.writing = bytes
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	return l.inHand
}
