package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/metrics"
)

// rig is an engine in memory, with a clock that the test sets.
type rig struct {
	t      testing.TB
	engine *varve.Engine
	now    atomic.Int64 // milliseconds
}

func newRig(t testing.TB, fsys vfs.FS, o varve.Options) *rig {
	t.Helper()
	r := &rig{t: t}
	r.now.Store(1_700_000_000_000)
	o.Clock = func() time.Time { return time.UnixMilli(r.now.Load()) }
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	o.RetentionInterval = 1000 * time.Hour
	o.JournalBytes = 256 << 10
	e, err := varve.OpenFS(fsys, o)
	if err != nil {
		t.Fatal(err)
	}
	r.engine = e
	t.Cleanup(func() {
		if err := e.Close(); err != nil && err != varve.ErrClosed {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

func (r *rig) topic(name string, partitions int, config map[string]string) *varve.Topic {
	r.t.Helper()
	t, err := r.engine.CreateTopic(name, varve.TopicConfig{Partitions: partitions, Config: config})
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// publish publishes so many records to a partition, one after the other.
func (r *rig) publish(t *varve.Topic, partition, records int) {
	r.t.Helper()
	p, err := t.Partition(partition)
	for range records {
		if err == nil {
			_, err = p.Publish(context.Background(), varve.Record{Value: []byte("v")})
		}
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) commit(group, topic string, partition int32, offset varve.Offset) {
	r.t.Helper()
	err := r.engine.CommitOffsets(context.Background(), group, varve.Commit{Topic: topic, Partition: partition, Offset: offset})
	if err != nil {
		r.t.Fatal(err)
	}
}

// scrape collects once and returns the value of each series, named as Prometheus writes
// it: name{label="value"}. Of a histogram it is the count.
func (r *rig) scrape(o metrics.Options) map[string]float64 {
	r.t.Helper()
	values := map[string]float64{}
	for _, f := range r.gather(o) {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				values[name] = m.Counter.GetValue()
			case dto.MetricType_GAUGE:
				values[name] = m.Gauge.GetValue()
			default:
				values[name] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return values
}

func (r *rig) gather(o metrics.Options) []*dto.MetricFamily {
	r.t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(metrics.NewCollector(r.engine, o))
	got, err := reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// expect holds a scrape against what it must have among others. Absent says that there is
// no such series.
func expect(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v, some := got[name]
		switch {
		case want[name] == absent && some:
			t.Errorf("%s is there: %v", name, v)
		case want[name] != absent && (!some || v != want[name]):
			t.Errorf("%s is %v (there: %v), want %v", name, v, some, want[name])
		}
	}
}

const absent = -999
