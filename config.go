package varve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/varvelog/varve/index"
	"github.com/varvelog/varve/partition"
	"github.com/varvelog/varve/record"
	"github.com/varvelog/varve/retention"
)

// Durability says when a publish is acknowledged and, for a topic, when readers
// see it. The zero value is the topic's own, where a publisher may choose.
type Durability = partition.Level

// The levels of durability.
const (
	// OS: the operating system has the record. A power cut can take what it had
	// not written back; the end of the process takes nothing.
	OS = partition.OS
	// Interval is OS, with a sync every flush.ms: a power cut can take that much.
	Interval = partition.Interval
	// Fsync, the default: the record is on stable storage.
	Fsync = partition.Fsync
)

// ParseDurability reads the name of a level: fsync, interval, os.
func ParseDurability(name string) (Durability, error) {
	for _, l := range []Durability{Fsync, Interval, OS} {
		if name == l.String() {
			return l, nil
		}
	}
	return 0, fmt.Errorf("durability is fsync, interval or os, not %q", name)
}

// ConfigEntry is one config of a topic, as Topic.Config lists it.
type ConfigEntry struct {
	Key     string
	Value   string // the one in force
	Default bool   // it was not set for the topic
	Doc     string
}

// topicConfig is the configs of a topic, read.
type topicConfig struct {
	log partition.Config

	codec      record.Codec
	fromClient bool // compression.type=producer: the publisher decides
	beforeMax  int64
	afterMax   int64

	hold holding
}

// configKey is one config that a topic may have. The names and meanings are
// Kafka's, where Kafka has them.
type configKey struct {
	name  string
	def   string
	doc   string
	apply func(c *topicConfig, value string) error
}

// maxBatchLimit is the largest max.message.bytes, and the most that a batch may
// inflate to: it is held in memory.
const maxBatchLimit = 256 << 20

// configKeys are all configs, by name.
var configKeys = []configKey{
	{"cleanup.policy", "delete", "what happens to old records: delete is the only policy", func(c *topicConfig, v string) error {
		return oneOf(v, "delete")
	}},
	{"compression.type", "producer", "codec of stored batches: producer (as the publisher says), uncompressed, gzip, snappy, lz4, zstd", func(c *topicConfig, v string) error {
		if c.fromClient = v == "producer"; c.fromClient {
			return nil
		}
		if err := oneOf(v, "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"); err != nil {
			return err
		}
		var err error
		c.codec, err = record.ParseCodec(v)
		return err
	}},
	{"durability", "fsync", "when a publish is acknowledged: fsync (on stable storage), interval (synced every flush.ms), os (written to the operating system)", func(c *topicConfig, v string) (err error) {
		c.log.Level, err = ParseDurability(v)
		return err
	}},
	{"flush.ms", "1000", "milliseconds between two syncs, with durability=interval", func(c *topicConfig, v string) error {
		n, err := integer(v, 1, math.MaxInt64)
		c.log.FlushInterval = retention.Millis(n)
		return err
	}},
	{"hold.full", "block", "what a publish does when a group of hold.groups is hold.max.bytes behind: block, or refuse", func(c *topicConfig, v string) error {
		c.hold.refuse = v == "refuse"
		return oneOf(v, "block", "refuse")
	}},
	{"hold.groups", "", "groups, a comma between them, for which records are kept until they have passed them; none: for nobody", func(c *topicConfig, v string) (err error) {
		c.hold.groups, err = groupNames(v)
		return err
	}},
	{"hold.max.bytes", "1073741824", "bytes of a partition that a group of hold.groups may be behind before publishers are kept back", func(c *topicConfig, v string) (err error) {
		c.hold.limit, err = integer(v, 1, math.MaxInt64)
		return err
	}},
	{"index.interval.bytes", "4096", "bytes of log between two index entries", func(c *topicConfig, v string) error {
		n, err := integer(v, 1, math.MaxInt32)
		c.log.Index.Interval = int(n)
		return err
	}},
	{"max.message.bytes", "1048588", "largest record batch, in bytes as stored", func(c *topicConfig, v string) error {
		n, err := integer(v, record.BatchOverhead+7, maxBatchLimit)
		c.log.MaxBatchBytes = int(n)
		return err
	}},
	{"message.timestamp.after.max.ms", "9223372036854775807", "a record dated further ahead than this is refused", func(c *topicConfig, v string) (err error) {
		c.afterMax, err = integer(v, 0, math.MaxInt64)
		return err
	}},
	{"message.timestamp.before.max.ms", "9223372036854775807", "a record dated further back than this is refused", func(c *topicConfig, v string) (err error) {
		c.beforeMax, err = integer(v, 0, math.MaxInt64)
		return err
	}},
	{"message.timestamp.type", "CreateTime", "CreateTime (the publisher's) or LogAppendTime (the time of the append)", func(c *topicConfig, v string) error {
		c.log.AppendTime = v == "LogAppendTime"
		return oneOf(v, "CreateTime", "LogAppendTime")
	}},
	{"retention.bytes", "-1", "size of a partition above which its oldest segments go; -1: no limit", func(c *topicConfig, v string) (err error) {
		c.log.RetentionBytes, err = integer(v, -1, math.MaxInt64)
		return err
	}},
	{"retention.ms", "604800000", "age above which segments go; -1: never", func(c *topicConfig, v string) error {
		n, err := integer(v, -1, math.MaxInt64)
		c.log.RetentionAge = retention.Millis(n)
		if n < 0 {
			c.log.RetentionAge = -1
		}
		return err
	}},
	{"segment.bytes", "1073741824", "size at which a segment is rolled; Kafka's minimum is 1048576, varve's 64", func(c *topicConfig, v string) (err error) {
		c.log.SegmentBytes, err = integer(v, 64, math.MaxInt32)
		return err
	}},
	{"segment.index.bytes", "10485760", "size of an index at which its segment is rolled", func(c *topicConfig, v string) error {
		n, err := integer(v, 24, math.MaxInt32)
		c.log.Index.MaxBytes = int(n)
		return err
	}},
	{"segment.ms", "604800000", "age at which a segment is rolled, by the span of its timestamps or the time since its first append", func(c *topicConfig, v string) error {
		n, err := integer(v, 1, math.MaxInt64)
		c.log.SegmentAge = retention.Millis(n)
		return err
	}},
}

func integer(v string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if strings.HasPrefix(v, "+") || err != nil && !errors.Is(err, strconv.ErrRange) {
		return low, errors.New("is not a whole number")
	}
	if err != nil || n < low || n > high {
		return low, fmt.Errorf("is out of range: must be from %d to %d", low, high)
	}
	return n, nil
}

// groupNames reads group ids. One that has a comma cannot be among them.
func groupNames(v string) ([]string, error) {
	if v == "" {
		return nil, nil
	}
	names := strings.Split(v, ",")
	for i, name := range names {
		if err := checkGroupID(name); err != nil {
			return nil, err
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("names group %q twice", name)
		}
	}
	return names, nil
}

func oneOf(v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
}

// parseConfig reads what was set for a topic over the defaults.
func parseConfig(set map[string]string) (topicConfig, error) {
	c := topicConfig{log: partition.Config{Index: index.Options{}}}
	unknown := maps.Clone(set)
	for _, k := range configKeys {
		v, ok := set[k.name]
		if !ok {
			v = k.def
		}
		delete(unknown, k.name)
		if err := k.apply(&c, v); err != nil {
			return c, &ConfigError{Key: k.name, Value: v, Reason: err.Error()}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(unknown)) {
		return c, &ConfigError{Key: key, Value: unknown[key], Reason: "there is no such config; the known ones are " + knownConfigs()}
	}
	return c, nil
}

func knownConfigs() string {
	var names []string
	for _, k := range configKeys {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// listConfig lists all configs with the values in force.
func listConfig(set map[string]string) []ConfigEntry {
	out := make([]ConfigEntry, 0, len(configKeys))
	for _, k := range configKeys {
		e := ConfigEntry{Key: k.name, Value: k.def, Default: true, Doc: k.doc}
		if v, ok := set[k.name]; ok {
			e.Value, e.Default = v, false
		}
		out = append(out, e)
	}
	return out
}

// boundsTime says whether checkTime may refuse anything.
func (c *topicConfig) boundsTime() bool {
	return !c.log.AppendTime && (c.beforeMax < math.MaxInt64 || c.afterMax < math.MaxInt64)
}

// checkTimes says which record may not carry its timestamp, and why, or "".
func (c *topicConfig) checkTimes(recs []Record, now int64) (i int, why string) {
	if !c.boundsTime() {
		return 0, ""
	}
	for i := range recs {
		if why := c.checkTime(timestamp(&recs[i], now), now); why != "" {
			return i, why
		}
	}
	return 0, ""
}

// checkTime says why a record may not carry a timestamp, or "".
func (c *topicConfig) checkTime(ts, now int64) string {
	if c.log.AppendTime || ts == record.NoTimestamp {
		return ""
	}
	if ts < now && c.beforeMax < math.MaxInt64 && uint64(now)-uint64(ts) > uint64(c.beforeMax) {
		return fmt.Sprintf("timestamp %d is further back than message.timestamp.before.max.ms = %d", ts, c.beforeMax)
	}
	if ts > now && c.afterMax < math.MaxInt64 && uint64(ts)-uint64(now) > uint64(c.afterMax) {
		return fmt.Sprintf("timestamp %d is further ahead than message.timestamp.after.max.ms = %d", ts, c.afterMax)
	}
	return ""
}
