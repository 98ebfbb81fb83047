package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/varvelog/varve"
)

// span is where in a partition records were stored, perhaps between others.
type span struct{ first, end varve.Offset }

// delivery publishes records and counts what became of them.
//
//	field            guarded by     written by
//	topic, chosen, named, started   (immutable)   newDelivery
//	sent             one goroutine  publish
//	stored, bytes, where, failure   mu   done
//	failed           atomic         done
type delivery struct {
	topic   *varve.Topic
	chosen  *varve.Publisher // of records whose key chooses the partition
	named   *varve.Publisher // of records that name it
	started time.Time
	sent    int64

	mu      sync.Mutex
	stored  int64
	bytes   int64
	where   map[int32]span // by partition
	failure *inputError    // the first record that was refused
	failed  atomic.Bool
}

// mostInFlight bounds the bytes that a publisher has not stored yet. About 30,000
// short records fill it, which keeps the disk busy; more would only take memory.
const mostInFlight = 16 << 20

func newDelivery(t *varve.Topic, o varve.PublisherOptions) *delivery {
	o.MaxInFlight = mostInFlight
	d := &delivery{topic: t, chosen: t.Publisher(o), started: time.Now(), where: map[int32]span{}}
	o.ByPartition = true
	d.named = t.Publisher(o)
	return d
}

// all publishes until there is no more, or the first record fails.
func (d *delivery) all(records iter.Seq2[input, error]) error {
	for in, err := range records {
		if err != nil {
			return err
		}
		if d.failed.Load() {
			return nil // finish says why
		}
		if err := d.publish(in); err != nil {
			return err
		}
	}
	return nil
}

// publish hands one record over. Nothing but a record's own end cancels it: an
// interrupted command stops reading and waits for what it has sent.
func (d *delivery) publish(in input) error {
	pub := d.chosen
	if in.record.Partition != anyPartition {
		pub = d.named
	}
	err := pub.PublishAsync(context.Background(), in.record, func(at varve.Place, err error) { d.done(in, at, err) })
	if errors.Is(err, varve.ErrNoPartition) {
		err = hintf(noPartition(d.topic, int(in.record.Partition)), `leave "partition" out to let the key choose`)
	}
	if err != nil {
		return &inputError{origin: in.origin, err: err}
	}
	d.sent++
	return nil
}

// done takes what the engine says about a record.
func (d *delivery) done(in input, at varve.Place, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		if d.failure == nil {
			d.failure = &inputError{origin: in.origin, err: err}
			d.failed.Store(true)
		}
		return
	}
	d.stored++
	d.bytes += int64(len(in.record.Key) + len(in.record.Value))
	s, more := d.where[at.Partition]
	if !more || at.Offset < s.first {
		s.first = at.Offset
	}
	d.where[at.Partition] = span{s.first, max(s.end, at.Offset+1)}
}

// finish waits for all records, prints the summary, and returns why not
// everything was stored: reading is what ended reading, if it was an error.
func (d *delivery) finish(w io.Writer, reading error) error {
	// What a flush returns has been told to done, which knows the record.
	d.chosen.Flush(context.Background())
	d.named.Flush(context.Background())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.summary(w)
	err := reading
	if d.failure != nil {
		err = d.failure
	}
	if err == nil {
		return nil
	}
	return &unfinishedError{err: err, stored: d.stored, sent: d.sent}
}

// unfinishedError says how far a produce came.
type unfinishedError struct {
	err          error
	stored, sent int64
}

func (e *unfinishedError) Unwrap() error { return e.err }

func (e *unfinishedError) Error() string {
	var in *inputError
	before := ""
	if errors.As(e.err, &in) {
		before = " before it"
	}
	if e.stored == e.sent {
		return fmt.Sprintf("%v; %s stored%s", e.err, were(e.stored), before)
	}
	return fmt.Sprintf("%v; of %s sent, %s stored", e.err, count(e.sent, "record"), were(e.stored))
}

func were(n int64) string {
	if n == 1 {
		return "1 record was"
	}
	return count(n, "record") + " were"
}

func (d *delivery) summary(w io.Writer) {
	took := time.Since(d.started)
	fmt.Fprintf(w, "stored %s, %s, in topic %s in %s", count(d.stored, "record"), bytesText(d.bytes), d.topic.Name(), took.Round(time.Millisecond))
	if rate := float64(d.stored) / took.Seconds(); d.stored > 1000 {
		fmt.Fprintf(w, ", %s records/s", humanize.Comma(int64(rate)))
	}
	fmt.Fprintln(w)
	var ends []string
	for i := range d.topic.Partitions() {
		if s, ok := d.where[int32(i)]; ok {
			ends = append(ends, fmt.Sprintf("%d ends at %d", i, s.end))
		}
	}
	if len(ends) > 0 {
		fmt.Fprintln(w, "partition "+strings.Join(ends, ", "))
	}
}

// taken says which of the records retention has taken already. Whoever copies old
// records into a topic that keeps young ones should hear of it at once.
func (d *delivery) taken(w io.Writer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.topic.Partitions() {
		s, ok := d.where[int32(i)]
		p, err := d.topic.Partition(i)
		if !ok || err != nil || p.Start() <= s.first {
			continue
		}
		fmt.Fprintf(w, "partition %d: retention has taken offsets %d to %d of them (see: varve topic describe %s)\n",
			i, s.first, min(p.Start(), s.end)-1, d.topic.Name())
	}
}
