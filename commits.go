package varve

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/group"
)

// entry is one change of what a group has committed.
type entry struct {
	topic  string
	at     group.Partition
	commit *group.Commit // nil: forget it
}

// commitTable is what a group has committed, as the durable records of the offsets
// topic say.
//
//	field     guarded by   written by
//	offsets   mu           load, acknowledged commits, expiry, a topic's deletion
//	ids       mu           with offsets: the topic of each name in it
//	applied   mu           acknowledged commits, while any is under way
//	flying    mu           begin, apply
//	clamped   mu           load; a commit takes its partition's away
//	places    its own      with offsets, under mu
//
// A record's key has the name of a topic, and its value the id. So of two topics that had
// a name, one after the other, only the second one's commits are in the table: a
// tombstone could not tell them apart, and the first is gone.
//
// It is a leaf: acknowledgements come from goroutines of the engine that must not
// wait for a group.
type commitTable struct {
	mu      sync.Mutex
	offsets group.Offsets
	ids     map[string]group.TopicID
	applied map[group.Partition]Offset // the record in force: acknowledgements may overtake each other
	flying  int
	clamped map[group.Partition]Offset // what was committed before a crash took the end of the log

	// places are the offsets once more, for who must not have acknowledgements wait.
	places sync.Map // of group.Partition, each an *atomic.Int64
}

// begin counts records that were handed to the log.
func (t *commitTable) begin() {
	t.mu.Lock()
	t.flying++
	t.mu.Unlock()
}

// apply enters the records of a batch that begins at base, or nothing where it
// failed.
func (t *commitTable) apply(list []entry, base Offset, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		for i := range list {
			t.enterLocked(&list[i], base+Offset(i))
		}
	}
	if t.flying--; t.flying == 0 {
		t.applied = nil
	}
}

// enterLocked enters one record, unless one behind it was entered before.
func (t *commitTable) enterLocked(e *entry, at Offset) {
	if last, some := t.applied[e.at]; some && last > at {
		return
	}
	if t.applied == nil {
		t.applied = map[group.Partition]Offset{}
	}
	t.applied[e.at] = at
	t.setLocked(e)
}

func (t *commitTable) setLocked(e *entry) {
	delete(t.clamped, e.at)
	if e.commit == nil {
		t.offsets.Delete(e.at)
		t.places.Delete(e.at)
		return
	}
	if old, some := t.ids[e.topic]; some && old != e.at.Topic {
		for _, p := range t.offsets.DropTopic(old) {
			t.places.Delete(p)
		}
	}
	if t.ids == nil {
		t.ids = map[string]group.TopicID{}
	}
	t.ids[e.topic] = e.at.Topic
	t.offsets.Set(e.at, *e.commit) // its metadata was checked, here or by who wrote it
	place, some := t.places.Load(e.at)
	if !some {
		place, _ = t.places.LoadOrStore(e.at, new(atomic.Int64))
	}
	place.(*atomic.Int64).Store(int64(e.commit.Offset))
}

// all goes through the offsets without the lock. They are not of one instant.
func (t *commitTable) all(yield func(group.Partition, Offset) bool) {
	t.places.Range(func(at, place any) bool {
		return yield(at.(group.Partition), Offset(place.(*atomic.Int64).Load()))
	})
}

// load enters one record while nobody else is there.
func (t *commitTable) load(e *entry) {
	t.mu.Lock()
	t.setLocked(e)
	t.mu.Unlock()
}

// forget enters a tombstone as load does.
func (t *commitTable) forget(topic string, number int32) {
	t.mu.Lock()
	if id, some := t.ids[topic]; some {
		t.setLocked(&entry{topic: topic, at: group.Partition{Topic: id, Number: number}})
	}
	t.mu.Unlock()
}

func (t *commitTable) get(at group.Partition) (group.Commit, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offsets.Get(at)
}

// lost returns what was committed above the end that a crash has left.
func (t *commitTable) lost(at group.Partition) (Offset, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	off, was := t.clamped[at]
	return off, was
}

func (t *commitTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.offsets.Len()
}

// entries lists all commits.
func (t *commitTable) entries() []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := t.namesLocked()
	parts := t.offsets.Partitions()
	list := make([]entry, len(parts))
	for i, p := range parts {
		c, _ := t.offsets.Get(p)
		list[i] = entry{names[p.Topic], p, &c}
	}
	return list
}

func (t *commitTable) namesLocked() map[group.TopicID]string {
	names := make(map[group.TopicID]string, len(t.ids))
	for name, id := range t.ids {
		names[id] = name
	}
	return names
}

// noteLost notes what clamp has brought down.
func (t *commitTable) noteLost(lost map[group.Partition]Offset) {
	t.mu.Lock()
	maps.Copy(t.clamped, lost)
	t.mu.Unlock()
}

// clamp brings a commit down to the end that a crash has left of its partition.
func (t *commitTable) clamp(at group.Partition, end Offset) (entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, some := t.offsets.Get(at)
	if !some || c.Offset <= end {
		return entry{}, false
	}
	was := c.Offset
	c.Offset, c.LeaderEpoch = end, -1
	e := entry{t.namesLocked()[at.Topic], at, &c}
	t.setLocked(&e)
	if t.clamped == nil {
		t.clamped = map[group.Partition]Offset{}
	}
	t.clamped[at] = was
	return e, true
}

// expire forgets what has served its time and returns tombstones for it.
func (t *commitTable) expire(now time.Time, rule group.Expiry) []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.goneLocked(t.offsets.Expire(now, rule))
}

// dropTopic forgets the commits of a topic and returns tombstones for them.
func (t *commitTable) dropTopic(id group.TopicID) []entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.goneLocked(t.offsets.DropTopic(id))
}

func (t *commitTable) goneLocked(parts []group.Partition) []entry {
	var list []entry
	names := t.namesLocked()
	for _, p := range parts {
		delete(t.clamped, p)
		t.places.Delete(p)
		list = append(list, entry{topic: names[p.Topic], at: p})
	}
	return list
}
