package varve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/varvelog/varve/internal/twin"
	"github.com/varvelog/varve/partition"
)

// A topic is a directory under topics/. It is made under a name that no topic can
// have and then renamed, and it is deleted by being renamed first, so that at no
// moment a half-made or half-deleted topic bears its name:
//
//	topics/orders/topic.json, topic.json.copy   topicBody, see package twin
//	topics/orders/0, 1, …                       its partitions
//	topics/~new-UUID                            being made
//	topics/~deleted-UUID                        deleted, see deletion
const (
	topicFile     = "topic.json"
	newPrefix     = "~new-"
	deletedPrefix = "~deleted-"
)

// MaxPartitions bounds a topic: a number that is a slip of the finger should not
// make a million directories.
const MaxPartitions = 100_000

// topicBody is what is kept of a topic.
type topicBody struct {
	Name       string            `json:"name"`
	ID         uuid.UUID         `json:"id"`
	Partitions int               `json:"partitions"`
	Config     map[string]string `json:"config"`
}

// TopicConfig is how a topic is made.
type TopicConfig struct {
	// Partitions is how many there are. 0: 1.
	Partitions int
	// Config sets configs, under Kafka's names; docs/configuration.md lists them.
	Config map[string]string
}

// CreateTopic makes a topic. It is durable, whole, when it returns.
func (e *Engine) CreateTopic(name string, c TopicConfig) (*Topic, error) {
	e.catalogMu.Lock()
	defer e.catalogMu.Unlock()
	err := checkName(name)
	if err == nil {
		err = checkApart(name)
	}
	if err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	t, err := e.createTopic(name, c)
	if err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	e.groups.topicsChanged()
	e.readPlaces()
	return t, nil
}

// EnsureTopic returns the topic of that name, which is made as c says where there
// is none. One that is there is left as it is.
func (e *Engine) EnsureTopic(name string, c TopicConfig) (*Topic, error) {
	if t, err := e.Topic(name); !errors.Is(err, ErrNoTopic) {
		return t, err
	}
	t, err := e.CreateTopic(name, c)
	if errors.Is(err, ErrTopicExists) {
		return e.Topic(name)
	}
	return t, err
}

// createTopic makes a topic under a name that is good.
func (e *Engine) createTopic(name string, c TopicConfig) (*Topic, error) {
	if c.Partitions == 0 {
		c.Partitions = 1
	}
	if c.Partitions < 0 || c.Partitions > MaxPartitions {
		return nil, &ConfigError{Key: "partitions", Value: strconv.Itoa(c.Partitions),
			Reason: fmt.Sprintf("must be from 1 to %d", MaxPartitions)}
	}
	cfg, err := parseConfig(c.Config)
	if err != nil {
		return nil, err
	}
	if err := e.checkFree(name); err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, err
	}
	body := topicBody{Name: name, ID: id, Partitions: c.Partitions, Config: maps.Clone(c.Config)}
	if body.Config == nil {
		body.Config = map[string]string{}
	}
	if err := e.makeTopicDir(body); err != nil {
		return nil, err
	}
	t := newTopic(e, body, cfg, 1)
	t.openNew(0, body.Partitions)
	e.mu.Lock()
	e.topics[name] = t
	e.mu.Unlock()
	return t, nil
}

// checkFree says why a new topic cannot have the name.
func (e *Engine) checkFree(name string) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.closed {
		return ErrClosed
	}
	if _, ok := e.topics[name]; ok {
		return fmt.Errorf("%s: %w", name, ErrTopicExists)
	}
	if err := e.broken[name]; err != nil {
		return fmt.Errorf("%s: %w, but cannot be opened: %w", name, ErrTopicExists, err)
	}
	taken := slices.AppendSeq(slices.Collect(maps.Keys(e.topics)), maps.Keys(e.broken))
	for _, other := range taken {
		if collisionKey(other) == collisionKey(name) {
			return &NameError{name, fmt.Sprintf("collides with topic %q: names must differ by more than case and '.' for '_'", other)}
		}
	}
	return nil
}

// makeTopicDir makes the directory of a topic aside and renames it into place.
func (e *Engine) makeTopicDir(body topicBody) error {
	tmp := topicsName + "/" + newPrefix + body.ID.String()
	err := e.fillTopicDir(tmp, body)
	if err == nil {
		err = e.fs.Rename(tmp, topicDir(body.Name))
	}
	if err != nil {
		e.fs.RemoveAll(tmp)
		return err
	}
	if err := e.fs.SyncDir(topicsName); err != nil {
		e.fs.RemoveAll(topicDir(body.Name)) // nobody was told of it
		return err
	}
	return nil
}

func (e *Engine) fillTopicDir(dir string, body topicBody) error {
	if err := e.fs.Mkdir(dir); err != nil {
		return err
	}
	if err := e.makePartitionDirs(dir, 0, body.Partitions); err != nil {
		return err
	}
	if err := saveTopic(e, dir, body, 1); err != nil {
		return err
	}
	return e.fs.SyncDir(dir)
}

// makePartitionDirs makes the directories of the partitions from, …, to-1.
func (e *Engine) makePartitionDirs(dir string, from, to int) error {
	var mu sync.Mutex
	var errs []error
	parallel(to-from, func(i int) {
		if err := partition.Create(e.fs, dir+"/"+strconv.Itoa(from+i)); err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		}
	})
	return errors.Join(errs...)
}

// parallel calls f with 0, …, n-1, several at a time: what it does waits for the
// disk.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(2*runtime.GOMAXPROCS(0), n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

func saveTopic(e *Engine, dir string, body topicBody, generation uint64) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return twin.Save(e.fs, dir+"/"+topicFile, generation, data)
}

// topicIdentity tells documents of topics apart by their ids. The one in whose
// directory they lie has its name.
func topicIdentity(name string) twin.Identity {
	decode := func(data json.RawMessage) (body topicBody) {
		json.Unmarshal(data, &body) // what is no topic has no id
		return body
	}
	return twin.Identity{
		ID: func(data json.RawMessage) string {
			if id := decode(data).ID; id != uuid.Nil {
				return id.String()
			}
			return ""
		},
		Own: func(data json.RawMessage) bool { return decode(data).Name == name },
	}
}

func topicDir(name string) string { return topicsName + "/" + name }

// loadTopics reads what is under topics/.
func (e *Engine) loadTopics(clean bool) error {
	entries, err := e.fs.ReadDir(topicsName)
	if errors.Is(err, fs.ErrNotExist) {
		if err := e.fs.Mkdir(topicsName); err != nil {
			return err
		}
		return e.fs.SyncDir(".")
	}
	if err == nil && !clean { // what is served from now on may have been made just before a kill
		err = e.fs.SyncDir(topicsName)
	}
	if err != nil {
		return err
	}
	var names []string
	for _, f := range entries {
		name := f.Name()
		switch {
		case e.takeUpDeletion(name, clean):
		case strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, deletedPrefix):
			if err := e.fs.RemoveAll(topicsName + "/" + name); err != nil {
				e.log.Warn("cannot remove a leftover", "path", e.fs.Path(topicsName+"/"+name), "err", err)
			}
		case checkName(name) != nil && !isInternal(name) || !f.IsDir():
			e.log.Warn("ignoring what is not a topic", "path", e.fs.Path(topicsName+"/"+name))
		default:
			names = append(names, name)
		}
	}
	e.loadAll(names, clean)
	return nil
}

// loadAll loads topics, several at a time: that waits for the disk.
func (e *Engine) loadAll(names []string, clean bool) {
	ids := make(map[uuid.UUID]string)
	known := e.checkpoint.partitions()
	parallel(len(names), func(i int) {
		t, err := e.loadTopic(names[i], known)
		if err == nil && !clean {
			err = e.fs.SyncDir(topicDir(names[i])) // the names of its partitions
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if err == nil {
			if other, ok := ids[t.id]; ok {
				err = fmt.Errorf("has the id of topic %s: one of the two directories is a copy", other)
			}
			ids[t.id] = t.name
		}
		if err != nil {
			e.broken[names[i]] = err
			e.log.Error("cannot open a topic", "topic", names[i], "err", err)
		} else {
			e.topics[names[i]] = t
		}
	})
}

// loadTopic reads what is kept of a topic, of which others are known to have had so many
// partitions. They are not opened yet.
func (e *Engine) loadTopic(name string, known map[uuid.UUID]int) (*Topic, error) {
	file := topicDir(name) + "/" + topicFile
	doc, err := twin.Load(e.fs, file, topicIdentity(name))
	if err != nil {
		return nil, fmt.Errorf("%w: its partitions are untouched; bring back one of the two files", err)
	}
	if doc.Mended != "" {
		e.log.Warn("metadata was restored from its copy", "topic", name, "what", doc.Mended)
	}
	var body topicBody
	if err := json.Unmarshal(doc.Body, &body); err != nil {
		return nil, fmt.Errorf("%s: %w", e.fs.Path(file), err)
	}
	if body.Name != name {
		return nil, fmt.Errorf("%s is that of topic %q: the directory was renamed", e.fs.Path(file), body.Name)
	}
	if body.Partitions < 1 || body.Partitions > MaxPartitions {
		return nil, fmt.Errorf("%s: %d partitions", e.fs.Path(file), body.Partitions)
	}
	cfg, err := parseConfig(body.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.fs.Path(file), err)
	}
	entries, err := e.fs.ReadDir(topicDir(name))
	if err != nil {
		return nil, err
	}
	if err := e.checkCount(&body, entries, known[body.ID]); err != nil {
		return nil, err
	}
	e.nameStrays(topicDir(name), entries, inTopic(body.Partitions))
	return newTopic(e, body, cfg, doc.Generation), nil
}

// checkCount looks for partitions that the document of a topic does not count, in its
// directory and beside the so many that the checkpoint knows.
func (e *Engine) checkCount(body *topicBody, entries []fs.DirEntry, known int) error {
	if known > body.Partitions {
		return e.olderDocument(body, known-1, e.fs.Path(checkpointName))
	}
	dir := topicDir(body.Name)
	for _, f := range entries {
		n, ok := partitionNumber(f.Name())
		if !ok || !f.IsDir() || n < body.Partitions {
			continue
		}
		// Without a record it is what an attempt to add it has left, or not ours.
		switch used, err := partition.Used(e.fs, dir+"/"+f.Name()); {
		case err != nil:
			return err
		case used:
			return e.olderDocument(body, n, e.fs.Path(dir+"/"+f.Name()))
		}
	}
	return nil
}

// olderDocument is why a topic is not opened with a document that does not count one of
// its partitions: that number never falls. Both of its files are older than the topic,
// and so are its settings.
func (e *Engine) olderDocument(body *topicBody, n int, where string) error {
	return fmt.Errorf("%s and its copy are older than the topic: they count %d partitions, and there is partition %d in %s: bring back a newer one",
		e.fs.Path(topicDir(body.Name)+"/"+topicFile), body.Partitions, n, where)
}

// giveUp has a topic not opened.
func (e *Engine) giveUp(t *Topic, err error) {
	e.mu.Lock()
	delete(e.topics, t.name)
	e.broken[t.name] = err
	e.mu.Unlock()
	e.log.Error("cannot open a topic", "topic", t.name, "err", err)
}
