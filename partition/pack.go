package partition

import (
	"fmt"
	"slices"
	"sync"

	"github.com/varvelog/varve/record"
)

// pack is a batch that single records of several callers share. It waits in the queue
// like any other request. While it is the last one there, records join it: whoever
// brings one encodes it, and nothing of the record is kept. It is never used again, so
// that a Ticket cannot mean another one; its contents are.
//
//	field      guarded by
//	contents   queueMu while it is stateQueued, then the appender's, then of who tells
type pack struct {
	Append
	*contents
}

// contents are what a pack needs memory for.
type contents struct {
	builder   record.Builder
	buf       []byte // its batch, finished
	undated   bool   // all records get the time of the append
	limit     int    // of the batch, in bytes, when it was begun
	partition int32
	serial    int64 // of the last record that joined
	told      []told
	accounts  []account
}

// told is who wants to know of one record.
type told struct {
	serial int64
	at     int32 // its place in the batch
	done   func(Place, error)
}

// account is what is to be settled with one of those who keep account.
type account struct {
	with   Account
	weight int64
}

// Place is where a record stands.
type Place struct {
	Partition int32
	Offset    record.Offset
}

// Single is how one record is appended that may share a batch.
type Single struct {
	Codec     record.Codec
	Ack       Level
	Partition int32 // what Done is told
	// Done, unless nil, is as that of an Append. After an error the offset is -1.
	Done func(Place, error)
	// Account, unless nil, is told of the record and of Weight, once Done was called.
	Account Account
	Weight  int64
}

// Account keeps account of what is on its way. Settled is called when records, of this
// weight together, were acknowledged or have failed.
type Account interface {
	Settled(weight int64, err error)
}

// Tell tells what became of the record: where it begins, or why not.
func (s *Single) Tell(off record.Offset, err error) {
	if s.Account != nil {
		defer s.Account.Settled(s.Weight, err) // also when Done panics
	}
	if s.Done != nil {
		s.Done(Place{s.Partition, off}, err)
	}
}

// Ticket stands for a record that has joined a batch, to take it back.
type Ticket struct {
	pack   *pack
	serial int64
}

// Join appends a record in a batch with those of others. Like Append it works on the
// queue, if nobody does. The record is not kept, nor are its bytes. One that is larger
// than a batch of small requests goes as an Append.
func (l *Log) Join(rec *record.Record, s *Single) Ticket {
	t, lead := l.join(rec, s)
	if lead {
		l.drain(drainRounds)
	}
	return t
}

// JoinLater is Join, but leaves the work to a goroutine of the engine.
func (l *Log) JoinLater(rec *record.Record, s *Single) {
	if _, lead := l.join(rec, s); lead {
		l.env.Runner.Drain(l)
	}
}

func (l *Log) join(rec *record.Record, s *Single) (t Ticket, lead bool) {
	l.queueMu.Lock()
	if l.closed.Load() {
		l.queueMu.Unlock()
		s.Tell(-1, ErrClosed)
		return Ticket{}, false
	}
	p := l.openPackLocked(rec, s)
	if p == nil {
		p = newPack(rec, s, l.Config().MaxBatchBytes)
		l.queue = append(l.queue, &p.Append)
		lead, l.draining = !l.draining, true
	}
	t = Ticket{p, p.add(rec, s)}
	l.queueMu.Unlock()
	return t, lead
}

// openPackLocked is the pack that a record may join without overtaking anybody.
func (l *Log) openPackLocked(rec *record.Record, s *Single) *pack {
	if len(l.queue) == 0 {
		return nil
	}
	p := l.queue[len(l.queue)-1].pack
	if p == nil || p.Codec != s.Codec || p.Ack != s.Ack || p.state.Load() != stateQueued || p.undated != (rec.Timestamp == 0) ||
		int64(p.builder.Size())+record.SizeBound(rec.Key, rec.Value, rec.Headers) > int64(min(mergeBytes, p.limit)) {
		return nil
	}
	return p
}

var packs = sync.Pool{New: func() any { return new(contents) }}

func newPack(rec *record.Record, s *Single, limit int) *pack {
	p := &pack{contents: packs.Get().(*contents)}
	p.pack, p.Expect, p.Codec, p.Ack = p, -1, s.Codec, s.Ack
	p.undated, p.limit, p.partition = rec.Timestamp == 0, limit, s.Partition
	p.builder.Reset(p.buf[:0], 0, record.BatchOptions{Codec: s.Codec})
	return p
}

// add encodes a record.
func (c *contents) add(rec *record.Record, s *Single) (serial int64) {
	c.serial++
	if s.Done != nil {
		c.told = append(c.told, told{c.serial, int32(c.builder.Count()), s.Done})
	}
	if s.Account != nil {
		n := len(c.accounts)
		if n == 0 || c.accounts[n-1].with != s.Account {
			c.accounts = append(c.accounts, account{with: s.Account})
			n++
		}
		c.accounts[n-1].weight += s.Weight
	}
	c.builder.Add(rec.Timestamp, rec.Key, rec.Value, rec.Headers)
	return c.serial
}

// Withdraw takes a record with a Done and without an Account back, if the appender has
// not begun with its batch: as Cancel, but that it never waits.
func (l *Log) Withdraw(t Ticket) bool {
	l.queueMu.Lock() // nobody joins meanwhile
	defer l.queueMu.Unlock()
	p := t.pack
	if p == nil || !p.state.CompareAndSwap(stateQueued, stateChanging) {
		return false
	}
	next := stateQueued
	if p.remove(t.serial); p.builder.Count() == 0 {
		next = stateCancelled
	}
	p.state.Store(next)
	return true
}

func (c *contents) remove(serial int64) {
	i := slices.IndexFunc(c.told, func(t told) bool { return t.serial == serial })
	at := c.told[i].at
	c.told = slices.Delete(c.told, i, i+1)
	for k := i; k < len(c.told); k++ {
		c.told[k].at--
	}
	c.builder.Remove(int(at))
}

// addPack completes a pack and takes it.
func (w *writer) addPack(a *Append) error {
	p := a.pack
	if p.undated {
		p.builder.Shift(w.now)
	}
	if w.cfg.AppendTime {
		p.builder.Stamp(w.now)
	}
	p.builder.PlaceAt(w.next, w.l.epoch)
	p.buf = p.builder.Finish()
	b, err := record.Parse(p.buf)
	if err != nil {
		panic(fmt.Sprintf("varve: built a batch that does not parse: %v", err))
	}
	if b.Size() > p.limit { // what does not compress may be more than it was
		return &TooLargeError{Size: b.Size(), Limit: p.limit}
	}
	a.Base, a.count = w.next, b.Count
	w.next += record.Offset(a.count)
	end := len(w.arena) // nothing of it is there
	w.place(&b, part{start: end, end: end, raw: p.buf}, []*Append{a})
	return nil
}

// tell tells all who want to know of a record in it, those that a Done which panics
// leaves too, and settles.
func (p *pack) tell() {
	c, i := p.contents, 0
	defer func() {
		if i < len(c.told) {
			c.told = c.told[i+1:]
			p.tell()
			return
		}
		for _, a := range c.accounts {
			a.with.Settled(a.weight, p.Err)
		}
		p.free()
	}()
	for ; i < len(c.told); i++ {
		at := Place{c.partition, -1}
		if p.Err == nil {
			at.Offset = p.Base + record.Offset(c.told[i].at)
		}
		c.told[i].done(at, p.Err)
	}
}

// free gives the contents back, once nobody looks at them any more.
func (p *pack) free() {
	c := p.contents
	clear(c.told)
	clear(c.accounts)
	c.told, c.accounts = c.told[:0], c.accounts[:0]
	if cap(c.buf) <= 4*mergeBytes {
		packs.Put(c)
	}
}

// callers is how many wait for a request to be done.
func (a *Append) callers() int {
	if a.pack != nil {
		return len(a.pack.told)
	}
	return 1
}

// weight is about how many bytes a request adds to a write.
func (a *Append) weight() int {
	switch {
	case a.pack != nil:
		return a.pack.builder.Size()
	case a.Batch != nil:
		return a.Batch.Size()
	}
	return a.Size
}
