package crash

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// ending is how the engine before this one has ended.
type ending int

const (
	powerCut ending = iota
	killed          // the process; the operating system has all it wrote
	stopped
)

// check holds an engine that was just opened against what was promised before. What it
// finds is what is known from then on.
type check struct {
	m     *model
	after ending
	next  *model
	known map[string]*topic // what each topic that is there was found to be
	wrong []string
}

func (c *check) broken(promise int, format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf("promise %d: %s", promise, fmt.Sprintf(format, args...)))
}

// run checks all topics, and what groups have committed in them. lowered is what the
// engine has said of the latter.
func (c *check) run(e *varve.Engine, lowered []clamp) {
	c.next, c.known = newModel(), map[string]*topic{}
	maps.Copy(c.next.gone, c.m.gone)
	there := map[string]bool{}
	for _, t := range e.Topics() {
		there[t.Name()] = true
		known := c.which(t)
		if known == nil {
			continue
		}
		c.known[t.Name()] = known
		c.next.topics[t.Name()] = &slot{topics: []*topic{c.topic(t, known)}}
	}
	for name, s := range c.m.topics {
		if !there[name] && !s.absent {
			_, err := e.Topic(name)
			c.broken(1, "topic %s is gone: %v", name, err)
		}
		for _, t := range s.topics {
			if now := c.next.topics[name]; t.id != uuid.Nil && (now == nil || now.topics[0].id != t.id) {
				c.next.gone[t.id] = name
			}
		}
	}
	c.groups(e, lowered)
}

// which finds out which of the topics that were tried this one is.
func (c *check) which(t *varve.Topic) *topic {
	if name, ok := c.m.gone[t.ID()]; ok {
		c.broken(15, "topic %s was deleted and is back", name)
		return nil
	}
	s := c.m.topics[t.Name()]
	if s == nil {
		c.broken(5, "topic %s is there and was never made", t.Name())
		return nil
	}
	if known := c.m.byID(t.Name(), t.ID()); known != nil {
		return known
	}
	for _, one := range slices.Backward(s.topics) {
		if one.id == uuid.Nil && c.fits(t, one) {
			return one
		}
	}
	c.broken(1, "topic %s has an id and settings that none of its name had: %v", t.Name(), configIn(t))
	return nil
}

func (c *check) fits(t *varve.Topic, known *topic) bool {
	set := configIn(t)
	return t.Partitions() >= known.partitions && t.Partitions() <= known.tried &&
		slices.ContainsFunc(known.configs, func(one map[string]string) bool { return maps.Equal(one, set) })
}

func (c *check) topic(t *varve.Topic, known *topic) *topic {
	if n := t.Partitions(); n < known.partitions || n > known.tried {
		c.broken(1, "topic %s has %d partitions, it had %d and was to have %d", t.Name(), n, known.partitions, known.tried)
	}
	set := configIn(t)
	if !c.fits(t, known) {
		c.broken(1, "topic %s has configs %v, it was given %v", t.Name(), set, known.configs)
	}
	next := newTopic(t.Partitions(), set)
	next.id = t.ID()
	for i := range t.Partitions() {
		p, err := t.Partition(i)
		if err == nil {
			err = p.Err()
		}
		if err != nil {
			c.broken(12, "partition %s/%d cannot be used: %v", t.Name(), i, err)
			continue
		}
		log := &checkPart{check: c, p: p, name: fmt.Sprintf("%s/%d", t.Name(), i), known: known.part(i), next: next.part(i)}
		log.run()
	}
	return next
}

// checkPart checks one partition.
type checkPart struct {
	*check
	p           *varve.Partition
	name        string
	known, next *part

	start, end varve.Offset
	last       *try // of the record before
	lost       bool // something that was acknowledged or seen
	lines      map[int]int
}

func (c *checkPart) run() {
	c.ends()
	c.records()
	c.lookups()
	c.lost = c.lost || c.end < c.known.told
	epoch := int(c.p.Stats().Epoch)
	switch {
	case epoch < c.known.epoch:
		c.broken(10, "%s has leader epoch %d, it had %d", c.name, epoch, c.known.epoch)
	case epoch == c.known.epoch && (!c.m.rest || c.lost):
		c.broken(10, "%s has leader epoch %d as before it was not stopped cleanly, records were seen up to %d and are there up to %d", c.name, epoch, c.known.told, c.end)
	}
	c.next.told, c.next.durable, c.next.epoch = c.end, c.end, epoch
	c.next.start, c.next.aimed = c.start, c.start
}

func (c *checkPart) ends() {
	c.start, c.end = c.p.Start(), c.p.End()
	k := c.known
	if c.start < k.start || c.start > max(k.aimed, k.start) {
		c.broken(15, "%s: the log start is %d, acknowledged was %d, asked for %d", c.name, c.start, k.start, k.aimed)
	}
	if c.end < k.durable {
		c.broken(1, "%s: the end is %d, everything below %d was durable", c.name, c.end, k.durable)
	}
	if c.end < k.told && c.after != powerCut {
		c.broken(11, "%s: the end is %d, everything below %d was acknowledged or seen", c.name, c.end, k.told)
	}
	if c.end < c.start {
		c.broken(3, "%s: the end is %d, the log start %d", c.name, c.end, c.start)
	}
	if c.p.DurableEnd() != c.end || c.p.LogEnd() != c.end {
		c.broken(2, "%s: ends differ: published %d, durable %d, log %d", c.name, c.end, c.p.DurableEnd(), c.p.LogEnd())
	}
}

// records reads everything.
func (c *checkPart) records() {
	placed := make(map[string]varve.Offset, len(c.known.at))
	for off, value := range c.known.at {
		placed[value] = off
	}
	c.lines = map[int]int{}
	next := c.start
	for rec, err := range c.p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			c.broken(6, "%s: read at %d: %v", c.name, next, err)
			return
		}
		if rec.Offset != next {
			c.broken(3, "%s: offset %d follows %d", c.name, rec.Offset, next-1)
		}
		value := string(rec.Value)
		if was, ok := placed[value]; ok && was != rec.Offset {
			c.broken(3, "%s: %s is at offset %d and was at %d", c.name, short(value), rec.Offset, was)
		}
		placed[value] = rec.Offset
		c.record(rec.Offset, value)
		next = rec.Offset + 1
	}
	c.endBatch()
	if next != c.end {
		c.broken(6, "%s: reading ended at %d, the end is %d", c.name, next, c.end)
	}
}

func (c *checkPart) record(off varve.Offset, value string) {
	t, ok := c.known.tries[value]
	if want, known := c.known.at[off]; known && value != want {
		c.broken(1, "%s: offset %d holds %s, it held %s", c.name, off, short(value), short(want))
	}
	switch {
	case !ok:
		c.broken(5, "%s: offset %d holds %s, which was never published", c.name, off, short(value))
		return
	case t.refused:
		c.broken(4, "%s: offset %d holds %s, of which its publisher was told that it is not stored", c.name, off, short(value))
	}
	if c.last != nil && t.i != 0 && (c.last.batch != t.batch || c.last.i != t.i-1) || c.last == nil && t.i != 0 && off > c.known.start && off > c.start {
		c.broken(4, "%s: offset %d is record %d of a batch, and what is in front of it is not there", c.name, off, t.i)
	}
	if t.i == 0 {
		c.endBatch()
	}
	if t.number <= c.lines[t.line] {
		c.broken(3, "%s: offset %d holds %s, which was published before what is in front of it", c.name, off, short(value))
	}
	c.lines[t.line] = t.number
	c.last = &t
	c.next.at[off], c.next.tries[value] = value, t
}

// endBatch sees that the batch of the last record is whole.
func (c *checkPart) endBatch() {
	if c.last != nil && c.last.i != c.last.of-1 {
		c.broken(4, "%s: of a batch of %d records %d are there", c.name, c.last.of, c.last.i+1)
	}
	c.last = nil
}

// lookups asks the indexes.
func (c *checkPart) lookups() {
	if c.start >= c.end {
		return
	}
	mid := c.start + (c.end-c.start)/2
	rd, err := c.p.Reader(varve.At(mid))
	if err == nil {
		var rec varve.Record
		if rec, _, err = rd.Poll(); err == nil && rec.Offset != mid {
			err = fmt.Errorf("offset %d instead", rec.Offset)
		}
	}
	if err != nil {
		c.broken(13, "%s: a read at offset %d gives %v", c.name, mid, err)
	}
	if off, err := c.p.OffsetFor(context.Background(), time.UnixMilli(1)); err != nil || off != c.start {
		c.broken(13, "%s: the first record since ever is that of offset %d (%v), the log start is %d", c.name, off, err, c.start)
	}
}

// tidy sees that nothing is left about once the engine was stopped, but for directories
// of partitions that were not to be: the next attempt to make them clears them.
func (c *check) tidy(disk *vfs.Mem) {
	for _, name := range disk.Files() {
		dir := path.Dir(name)
		topic := c.m.topics[path.Base(path.Dir(dir))]
		i, err := strconv.Atoi(path.Base(dir))
		if err == nil && topic != nil && len(topic.topics) == 1 && i >= topic.topics[0].partitions {
			continue
		}
		if strings.HasSuffix(name, ".tmp") || strings.HasPrefix(name, "topics/~") {
			c.broken(12, "%s is left over", name)
		}
	}
	entries, err := disk.ReadDir("topics")
	if err != nil {
		c.broken(12, "topics: %v", err)
	}
	for _, f := range entries { // an empty directory is no file
		if strings.HasPrefix(f.Name(), "~") {
			c.broken(12, "topics/%s is left over", f.Name())
		}
	}
}
