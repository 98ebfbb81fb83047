package varve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/varvelog/varve/partition"
)

// Topic is a named set of partitions with one configuration.
//
//	field         guarded by         written by
//	engine, name, id   (immutable)   CreateTopic, Open
//	body, generation   Engine.catalogMu   Alter, AddPartitions
//	cfg           atomic             Alter
//	partitions    atomic, a new slice each time   AddPartitions
//	plain         plainOnce          Publish
type Topic struct {
	engine *Engine
	name   string
	id     uuid.UUID

	body       topicBody
	generation uint64

	cfg        atomic.Pointer[topicState]
	partitions atomic.Pointer[[]*Partition]

	plainOnce sync.Once
	plain     *Publisher
}

// topicState is the configuration in force, as set and as read.
type topicState struct {
	topicConfig
	set map[string]string
}

func newTopic(e *Engine, body topicBody, cfg topicConfig, generation uint64) *Topic {
	t := &Topic{engine: e, name: body.Name, id: body.ID, body: body, generation: generation}
	t.cfg.Store(&topicState{cfg, body.Config})
	t.partitions.Store(new([]*Partition))
	return t
}

func (t *Topic) parts() []*Partition  { return *t.partitions.Load() }
func (t *Topic) config() *topicConfig { return &t.cfg.Load().topicConfig }

// Name is the topic's name.
func (t *Topic) Name() string { return t.name }

// ID tells the topic from every other, also from one that had its name before.
func (t *Topic) ID() uuid.UUID { return t.id }

// Partitions is how many partitions there are: 0, …, n-1.
func (t *Topic) Partitions() int { return len(t.parts()) }

// Partition returns one partition, ErrNoPartition where there is none.
func (t *Topic) Partition(i int) (*Partition, error) {
	list := t.parts()
	if i < 0 || i >= len(list) {
		return nil, fmt.Errorf("topic %s has partitions 0 to %d, not %d: %w", t.name, len(list)-1, i, ErrNoPartition)
	}
	return list[i], nil
}

// Config lists all configs, by name.
func (t *Topic) Config() []ConfigEntry { return listConfig(t.cfg.Load().set) }

// Alter sets configs and unsets others, which go back to their defaults: all of
// it or nothing. It is durable, and in force, when it returns. Segments that are
// there keep their size and index.
func (t *Topic) Alter(set map[string]string, unset ...string) error {
	t.engine.catalogMu.Lock()
	defer t.engine.catalogMu.Unlock()
	if err := t.alterLocked(set, unset...); err != nil {
		return fmt.Errorf("alter topic %s: %w", t.name, err)
	}
	return nil
}

// alterLocked is Alter of who holds catalogMu.
func (t *Topic) alterLocked(set map[string]string, unset ...string) error {
	if err := t.alive(); err != nil {
		return err
	}
	config := maps.Clone(t.body.Config)
	for _, key := range unset {
		if _, err := parseConfig(map[string]string{key: defaultOf(key)}); err != nil {
			return err
		}
		delete(config, key)
	}
	maps.Copy(config, set)
	cfg, err := parseConfig(config)
	if err != nil {
		return err
	}
	return t.alter(cfg, config)
}

// alter makes a new configuration durable and puts it in force. A stronger level
// is in force before it is durable: after a crash recovery takes it for granted
// that the log had kept to it.
func (t *Topic) alter(cfg topicConfig, set map[string]string) error {
	body, old := t.body, t.config()
	body.Config = set
	stronger := cfg.log.Level > old.log.Level
	if stronger {
		if err := t.configure(cfg.log); err != nil {
			return errors.Join(err, t.configure(old.log))
		}
	}
	if err := t.save(body); err != nil {
		if stronger {
			err = errors.Join(err, t.configure(old.log))
		}
		return err
	}
	t.cfg.Store(&topicState{cfg, set})
	t.hold(cfg.hold)
	if stronger {
		return nil
	}
	return t.configure(cfg.log)
}

// configure puts a configuration in force in all partitions.
func (t *Topic) configure(cfg partition.Config) error {
	var errs []error
	for _, p := range t.parts() {
		if p.log != nil {
			errs = append(errs, p.log.Configure(cfg))
		}
	}
	return errors.Join(errs...)
}

// AddPartitions raises the number of partitions to total. Keys that went to one
// partition may go to another from then on: the order of a key's records holds
// before and after, not across.
func (t *Topic) AddPartitions(total int) error {
	t.engine.catalogMu.Lock()
	defer t.engine.catalogMu.Unlock()
	have := t.Partitions()
	err := t.alive()
	if err == nil && (total <= have || total > MaxPartitions) {
		err = &ConfigError{Key: "partitions", Value: strconv.Itoa(total),
			Reason: fmt.Sprintf("must be above %d, the number there is, and at most %d", have, MaxPartitions)}
	}
	if err == nil {
		err = t.addPartitions(have, total)
	}
	if err != nil {
		return fmt.Errorf("add partitions to topic %s: %w", t.name, err)
	}
	return nil
}

func (t *Topic) addPartitions(have, total int) error {
	e, dir := t.engine, topicDir(t.name)
	for i := have; i < total; i++ {
		if err := e.clearLeftover(dir + "/" + strconv.Itoa(i)); err != nil {
			return err
		}
	}
	if err := e.makePartitionDirs(dir, have, total); err != nil {
		return err
	}
	if err := e.fs.SyncDir(dir); err != nil {
		return err
	}
	body := t.body
	body.Partitions = total
	if err := t.save(body); err != nil {
		return err
	}
	t.openNew(have, total)
	e.groups.topicsChanged()
	return nil
}

// clearLeftover removes the directory of a partition that an attempt to make it
// has left. One with anything else in it is not ours to remove.
func (e *Engine) clearLeftover(dir string) error {
	entries, err := e.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range entries {
		if !strings.HasPrefix(f.Name(), partition.MetadataName) {
			return fmt.Errorf("%s is in the way and has %q in it: move it away", e.fs.Path(dir), f.Name())
		}
	}
	return e.fs.RemoveAll(dir)
}

// save makes a new body durable.
func (t *Topic) save(body topicBody) error {
	if err := saveTopic(t.engine, topicDir(t.name), body, t.generation+1); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return ErrClosed
		}
		return err
	}
	t.body, t.generation = body, t.generation+1
	return nil
}

// alive says whether the topic is still one of an open engine.
func (t *Topic) alive() error {
	t.engine.mu.RLock()
	defer t.engine.mu.RUnlock()
	if t.engine.closed || t.engine.topics[t.name] != t {
		return ErrClosed
	}
	return nil
}

// defaultOf is the default of a config, "" for one that does not exist.
func defaultOf(key string) string {
	for _, k := range configKeys {
		if k.name == key {
			return k.def
		}
	}
	return ""
}

// Publisher makes a publisher with options of its own. Options that cannot be
// are the error of its every publish.
func (t *Topic) Publisher(o PublisherOptions) *Publisher { return newPublisher(t, o) }

func (t *Topic) plainPublisher() *Publisher {
	t.plainOnce.Do(func() { t.plain = newPublisher(t, PublisherOptions{}) })
	return t.plain
}

// Publish appends one record to the partition that its key chooses, and returns
// where it stands, once it is acknowledged at the topic's durability.
func (t *Topic) Publish(ctx context.Context, rec Record) (Place, error) {
	return t.plainPublisher().Publish(ctx, rec)
}

// PublishAll appends records, each to the partition that its key chooses. What
// goes to one partition is one batch: all of it or nothing. The places are in the
// order of the records; after an error, those that were not stored, or only maybe,
// have offset -1. Where a partition cannot be chosen nothing is sent, and the
// places are nil.
func (t *Topic) PublishAll(ctx context.Context, recs []Record) ([]Place, error) {
	return t.plainPublisher().PublishAll(ctx, recs)
}

// TopicStats is a topic taken stock of.
type TopicStats struct {
	Partitions []PartitionStats
	Bytes      int64 // of all log files
	Records    int64 // offsets between start and end, over all partitions
}

// Stats takes stock of all partitions.
func (t *Topic) Stats() TopicStats {
	var s TopicStats
	for _, p := range t.parts() {
		st := p.Stats()
		s.Partitions = append(s.Partitions, st)
		s.Bytes += st.Bytes
		s.Records += int64(st.End - st.Start)
	}
	return s
}
