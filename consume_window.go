package varve

import "github.com/varvelog/varve/record"

// window is the records of a lane from the first that is not processed on, in order. They
// are known by numbers that count up by one.
type window struct {
	ring  []item // as many as a power of two
	first uint64
	last  uint64 // behind the last
	bytes int
}

// item is a record in a window.
type item struct {
	rec     Record
	epoch   record.Epoch
	state   itemState
	attempt int     // at which it is, or was
	failed  int     // attempts that did, since the lane went on
	strand  *strand // that has begun it; nil where that has gone on without it
	burial  *burial // of its dead letter, from when the handler has failed for good
	acked   bool    // Done was called before the handler returned, with ack
	ack     error
}

type itemState uint8

const (
	itemReady   itemState = iota // for its first or another attempt
	itemRunning                  // a handler is at it
	itemPending                  // Done is awaited
	itemBurying                  // it is on its way to the dead letters
	itemDone
)

// leastRing is the room that a window begins with.
const leastRing = 16

func (w *window) len() int { return int(w.last - w.first) }

// at is the item of a number, nil where it is no more.
func (w *window) at(seq uint64) *item {
	if seq < w.first || seq >= w.last {
		return nil
	}
	return &w.ring[seq&uint64(len(w.ring)-1)]
}

func (w *window) front() *item { return w.at(w.first) }

func (w *window) push(f *fetched) (seq uint64) {
	if w.len() == len(w.ring) {
		w.grow()
	}
	seq = w.last
	w.last++
	*w.at(seq) = item{rec: f.rec, epoch: f.epoch}
	w.bytes += weight(&f.rec)
	return seq
}

func (w *window) grow() {
	ring := make([]item, max(2*len(w.ring), leastRing))
	for seq := w.first; seq < w.last; seq++ {
		ring[seq&uint64(len(ring)-1)] = *w.at(seq)
	}
	w.ring = ring
}

// pop takes the front away.
func (w *window) pop() {
	w.bytes -= weight(&w.front().rec)
	*w.front() = item{}
	w.first++
}

func (w *window) each(f func(*item)) {
	for seq := w.first; seq < w.last; seq++ {
		f(w.at(seq))
	}
}
