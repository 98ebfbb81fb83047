package varve

import (
	"slices"
	"strconv"

	"github.com/varvelog/varve/partition"
)

// takeUp is what logs are opened by.
type takeUp struct {
	clean  bool // so the engine was left
	logs   map[logKey]keptLog
	replay *replay // nil after a clean stop
	claims map[logKey]claimedLog
}

// claimedLog is what was found out of a log while the mark of a clean stop stood.
type claimedLog struct {
	seen *partition.Claimed
	err  error // why it could not be kept whose its files are
}

// checkpoint is what is kept of a log, nil where there is nothing.
func (u *takeUp) checkpoint(key logKey) *partition.Checkpoint {
	if kept, ok := u.logs[key]; ok {
		return &kept.Checkpoint
	}
	return nil
}

// claimed is what is known of a log by its claim: nil unless the engine was left cleanly.
func (u *takeUp) claimed(key logKey) *partition.Claimed {
	if !u.clean {
		return nil
	}
	if seen := u.claims[key].seen; seen != nil {
		return seen
	}
	return new(partition.Claimed)
}

// claim finds out whose the files of the logs are, see partition.Claim. A log of which
// that cannot be kept is not opened.
func (e *Engine) claim(left partition.Left) map[logKey]claimedLog {
	claims := make(map[logKey]claimedLog)
	if left.Stop == partition.Crashed {
		return claims
	}
	up := takeUp{logs: e.checkpoint.Logs}
	seats := seatsOf(e.allTopics())
	found := make([]claimedLog, len(seats))
	parallel(len(seats), func(i int) {
		t, n := seats[i].topic, seats[i].n
		found[i].seen, found[i].err = partition.Claim(e.env, t.partitionName(n), t.partitionDir(n), up.checkpoint(seats[i].key()), left)
	})
	for i, s := range seats {
		claims[s.key()] = found[i]
	}
	return claims
}

// seat is a partition of a topic, whether it is open or not.
type seat struct {
	topic *Topic
	n     int
}

// key names the log of the partition.
func (s seat) key() logKey { return logKey{Topic: s.topic.id, Partition: int32(s.n)} }

// seatsOf are the partitions of topics, those of a topic one after the other: what is
// done with each in parallel does not depend on which topic has many.
func seatsOf(topics []*Topic) (seats []seat) {
	for _, t := range topics {
		seats = append(seats, t.seats(0, t.body.Partitions)...)
	}
	return seats
}

// seats are the partitions from, …, to-1.
func (t *Topic) seats(from, to int) []seat {
	seats := make([]seat, 0, to-from)
	for n := from; n < to; n++ {
		seats = append(seats, seat{t, n})
	}
	return seats
}

// openPartitions opens partitions, each topic's behind those that are open, several at a
// time.
func openPartitions(seats []seat, up *takeUp) {
	opened := make([]*Partition, len(seats))
	parallel(len(seats), func(i int) { opened[i] = seats[i].topic.openLog(seats[i].n, up) })
	for len(opened) > 0 {
		t, n := opened[0].topic, 1
		for n < len(opened) && opened[n].topic == t {
			n++
		}
		list := slices.Concat(t.parts(), opened[:n])
		t.partitions.Store(&list)
		opened = opened[n:]
	}
}

// openNew opens partitions that were just made: it is as after a clean stop of
// logs without records.
func (t *Topic) openNew(from, to int) {
	logs := make(map[logKey]keptLog, to-from)
	for i := from; i < to; i++ {
		logs[logKey{Topic: t.id, Partition: int32(i)}] = keptLog{}
	}
	openPartitions(t.seats(from, to), &takeUp{clean: true, logs: logs})
}

// openLog opens one partition. One that cannot be opened is kept, and says why at
// every call; the others serve.
func (t *Topic) openLog(i int, up *takeUp) *Partition {
	p := &Partition{topic: t, index: int32(i)}
	if p.log, p.broken = t.tryLog(i, up); p.broken != nil {
		t.engine.log.Error("cannot open a partition", "partition", t.partitionName(i), "err", p.broken)
		return p
	}
	p.opened = p.log.LogEnd()
	p.setHold(t.config().hold)
	return p
}

func (t *Topic) tryLog(i int, up *takeUp) (*partition.Log, error) {
	key := logKey{Topic: t.id, Partition: int32(i)}
	if err := up.claims[key].err; err != nil {
		return nil, err
	}
	replay, err := up.replay.of(key)
	if err != nil {
		return nil, err
	}
	env := t.engine.env
	env.Journal = &logJournal{journal: t.engine.journal, key: key}
	return partition.Open(env, t.partitionName(i), t.partitionDir(i), t.config().log, up.checkpoint(key), replay, up.claimed(key))
}

func (t *Topic) partitionName(i int) string { return t.name + "/" + strconv.Itoa(i) }

func (t *Topic) partitionDir(i int) string { return topicDir(t.name) + "/" + strconv.Itoa(i) }
