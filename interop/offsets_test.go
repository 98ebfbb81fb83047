//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/varvelog/varve/group"
	"github.com/varvelog/varve/group/kafkaoffsets"
	"github.com/varvelog/varve/record"
)

// commitRecord is a commit as a record of __consumer_offsets, and what
// kafka-dump-log is to say of it.
type commitRecord struct {
	topic     string
	partition int32
	id        group.TopicID
	commit    group.Commit
	value     string // in the dump
}

var commitRecords = []commitRecord{
	{"orders", 3, group.TopicID{0x6f, 0x1c, 0x2f, 0x3e, 0x8d, 0x4b, 0x4a, 0x57, 0x9b, 0x1e, 0x0c, 0x5d, 0x7e, 0x2a, 0x9f, 0x10},
		group.Commit{Offset: 4098, LeaderEpoch: 3, Metadata: "m", Time: time.UnixMilli(t0)},
		`{"version":"4","data":{"offset":4098,"leaderEpoch":3,"metadata":"m","commitTimestamp":1700000000000,"topicId":"bxwvPo1LSlebHgxdfiqfEA"}}`},
	{"orders", 4, group.TopicID{},
		group.Commit{Offset: 0, LeaderEpoch: -1, Time: time.UnixMilli(t0)},
		`{"version":"4","data":{"offset":0,"leaderEpoch":-1,"metadata":"","commitTimestamp":1700000000000}}`},
	{"grün", 0, group.TopicID{},
		group.Commit{Offset: 7, LeaderEpoch: 5, Metadata: "🐟", Time: time.UnixMilli(t0), Expires: time.UnixMilli(t0 + 1)},
		`{"version":"1","data":{"offset":7,"metadata":"🐟","commitTimestamp":1700000000000,"expireTimestamp":1700000000001}}`},
}

// TestDumpLogDecodesCommits has kafka-dump-log take the keys and values of commits
// and tombstones apart.
func TestDumpLogDecodesCommits(t *testing.T) {
	var records []record.Record
	var want []string
	add := func(key, value []byte, err error, key1, value1 string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record.Record{Key: key, Value: value, Timestamp: t0})
		want = append(want, "key: "+key1+" payload: "+value1)
	}
	for _, c := range commitRecords {
		key, err := kafkaoffsets.AppendCommitKey(nil, "g1", c.topic, c.partition)
		if err != nil {
			t.Fatal(err)
		}
		value, err := kafkaoffsets.AppendCommitValue(nil, c.id, c.commit)
		dumped := fmt.Sprintf(`{"type":"1","data":{"group":"g1","topic":"%s","partition":%d}}`, c.topic, c.partition)
		add(key, value, err, dumped, c.value)
		add(key, nil, nil, dumped, "<DELETE>")
	}
	key, err := kafkaoffsets.AppendGroupKey(nil, "g1")
	add(key, nil, err, `{"type":"2","data":{"group":"g1"}}`, "<DELETE>")

	dir := t.TempDir()
	s := fillSegment(0, []batchSpec{{records: records}})
	s.write(t, dir)
	checkSegmentDir(t, dir)
	result, err := kafka.run(dir, dumpLogSegments, "--offsets-decoder", "--files", fmt.Sprintf("%020d.log", 0))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(result.stdout) {
		if at := strings.Index(line, "key: "); at >= 0 {
			got = append(got, strings.TrimSpace(line[at:]))
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("kafka-dump-log reads\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), result.stderr)
	}
}
