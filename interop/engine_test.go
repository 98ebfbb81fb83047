//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// engineConfigs are topics whose partitions Kafka has to be content with: every
// codec, every way of rolling, both kinds of timestamps.
var engineConfigs = map[string]map[string]string{
	"plain":       {"segment.bytes": "65536"},
	"gzip":        {"segment.bytes": "12000", "compression.type": "gzip"},
	"snappy":      {"segment.bytes": "30000", "compression.type": "snappy"},
	"lz4":         {"segment.bytes": "30000", "compression.type": "lz4"},
	"zstd":        {"segment.bytes": "12000", "compression.type": "zstd"},
	"append-time": {"segment.bytes": "65536", "message.timestamp.type": "LogAppendTime"},
	"index-full":  {"segment.index.bytes": "160"},
	"aged":        {"segment.ms": "3600000"},
}

// What the engine writes, through its public API, is what Kafka's own tools and
// Kafka's own log call a sound partition: rolled, trimmed, stopped cleanly,
// opened again and gone on with.
func TestKafkaReadsTheEngine(t *testing.T) {
	for name, config := range engineConfigs {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config["durability"] = "os"
			var published int64
			for run := range 2 {
				published += publishSome(t, dir, config, uint64(run))
			}
			part := filepath.Join(dir, "topics", "checked", "0")
			var records int64
			reports := checkSegmentDir(t, part)
			for _, r := range reports {
				records += int64(r.records)
			}
			if records != published {
				t.Errorf("kafka-dump-log counts %d records, %d were published", records, published)
			}
			if len(reports) < 3 {
				t.Errorf("%d segments: the topic was meant to roll", len(reports))
			}
			checkKafkaOpens(t, part, 4096)
		})
	}
}

// publishSome opens the engine, publishes about a thousand records in batches of
// any size, and closes it.
func publishSome(t *testing.T, dir string, config map[string]string, seed uint64) int64 {
	t.Helper()
	e, err := varve.Open(dir, varve.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	topic, err := e.EnsureTopic("checked", varve.TopicConfig{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	p, err := topic.Partition(0)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	start := int64(p.End())
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for n := 0; n < 1000; {
		recs := make([]varve.Record, 1+rnd.IntN(20))
		for i := range recs {
			recs[i] = varve.Record{
				Timestamp: day + start*1000 + int64(n)*20_000 + rnd.Int64N(60_000),
				Key:       fmt.Appendf(nil, "key-%d", rnd.IntN(50)),
				Value:     bytes.Repeat([]byte(fmt.Sprintf("%d ", n)), rnd.IntN(200)),
			}
			if rnd.IntN(10) == 0 {
				recs[i].Key, recs[i].Headers = nil, []varve.Header{{Key: "h", Value: nil}, {Key: "h", Value: []byte("2")}}
			}
		}
		if _, err := p.Publish(context.Background(), recs...); err != nil {
			t.Fatal(err)
		}
		n += len(recs)
	}
	return int64(p.End()) - start
}
