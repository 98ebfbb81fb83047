package varve

import (
	"slices"

	"github.com/varvelog/varve/group/kafkaoffsets"
)

// internalTopics are the topics that the engine keeps for itself. They lie in the data
// directory as any other, are made when they are first needed, and cannot be reached by
// name: not listed, not published to, not deleted.
var internalTopics = []string{kafkaoffsets.Topic}

func isInternal(name string) bool { return slices.Contains(internalTopics, name) }

// internal says that the topic is the engine's own.
func (t *Topic) internal() bool { return isInternal(t.name) }

// internalTopic returns one of the engine's own topics, ErrNoTopic before it was made.
func (e *Engine) internalTopic(name string) (*Topic, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case e.closed:
		return nil, ErrClosed
	case e.broken[name] != nil:
		return nil, e.broken[name]
	case e.topics[name] == nil:
		return nil, ErrNoTopic
	}
	return e.topics[name], nil
}

// ensureInternal returns one of the engine's own topics, which is made where there is
// none.
func (e *Engine) ensureInternal(name string, c TopicConfig) (*Topic, error) {
	e.catalogMu.Lock()
	defer e.catalogMu.Unlock()
	if t, err := e.internalTopic(name); err != ErrNoTopic {
		return t, err
	}
	return e.createTopic(name, c)
}
