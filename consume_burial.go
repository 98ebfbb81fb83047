package varve

import (
	"strconv"

	"github.com/varvelog/varve/partition"
)

// Headers that a dead letter has behind those of the record. Numbers are decimal. Key and
// value are the record's, and the timestamp is that of the append, for retention counts
// from it.
const (
	DeadLetterTopic     = "varve.topic"
	DeadLetterPartition = "varve.partition"
	DeadLetterOffset    = "varve.offset"
	DeadLetterTimestamp = "varve.timestamp" // milliseconds, as the record's
	DeadLetterGroup     = "varve.group"
	DeadLetterAttempts  = "varve.attempts"
	DeadLetterError     = "varve.error"
)

// mostErrorText bounds the text of an error in a header, in bytes.
const mostErrorText = 4 << 10

// burial is a record on its way to the dead letters. As a task it takes the next step: it
// publishes, or sees what has become of that. It waits for neither; between two tries the
// record is in its strand, as one between two attempts of the handler.
//
//	field    guarded by   written by
//	lane, seq, failure   (immutable)   newBurial
//	letter, tries   the task itself
//	err, told       the order of tasks: told comes before it is queued
type burial struct {
	lane    *lane
	seq     uint64
	failure Failure // that of the handler
	letter  Record
	tries   int
	told    bool
	err     error
}

func newBurial(l *lane, seq uint64, f Failure) *burial {
	b := &burial{lane: l, seq: seq, failure: f}
	b.letter = l.deadLetter(&l.window.at(seq).rec, &f)
	return b
}

func (l *lane) deadLetter(rec *Record, f *Failure) Record {
	text := f.Err.Error()
	if len(text) > mostErrorText {
		text = text[:mostErrorText]
	}
	headers := append([]Header{}, rec.Headers...)
	add := func(key, value string) { headers = append(headers, Header{Key: key, Value: []byte(value)}) }
	add(DeadLetterTopic, l.topic)
	add(DeadLetterPartition, strconv.FormatInt(int64(l.at.Number), 10))
	add(DeadLetterOffset, strconv.FormatInt(int64(rec.Offset), 10))
	add(DeadLetterTimestamp, strconv.FormatInt(rec.Timestamp, 10))
	add(DeadLetterGroup, l.sub.groupID)
	add(DeadLetterAttempts, strconv.Itoa(f.Attempt))
	add(DeadLetterError, text)
	return Record{Key: rec.Key, Value: rec.Value, Headers: headers}
}

func (b *burial) work() {
	switch {
	case !b.told:
		b.publish()
	case b.err == nil:
		b.lane.buried(b)
	default:
		b.told = false
		b.tries++
		b.lane.unburied(b)
	}
}

func (b *burial) publish() {
	done := func(_ Place, err error) {
		b.told, b.err = true, err
		b.lane.sub.all.workers.add(b)
	}
	topic, err := b.lane.sub.all.engine.Topic(b.lane.sub.opt.DeadLetters)
	if err != nil {
		done(Place{}, err)
		return
	}
	p := topic.plainPublisher()
	part, err := p.choose(&b.letter)
	if err != nil {
		done(Place{}, err)
		return
	}
	in, err := part.tryEnter(oneSize(&b.letter)) // there is the backoff to wait in
	if err != nil {
		done(Place{}, err)
		return
	}
	defer in.entered()
	part.sendAsync(&b.letter, p.how(), &partition.Single{Partition: part.index, Done: done})
}

// buried counts a record as processed that is a dead letter.
func (l *lane) buried(b *burial) {
	l.mu.Lock()
	if l.dropped {
		l.giveUpLocked(l.window.at(b.seq))
	} else {
		l.finishLocked(b.seq)
	}
	b.failure.Outcome = Buried
	l.seen.deadLetters.Add(1)
	tell := l.tellLocked(b.failure)
	l.mu.Unlock()
	tell()
}

// unburied tries again later what could not be published, or stops.
func (l *lane) unburied(b *burial) {
	f := b.failure
	f.Err, f.Outcome = &buryError{l.sub.opt.DeadLetters, b.err, b.failure.Err}, Retried
	l.mu.Lock()
	if l.dropped {
		l.giveUpLocked(l.window.at(b.seq))
		l.mu.Unlock()
		return
	}
	if wait, again := l.sub.opt.after(b.tries); again {
		l.pauseLocked(b.seq, wait)
	} else {
		f.Outcome = Stopped
		l.stopLocked(b.seq, f.Err)
	}
	tell := l.tellLocked(f)
	l.mu.Unlock()
	tell()
}

// buryError says why a record could not be made a dead letter, and why it was to be.
type buryError struct {
	topic string
	err   error
	cause error
}

func (e *buryError) Error() string {
	return "publish dead letter to topic " + e.topic + ": " + e.err.Error() + "; for: " + e.cause.Error()
}

func (e *buryError) Unwrap() []error { return []error{e.err, e.cause} }
