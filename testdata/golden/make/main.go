// Command make writes a golden data directory, and beside it the records that are
// in it as they were published:
//
//	go run ./testdata/golden/make testdata/golden/v3
//
// It has the directory twice: "data" was stopped cleanly; "crashed" is what a power
// cut leaves that takes everything from the newest log files, so that the journal
// alone has it.
//
// A directory is made once for each version of the format and never again: the
// test that opens them stands for everybody who has such a directory.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/record"
)

// golden is a record as the test reads it.
type golden struct {
	Partition int32       `json:"partition"`
	Offset    int64       `json:"offset"`
	Timestamp int64       `json:"timestamp"`
	Key       []byte      `json:"key"`
	Value     []byte      `json:"value"`
	Headers   [][2]string `json:"headers,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: make DIR")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func write(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s is there: a golden directory is never written again", dir)
	}
	data := filepath.Join(dir, "data")
	e, err := varve.Open(data, varve.Options{JournalBytes: 8 << 20})
	if err != nil {
		return err
	}
	published := map[string][]golden{}
	for _, codec := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		topic, err := e.CreateTopic("golden-"+codec, varve.TopicConfig{Partitions: 2, Config: map[string]string{
			"compression.type": codec, "segment.bytes": "1500", "retention.ms": "-1",
		}})
		if err != nil {
			return err
		}
		if published[topic.Name()], err = fill(topic); err != nil {
			return err
		}
	}
	if err := crash(data, filepath.Join(dir, "crashed")); err != nil {
		return err
	}
	if err := e.Close(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(published, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "records.json"), append(text, '\n'), 0o600)
}

// crash copies a directory that is open, and empties the newest log file of each
// partition in the copy.
func crash(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	partitions, err := filepath.Glob(filepath.Join(to, "topics", "*", "*", "partition.json"))
	if err != nil {
		return err
	}
	for _, p := range partitions {
		logs, err := filepath.Glob(filepath.Join(filepath.Dir(p), "*.log"))
		if err != nil {
			return err
		}
		if n := len(logs); n > 0 {
			if err := os.Truncate(logs[n-1], 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// trimmed is the log start of the second partition of each topic.
const trimmed = 20

// fill publishes records of every shape, enough of them to roll, and trims one of
// the two partitions.
func fill(topic *varve.Topic) ([]golden, error) {
	var out []golden
	for i := range topic.Partitions() {
		p, err := topic.Partition(i)
		if err != nil {
			return nil, err
		}
		next := int64(0)
		for n := range 30 {
			recs := []varve.Record{
				{Timestamp: 1_700_000_000_000 + int64(n), Key: fmt.Appendf(nil, "key-%d", n), Value: fmt.Appendf(nil, "value %d of partition %d, long enough to roll", n, i)},
				{Timestamp: record.NoTimestamp, Value: []byte{}},
				{Timestamp: 1, Key: []byte{}, Headers: []varve.Header{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}}},
			}[:1+n%3]
			if _, err := p.Publish(context.Background(), recs...); err != nil {
				return nil, err
			}
			for _, r := range recs {
				g := golden{Partition: int32(i), Offset: next, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					g.Headers = append(g.Headers, [2]string{h.Key, string(h.Value)})
				}
				if next++; i == 0 || g.Offset >= trimmed {
					out = append(out, g)
				}
			}
		}
		if i == 1 {
			if _, err := p.Trim(trimmed); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
