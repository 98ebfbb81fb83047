package metrics

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/varvelog/varve"
)

// Options bound how much a scrape reports. The zero value is right for most; math.MaxInt is
// no bound.
type Options struct {
	// MaxPartitions is up to how many partitions the engine may have for families with the
	// label partition to be reported, and up to how many places all groups together may
	// have for those with the labels group and partition. Above, these are left out. 0:
	// 1,000; negative: they always are.
	MaxPartitions int
	// MaxTopics is up to how many topics are told apart. Above, the label topic is empty
	// and all topics are one: of counters and sizes that is the sum. 0: 1,000; negative:
	// it always is.
	MaxTopics int
	// MaxGroups is up to how many groups are told apart. Above, the label group is empty,
	// figures are sums, distances the least, and counters are left out. 0: 1,000;
	// negative: it always is.
	MaxGroups int
}

const defaultMax = 1000

// limit is the number that an option stands for.
func limit(n int) int {
	if n == 0 {
		return defaultMax
	}
	return max(n, -1)
}

type collector struct {
	engine             *varve.Engine
	partitions, topics int
	groups             int
	failures           atomic.Int64
}

// NewCollector makes a collector of what an engine counts. It is to be unregistered when
// the engine is not to be watched any more; until then it keeps the engine in memory.
func NewCollector(engine *varve.Engine, o Options) prometheus.Collector {
	return &collector{
		engine: engine, partitions: limit(o.MaxPartitions), topics: limit(o.MaxTopics), groups: limit(o.MaxGroups),
	}
}

// Families lists all that is reported, in the order of the documentation.
func Families() []Family {
	return slices.Concat(up.families(), []Family{roundDuration.Family}, ofEngine.families(),
		ofTopic.families(), ofPartition.families(), ofGroup.families(), ofPlace.families())
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	up.describe(ch)
	ch <- roundDuration.desc
	ofEngine.describe(ch)
	ofTopic.describe(ch)
	ofPartition.describe(ch)
	ofGroup.describe(ch)
	ofPlace.describe(ch)
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	e := engineFigures{EngineStats: c.engine.Stats()}
	up.send(ch, &e)
	if e.Closed {
		return
	}
	c.collectGroups(ch)
	c.collectTopics(ch, &e)
	e.disk, e.scrub, e.failures = c.engine.Disk(), c.engine.Scrub(), c.failures.Load()
	ofEngine.send(ch, &e)
	roundDuration.send(ch, &e.Journal.Rounds, "journal")
	roundDuration.send(ch, &e.Journal.Files, "files")
}

func (c *collector) collectTopics(ch chan<- prometheus.Metric, e *engineFigures) {
	n := 0
	for _, t := range e.Topics {
		n += t.Partitions()
	}
	each := n <= c.partitions
	apart := len(e.Topics) <= c.topics
	var all topicFigures
	for _, t := range e.Topics {
		f := &all
		if apart {
			f = new(topicFigures)
		}
		for i := range t.Partitions() {
			p, err := t.Partition(i)
			if err != nil { // partitions are only added
				continue
			}
			if s, opened := f.count(p); opened && each {
				shown := s // s itself is not allocated
				ofPartition.send(ch, &shown, t.Name(), strconv.Itoa(i))
			}
		}
		if apart {
			ofTopic.send(ch, f, t.Name())
		}
	}
	if !apart {
		all.Counters.Add(e.Deleted)
		ofTopic.send(ch, &all, "")
	}
}

func (c *collector) collectGroups(ch chan<- prometheus.Metric) {
	groups, err := c.engine.GroupStats()
	if err != nil {
		c.failures.Add(1)
		return
	}
	apart, places := len(groups) <= c.groups, int64(0)
	all := newGroupFigures(true)
	for i := range groups {
		f := all
		if apart {
			f = newGroupFigures(false)
		}
		before := f.places
		f.count(&groups[i])
		places += f.places - before
		if apart {
			ofGroup.send(ch, f, groups[i].ID)
		}
	}
	if !apart {
		ofGroup.send(ch, all, "")
	}
	if !apart || places > int64(c.partitions) {
		return
	}
	for i := range groups {
		for p := range groups[i].Places() {
			f := placeFiguresOf(&p)
			ofPlace.send(ch, &f, groups[i].ID, p.Topic, strconv.Itoa(int(p.Partition)))
		}
	}
}
