package varve_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// The names of topics are Kafka's, to the byte; a name that is none makes nothing.
func TestTopicNames(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("n", 249)
	for _, name := range []string{"a", "0", "-", "_", "...", "..a", ".hidden", "a.b-c_d", "B", long, "LOCK", "topics", "clean", "__x"} {
		if topic, err := r.engine.CreateTopic(name, varve.TopicConfig{}); err != nil || topic.Name() != name {
			t.Errorf("%q: %v", name, err)
			continue
		}
		r.publish(r.part(name, 0), text("in %s", name))
	}
	names := func() []string { // without those of the journal, which is at work meanwhile
		return slices.DeleteFunc(r.disk.Files(), func(name string) bool { return strings.HasPrefix(name, "wal/") })
	}
	before := names()
	for _, name := range []string{
		"", ".", "..", long + "n", strings.Repeat("n", 100_000), "a b", "a/b", "/a", "../a", "a\\b", "a\x00", "a\n", "ä", "\xff", "a:b", "a*", "~new-1",
		"~deleted-1", "a,b", " a", "a ", "日本", "__consumer_offsets", "__transaction_state",
	} {
		var wrong *varve.NameError
		if _, err := r.engine.CreateTopic(name, varve.TopicConfig{}); !errors.As(err, &wrong) || len(err.Error()) > 400 {
			t.Errorf("%.40q: %v", name, err)
		}
		if _, err := r.engine.EnsureTopic(name, varve.TopicConfig{}); !errors.As(err, &wrong) {
			t.Errorf("%.40q: ensure: %v", name, err)
		}
		if _, err := r.engine.Topic(name); !errors.Is(err, varve.ErrNoTopic) {
			t.Errorf("%.40q: found: %v", name, err)
		}
		if err := r.engine.DeleteTopic(name); !errors.Is(err, varve.ErrNoTopic) {
			t.Errorf("%.40q: delete: %v", name, err)
		}
	}
	if !slices.Equal(before, names()) {
		t.Error("refused names have left something")
	}
}

// Names that differ only by '.' and '_' collide in Kafka's metrics, names that
// differ only by case collide where file systems fold it: the second is refused,
// until the first is gone (KAFKA-14337), also after a restart.
func TestTopicNamesThatCollide(t *testing.T) {
	r := newRig(t)
	for _, pair := range [][2]string{{"a.b", "a_b"}, {"x_y.z", "x.y_z"}, {"Orders", "orders"}, {"A.B.C", "a_b_c"}} {
		for _, p := range [][2]string{pair, {pair[1], pair[0]}} {
			if _, err := r.engine.CreateTopic(p[0], varve.TopicConfig{}); err != nil {
				t.Fatal(err)
			}
			refused := func(when string) {
				t.Helper()
				var wrong *varve.NameError
				if _, err := r.engine.CreateTopic(p[1], varve.TopicConfig{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), p[0]) {
					t.Errorf("%s: %q beside %q: %v", when, p[1], p[0], err)
				}
			}
			refused("live")
			r.reopen()
			refused("after a restart")
			if _, err := r.engine.CreateTopic(p[0], varve.TopicConfig{}); !errors.Is(err, varve.ErrTopicExists) {
				t.Errorf("%q twice: %v", p[0], err)
			}
			if err := r.engine.DeleteTopic(p[0]); err != nil {
				t.Fatal(err)
			}
			if _, err := r.engine.CreateTopic(p[1], varve.TopicConfig{}); err != nil {
				t.Errorf("%q after %q is gone: %v", p[1], p[0], err)
			}
			if err := r.engine.DeleteTopic(p[1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := r.engine.CreateTopic("a-b", varve.TopicConfig{}); err != nil {
		t.Error(err)
	}
	if _, err := r.engine.CreateTopic("a.b", varve.TopicConfig{}); err != nil {
		t.Errorf("a dash is no dot: %v", err)
	}
}

// A topic that cannot be opened still owns its name, and those that collide with it.
func TestBrokenTopicKeepsItsName(t *testing.T) {
	r := newRig(t, func(r *rig) { r.loud = true })
	r.publish(r.part(r.topic("a.b", 1).Name(), 0), text("kept"))
	r.topic("other", 1)
	r.close()
	whole := r.disk.Clone()
	for _, name := range []string{"topics/a.b/topic.json", "topics/a.b/topic.json.copy"} {
		if err := r.disk.Truncate(name, 10); err != nil {
			t.Fatal(err)
		}
	}
	r.open()
	if _, err := r.engine.Topic("a.b"); err == nil || errors.Is(err, varve.ErrNoTopic) {
		t.Errorf("a topic whose metadata is gone: %v", err)
	}
	for _, name := range []string{"a.b", "a_b", "A.B"} {
		if _, err := r.engine.CreateTopic(name, varve.TopicConfig{}); err == nil {
			t.Errorf("%s was made beside what cannot be opened", name)
		}
	}
	r.publish(r.part("other", 0), text("serves"))
	r.close()
	r.disk = whole
	r.forget("other")
	r.open()
}

// Partition counts and settings that cannot be: a ConfigError that names the key,
// and no trace of a topic (KAFKA-13396, KAFKA-9695). Each is judged alone.
func TestTopicSettingsThatCannotBe(t *testing.T) {
	r := newRig(t)
	before := snapshotOf(t, r.disk)
	for _, n := range []int{-1, -2, math.MinInt32, 100_001, math.MaxInt32} {
		var wrong *varve.ConfigError
		if _, err := r.engine.CreateTopic("t", varve.TopicConfig{Partitions: n}); !errors.As(err, &wrong) || wrong.Key != "partitions" {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
	bad := map[string]string{
		"cleanup.policy": "compactt", "retention.ms": "-5", "segment.bytes": "1", "max.message.bytes": "abc", "compression.type": "SNAPPY",
		"durability": "sync", "message.timestamp.type": "createtime", "no.such.key": "1", "": "", "Retention.ms": "1", "flush.ms": "0",
		"segment.ms": "0", "index.interval.bytes": "-1", "retention.bytes": "-2", "segment.index.bytes": "0",
	}
	for key, value := range bad {
		var wrong *varve.ConfigError
		_, err := r.engine.CreateTopic("t", varve.TopicConfig{Config: map[string]string{key: value}})
		if !errors.As(err, &wrong) || wrong.Key != key || wrong.Value != value || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	if !maps.Equal(before, snapshotOf(t, r.disk)) || len(r.engine.Topics()) > 0 {
		t.Error("refused settings have left something")
	}
	if topic := r.topic("t", 0); topic.Partitions() != 1 {
		t.Errorf("0 partitions made %d, want the default, 1", topic.Partitions())
	}

	// Altering is all or nothing, and changes nothing when it is refused.
	topic := r.topic("u", 1, "retention.ms=5000")
	for key, value := range bad {
		var wrong *varve.ConfigError
		err := topic.Alter(map[string]string{key: value, "retention.bytes": "77", "compression.type": "gzip"}, "retention.ms")
		if key == "retention.bytes" || key == "compression.type" {
			err = topic.Alter(map[string]string{key: value, "retention.ms": "9"})
		}
		if !errors.As(err, &wrong) || wrong.Key != key {
			t.Errorf("alter to %s=%s: %v", key, value, err)
		}
	}
	var wrong *varve.ConfigError
	if err := topic.Alter(nil, "no.such.key"); !errors.As(err, &wrong) || wrong.Key != "no.such.key" {
		t.Errorf("unset what does not exist: %v", err)
	}
	for range 2 {
		for _, c := range r.topic("u", 1).Config() {
			if c.Default == (c.Key == "retention.ms") {
				t.Errorf("after refused changes: %+v", c)
			}
		}
		r.reopen()
	}
}

// A value that is set is set, also where it equals the default; it goes back by
// unsetting. All of it survives a restart and a kill.
func TestSettingsAreListedAsTheyWereSet(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1, "cleanup.policy=delete", "retention.ms=604800000")
	check := func(when string, set ...string) {
		t.Helper()
		topic, err := r.engine.Topic("t")
		if err != nil {
			t.Fatal(err)
		}
		list := topic.Config()
		if !slices.IsSortedFunc(list, func(a, b varve.ConfigEntry) int { return strings.Compare(a.Key, b.Key) }) || len(list) != 17 {
			t.Errorf("%s: %d settings, in order %t", when, len(list), false)
		}
		for _, c := range list {
			want := slices.ContainsFunc(set, func(s string) bool { return s == c.Key+"="+c.Value })
			if c.Default == want || c.Doc == "" {
				t.Errorf("%s: %+v, set were %v", when, c, set)
			}
		}
	}
	check("made", "cleanup.policy=delete", "retention.ms=604800000")
	topic := r.topic("t", 1)
	if err := topic.Alter(map[string]string{"segment.ms": "5"}, "cleanup.policy"); err != nil {
		t.Fatal(err)
	}
	check("altered", "retention.ms=604800000", "segment.ms=5")
	r.reopen()
	check("after a restart", "retention.ms=604800000", "segment.ms=5")
	if err := r.topic("t", 1).Alter(map[string]string{"segment.ms": "6"}, "segment.ms", "retention.ms", "retention.ms"); err != nil {
		t.Fatal(err)
	}
	r.kill()
	check("after a kill", "segment.ms=6")
	r.cut(vfs.CrashOptions{Seed: 3})
	check("after a power cut", "segment.ms=6")

	// Everything that is listed can be written back.
	all := map[string]string{}
	for _, c := range r.topic("t", 1).Config() {
		all[c.Key] = c.Value
	}
	if err := r.topic("t", 1).Alter(all); err != nil {
		t.Errorf("what Config lists cannot be set: %v", err)
	}
}

// The caller's maps are copied: changing them later changes no topic.
func TestSettingsAreCopied(t *testing.T) {
	r := newRig(t)
	m := map[string]string{"retention.ms": "5000"}
	topic, err := r.engine.CreateTopic("t", varve.TopicConfig{Config: m})
	if err != nil {
		t.Fatal(err)
	}
	m["retention.ms"] = "garbage"
	set := map[string]string{"segment.ms": "7"}
	if err := topic.Alter(set); err != nil {
		t.Fatal(err)
	}
	set["segment.ms"] = "garbage"
	if err := topic.Alter(map[string]string{"flush.ms": "9"}); err != nil {
		t.Errorf("%v", err)
	}
	r.reopen()
	for _, c := range r.topic("t", 1).Config() {
		if c.Value == "garbage" {
			t.Errorf("%+v", c)
		}
	}
}

// The number of partitions only rises; new ones take records at once, old ones
// keep theirs (redpanda-data/redpanda#4316).
func TestPartitionsAreOnlyAdded(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 2)
	r.publish(r.part("t", 0), text("zero"))
	r.publish(r.part("t", 1), text("one"))
	for _, n := range []int{2, 1, 0, -1, math.MinInt32, 100_001, math.MaxInt32} {
		var wrong *varve.ConfigError
		if err := topic.AddPartitions(n); !errors.As(err, &wrong) || topic.Partitions() != 2 {
			t.Errorf("to %d: %v, there are %d", n, err, topic.Partitions())
		}
	}
	if err := topic.AddPartitions(5); err != nil || topic.Partitions() != 5 {
		t.Fatalf("to 5: %v, there are %d", err, topic.Partitions())
	}
	for i := range 5 {
		p := r.part("t", i)
		if int(p.Index()) != i || p.Topic() != topic {
			t.Errorf("partition %d says that it is %d of %s", i, p.Index(), p.Topic().Name())
		}
		if off := r.publish(p, text("more")); off != varve.Offset(max(0, 2-i)-max(0, 1-i)) {
			t.Errorf("partition %d: offset %d", i, off)
		}
	}
	for _, i := range []int{-1, 5, 6, math.MaxInt32, math.MinInt32} {
		if _, err := topic.Partition(i); !errors.Is(err, varve.ErrNoPartition) {
			t.Errorf("partition %d: %v", i, err)
		}
	}
	for _, step := range []func(){r.kill, r.reopen, func() { r.cut(vfs.CrashOptions{}) }} {
		step()
		if n := r.topic("t", 1).Partitions(); n != 5 {
			t.Errorf("after a restart there are %d partitions", n)
		}
	}
	// A stop and a start between: files of an attempt that was cut short are not
	// in the way, and not taken for records.
	if err := r.disk.WriteFile("topics/t/5/partition.json", []byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := r.topic("t", 1).AddPartitions(7); err != nil {
		t.Fatal(err)
	}
	if p := r.part("t", 5); p.End() != 0 {
		t.Errorf("a new partition holds [0, %d)", p.End())
	}
}

// Publishers and readers by key go on while partitions are added.
func TestPartitionsAreAddedBesidePublishers(t *testing.T) {
	r := newRig(t)
	topic := r.topic("t", 1, "durability=os")
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 200 {
				rec := varve.Record{Key: fmt.Appendf(nil, "%d", i%13), Value: fmt.Appendf(nil, "%d.%d", g, i)}
				pl, err := topic.Publish(context.Background(), rec)
				if err != nil {
					t.Error(err)
					return
				}
				r.note(r.part("t", int(pl.Partition)), pl.Offset, rec)
			}
		})
	}
	for n := 2; n <= 8; n++ {
		if err := topic.AddPartitions(n); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// A topic that was made again under its name has another id and none of the old
// records, now and after restarts; the old one is gone for who still holds it
// (KAFKA-12257, KIP-516).
func TestRecreatedTopicIsAnother(t *testing.T) {
	r := newRig(t)
	ids := map[uuid.UUID]bool{}
	for round := range 6 {
		topic := r.topic("t", 1+round%3, fmt.Sprintf("retention.ms=%d", 1_000_000+round))
		if ids[topic.ID()] || topic.ID() == uuid.Nil {
			t.Fatalf("round %d: the id %v again", round, topic.ID())
		}
		ids[topic.ID()] = true
		for i := range topic.Partitions() {
			if p := r.part("t", i); p.End() != 0 || p.Start() != 0 {
				t.Errorf("round %d: a new topic holds [%d, %d)", round, p.Start(), p.End())
			}
			r.publish(r.part("t", i), text("round %d", round))
		}
		id := topic.ID()
		switch round % 3 {
		case 1:
			r.reopen()
		case 2:
			r.kill()
		}
		now, err := r.engine.Topic("t")
		if err != nil || now.ID() != id {
			t.Fatalf("round %d: the id was %v: %v", round, id, err)
		}
		if err := r.engine.DeleteTopic("t"); err != nil {
			t.Fatal(err)
		}
		r.forget("t")
		if err := r.engine.DeleteTopic("t"); !errors.Is(err, varve.ErrNoTopic) {
			t.Errorf("deleted twice: %v", err)
		}
		if round%2 == 0 {
			r.cut(vfs.CrashOptions{Seed: uint64(round)})
			if _, err := r.engine.Topic("t"); !errors.Is(err, varve.ErrNoTopic) {
				t.Errorf("round %d: a deleted topic came back: %v", round, err)
			}
		}
	}
}

// A topic that was acknowledged is there whole after a kill and after a power cut
// at once, with its id, its partitions and its settings, and so is a record that
// was acknowledged in it (KAFKA-3334).
func TestCreatedTopicSurvivesAtOnce(t *testing.T) {
	for i := range 60 {
		r := newRig(t)
		topic := r.topic("t", 3, "retention.ms=12345678")
		id := topic.ID()
		if i%2 == 0 {
			r.publish(r.part("t", i%3), text("at once"))
		}
		switch i % 4 {
		case 0, 1:
			r.kill()
		default:
			r.cut(vfs.CrashOptions{Seed: uint64(i), Unsynced: vfs.Unsynced(i / 4 % 5), Names: vfs.Names(i / 20 % 4)})
		}
		topic, err := r.engine.Topic("t")
		if err != nil || topic.ID() != id || topic.Partitions() != 3 {
			t.Fatalf("round %d: %v", i, err)
		}
		for _, c := range topic.Config() {
			if c.Default == (c.Key == "retention.ms") || (c.Key == "retention.ms" && c.Value != "12345678") {
				t.Errorf("round %d: %+v", i, c)
			}
		}
	}
}

// Many who want one topic get the same one, made once.
func TestEnsureTopicMakesOne(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[*varve.Topic]int{}
	for range 16 {
		wg.Go(func() {
			topic, err := r.engine.EnsureTopic("t", varve.TopicConfig{Partitions: 2})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			seen[topic]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("%d topics of one name", len(seen))
	}
	if again := r.topic("t", 9, "retention.ms=1"); again.Partitions() != 2 {
		t.Errorf("a topic that was there was changed: %d partitions", again.Partitions())
	}
	names := []string{}
	for _, n := range []string{"b", "a", "c"} {
		r.topic(n, 1)
	}
	for _, topic := range r.engine.Topics() {
		names = append(names, topic.Name())
	}
	if !slices.Equal(names, []string{"a", "b", "c", "t"}) {
		t.Errorf("topics %v", names)
	}
}

// Settings that are changed are in force at once: the limit of a batch, the codec,
// the size of segments, the age of records, the level of durability.
func TestAlteredSettingsAreInForce(t *testing.T) {
	r := newRig(t, background)
	p := r.one("retention.ms=-1", "segment.bytes=100000")
	alter := func(settings ...string) {
		t.Helper()
		if err := p.Topic().Alter(config(settings...)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		r.publish(p, varve.Record{Value: noise(i, 500)})
	}
	alter("max.message.bytes=200")
	var large *varve.TooLargeError
	if _, err := p.Publish(context.Background(), varve.Record{Value: noise(1, 500)}); !errors.As(err, &large) || large.Limit != 200 {
		t.Errorf("above the new limit: %v", err)
	}
	if n := len(collect(t, p.Records(context.Background(), varve.Earliest()))); n != 10 {
		t.Errorf("%d older, larger records are readable, want 10", n)
	}
	alter("max.message.bytes=1000000", "segment.bytes=1000")
	for i := range 10 {
		r.publish(p, varve.Record{Value: noise(i, 500)})
	}
	if n := len(p.Stats().Segments); n != 11 {
		t.Errorf("%d segments, want 11", n)
	}
	alter("segment.ms=1000", "segment.bytes=100000")
	r.advance(time.Minute)
	r.publish(p, text("rolls by age"))
	if n := len(p.Stats().Segments); n != 12 {
		t.Errorf("%d segments, want 12", n)
	}
	alter("retention.bytes=600")
	r.retain()
	if got := p.Start(); got < 15 {
		t.Errorf("the start is %d with retention.bytes=600", got)
	}
	alter("durability=os")
	r.publish(p, text("os"))
	alter("durability=fsync")
	off := r.publish(p, text("fsync"))
	if p.DurableEnd() != off+1 {
		t.Errorf("durable up to %d after an acknowledgement of %d at level fsync", p.DurableEnd(), off)
	}
}

// A weaker level is in force once it is stored, and not before: nobody sees what a
// power cut, and the old level with it, could take back.
func TestWeakerLevelWaitsForItsSave(t *testing.T) {
	var p *varve.Partition
	gate := make(chan struct{})
	var armed atomic.Bool
	var seen []varve.Offset
	r := newRig(t, background, func(r *rig) {
		r.rule = func(op vfs.Op) vfs.Fault {
			switch {
			case !armed.Load():
			case op.Kind == vfs.OpSync && !strings.HasPrefix(path.Base(op.Name), "topic.json"):
				return vfs.Fault{Block: gate}
			case op.Kind == vfs.OpWrite && strings.HasPrefix(path.Base(op.Name), "topic.json"):
				seen = append(seen, p.End())
			}
			return vfs.Fault{}
		}
	})
	p = r.one("retention.ms=-1")
	armed.Store(true)
	rec := text("not durable")
	place, err := p.Topic().Publisher(varve.PublisherOptions{Ack: varve.OS}).Publish(context.Background(), rec)
	if err != nil {
		t.Fatal(err)
	}
	r.note(p, place.Offset, rec)
	if err := p.Topic().Alter(config("durability=os")); err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || slices.Max(seen) != 0 {
		t.Errorf("the ends while the level was stored: %v", seen)
	}
	if p.End() != 1 {
		t.Errorf("the end is %d", p.End())
	}
	armed.Store(false)
	close(gate)
}
