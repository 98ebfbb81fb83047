package varve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/group/kafkaoffsets"
)

// What all groups have committed lies in an internal topic of one partition, a record a
// commit, in Kafka's format (package kafkaoffsets). The last record of a key counts, so
// reading the topic from its log start, in order, gives the tables of all groups.
//
// It does not grow with the number of commits: when it is a few times as large as the
// tables, these are written anew at its end, and then what is in front of them is
// trimmed. Between the two, and at any moment of the first, the older records are
// still there and the newer ones say the same or something later.
const (
	compactMin    = 1 << 20 // bytes of records below which nothing is done
	compactFactor = 4       // times the tables' size
	chunkBytes    = 256 << 10
	recordCost    = 24 // about what a record takes beside key and value
)

var offsetsConfig = TopicConfig{Partitions: 1, Config: map[string]string{
	"retention.ms": "-1", "segment.bytes": "1048576", "compression.type": "uncompressed",
}}

// offsetsTopic is the topic of commits.
//
//	field          guarded by   written by
//	engine         (immutable)  newCoordinator
//	live           atomic       load, compaction
//	written        atomic       load, compaction, every write
type offsetsTopic struct {
	engine  *Engine
	live    atomic.Int64 // bytes of the tables, when they were last written anew
	written atomic.Int64 // bytes of records since the log start
}

// partition returns where the records are, nil where there are none yet.
func (o *offsetsTopic) partition() (*Partition, error) {
	t, err := o.engine.internalTopic(kafkaoffsets.Topic)
	if errors.Is(err, ErrNoTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", kafkaoffsets.Topic, err)
	}
	p := t.parts()[0]
	return p, p.broken
}

// make is partition, and makes the topic where there is none.
func (o *offsetsTopic) make() (*Partition, error) {
	p, err := o.partition()
	if p != nil || err != nil {
		return p, err
	}
	t, err := o.engine.ensureInternal(kafkaoffsets.Topic, offsetsConfig)
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", kafkaoffsets.Topic, err)
	}
	p = t.parts()[0]
	return p, p.broken
}

// due says whether the topic is to be written anew.
func (o *offsetsTopic) due() bool {
	return o.written.Load() > compactMin+compactFactor*o.live.Load()
}

// commitWrite is records on their way to the offsets topic, in batches that were made
// and are not appended yet.
type commitWrite struct {
	part   *Partition
	table  *commitTable
	chunks []commitChunk
	bytes  int64

	left atomic.Int64  // batches that were not acknowledged yet
	done chan struct{} // closed when there are none
	mu   sync.Mutex
	err  error // of the first batch that failed
}

type commitChunk struct {
	list []entry
	req  *request
}

// prepare makes the batches for a group's entries. Whoever gets a write appends it, or
// gives it back with drop.
func (o *offsetsTopic) prepare(groupID string, table *commitTable, list []entry) (*commitWrite, error) {
	p, err := o.make()
	if err != nil {
		return nil, err
	}
	w := &commitWrite{part: p, table: table, done: make(chan struct{})}
	for len(list) > 0 {
		recs, bytes, err := encodeEntries(groupID, list)
		if err == nil {
			r := o.engine.requests.get()
			if err = p.prepare(r, recs, publishing{expect: -1}); err == nil {
				w.chunks = append(w.chunks, commitChunk{list[:len(recs)], r})
			} else {
				r.free()
			}
		}
		if err != nil {
			w.drop()
			return nil, err
		}
		list, w.bytes = list[len(recs):], w.bytes+bytes
	}
	return w, nil
}

// encodeEntries makes records of the first entries, as many as go into a batch.
func encodeEntries(groupID string, list []entry) (recs []Record, bytes int64, err error) {
	for i := range list {
		rec, err := encodeEntry(groupID, &list[i])
		if err != nil {
			return nil, 0, err
		}
		size := int64(weight(&rec) + recordCost)
		if len(recs) > 0 && bytes+size > chunkBytes {
			break
		}
		recs, bytes = append(recs, rec), bytes+size
	}
	return recs, bytes, nil
}

func encodeEntry(groupID string, e *entry) (rec Record, err error) {
	rec.Key, err = kafkaoffsets.AppendCommitKey(nil, groupID, e.topic, e.at.Number)
	if err != nil || e.commit == nil {
		return rec, err
	}
	rec.Value, err = kafkaoffsets.AppendCommitValue(nil, e.at.Topic, *e.commit)
	return rec, err
}

// drop gives back what was not appended.
func (w *commitWrite) drop() {
	for _, c := range w.chunks {
		c.req.free()
	}
}

// append queues the records behind all that were queued before and returns at once.
// Each batch goes into the table when it is on stable storage; after the last one
// settled is called, from a goroutine of the engine, and must not block.
func (w *commitWrite) append(o *offsetsTopic, settled func()) {
	o.written.Add(w.bytes)
	w.left.Store(int64(len(w.chunks)))
	for range w.chunks {
		w.table.begin()
	}
	for _, c := range w.chunks {
		c.req.told = func(base Offset, err error) { w.told(c.list, base, err, settled) }
		w.part.log.Enqueue(&c.req.Append)
	}
}

func (w *commitWrite) told(list []entry, base Offset, err error, settled func()) {
	w.table.apply(list, base, err)
	w.part.topic.engine.groups.moved(list)
	if err != nil {
		w.mu.Lock()
		if w.err == nil {
			w.err = err
		}
		w.mu.Unlock()
	}
	if w.left.Add(-1) == 0 {
		settled()
		close(w.done)
	}
}

// wait returns when the records are on stable storage, or were refused. Where the
// context ends first that is a *MaybeStoredError.
func (w *commitWrite) wait(ctx context.Context) error {
	select {
	case <-w.done:
	default:
		defer lend(ctx).back()
		select {
		case <-w.done:
		case <-ctx.Done():
			return &MaybeStoredError{Cause: ctx.Err()}
		}
	}
	return w.failed()
}

// failed is nil, or why not all records are on stable storage, once that is settled.
func (w *commitWrite) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// loaded is what reading the topic came upon.
type loaded struct {
	tables map[string]*commitTable
	gaps   []error // damage: commits may be missing, and others may have older places
	odd    int     // records that could not be made sense of
	last   error   // of these, the last
	newer  bool    // among them are some that a later version may have written
}

// load reads the tables of all groups.
func (o *offsetsTopic) load(known *catalog) (*loaded, error) {
	in := &loaded{tables: map[string]*commitTable{}}
	p, err := o.partition()
	if p == nil || err != nil {
		return in, err
	}
	bytes := int64(0)
	c := cursor{p: p, next: p.Start(), stop: p.End()}
	for {
		var rec Record
		ok, err := c.record(&rec)
		switch {
		case err != nil && !goesOn(err):
			return nil, err
		case err != nil:
			in.gaps = append(in.gaps, err)
			continue
		case !ok:
			o.written.Store(bytes)
			o.live.Store(in.bytes())
			return in, nil
		}
		bytes += int64(weight(&rec) + recordCost)
		if err := in.take(&rec, known); err != nil {
			in.odd, in.last = in.odd+1, fmt.Errorf("offset %d: %w", rec.Offset, err)
		}
	}
}

// take enters one record. Those of other kinds than commits are of no concern here.
func (in *loaded) take(rec *Record, known *catalog) error {
	key, err := kafkaoffsets.DecodeKey(rec.Key)
	if err != nil || !key.Kind.IsCommit() {
		in.newer = in.newer || err != nil
		return err
	}
	table := in.tables[key.Group]
	if rec.Value == nil {
		if table != nil {
			table.forget(key.Topic, key.Partition)
		}
		return nil
	}
	id, c, err := kafkaoffsets.DecodeCommitValue(rec.Value)
	if err != nil {
		in.newer = true
		return err
	}
	if id == (group.TopicID{}) { // from before values had it
		t := known.names[key.Topic]
		if t == nil {
			return fmt.Errorf("a commit for topic %s, which does not exist", key.Topic)
		}
		id = group.TopicID(t.id)
	}
	if table == nil {
		table = &commitTable{}
		in.tables[key.Group] = table
	}
	table.load(&entry{key.Topic, group.Partition{Topic: id, Number: key.Partition}, &c})
	return nil
}

// bytes is about what the tables take when they are written anew.
func (in *loaded) bytes() int64 {
	n := int64(0)
	for id, table := range in.tables {
		for _, e := range table.entries() {
			n += entrySize(id, &e)
		}
	}
	return n
}

// entrySize is about what an entry takes as a record.
func entrySize(groupID string, e *entry) int64 {
	const fixed = 2 + 2 + 2 + 4 + 2 + 8 + 4 + 2 + 8 + 19
	return int64(fixed + recordCost + len(groupID) + len(e.topic) + len(e.commit.Metadata))
}

// compact writes the tables of groups anew and trims what is in front of them. Commits
// of a group wait while its table is written, for no longer than that takes.
func (o *offsetsTopic) compact(groups func() []*groupState) error {
	p, err := o.partition()
	if p == nil || err != nil {
		return err
	}
	from, before, live := p.LogEnd(), o.written.Load(), int64(0)
	for _, g := range groups() { // as they are now: what a later one commits is behind from
		n, err := g.rewrite()
		if err != nil {
			return err
		}
		live += n
	}
	if err := p.WaitDurable(context.Background(), from); err != nil {
		return err
	}
	if _, err := p.Trim(from); err != nil {
		return err
	}
	o.live.Store(live)
	o.written.Add(-before)
	return nil
}
