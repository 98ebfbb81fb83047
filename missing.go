package varve

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/varvelog/varve/group/kafkaoffsets"
)

// inCheckpoint are the logs of which the checkpoint speaks.
func (e *Engine) inCheckpoint() []logKey {
	list := make([]logKey, 0, len(e.checkpoint.Logs))
	for key := range e.checkpoint.Logs {
		list = append(list, key)
	}
	return list
}

// nameMissing names the topics of some logs that are neither there nor deleted: somebody
// has taken their directories away.
func (e *Engine) nameMissing(known []logKey) {
	if e.anyBroken() { // it may be one of them
		return
	}
	there := make(map[uuid.UUID]bool)
	for _, t := range e.allTopics() {
		there[t.id] = true
	}
	for i := range e.deleted {
		there[e.deleted[i].id] = true
	}
	missing := make(map[uuid.UUID]map[int32]bool)
	for _, key := range known {
		if there[key.Topic] {
			continue
		}
		if missing[key.Topic] == nil {
			missing[key.Topic] = make(map[int32]bool)
		}
		missing[key.Topic][key.Partition] = true
	}
	for id, partitions := range missing {
		e.log.Error("topic is missing: its directory is gone since the stop", "id", id, "partitions", len(partitions))
		if len(partitions) == 1 {
			e.missCommits(id)
		}
	}
}

// missCommits has the commits of groups called damaged if a missing topic of one partition
// may be that of the commits: a checkpoint knows topics by their ids alone.
func (e *Engine) missCommits(id uuid.UUID) {
	if _, err := e.internalTopic(kafkaoffsets.Topic); err == ErrNoTopic {
		e.groups.lost = fmt.Errorf("topic %s is not there, and may be the one with id %s, which is missing", kafkaoffsets.Topic, id)
	}
}
