package metrics_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
	"github.com/varvelog/varve/metrics"
)

// BenchmarkScrape collects from 10,000 partitions: in one topic or in a thousand, with and
// without the families of each partition.
func BenchmarkScrape(b *testing.B) {
	const partitions = 10_000
	for _, topics := range []int{1, 1000} {
		r := newRig(b, vfs.NewMem(), varve.Options{})
		for i := range topics {
			t := r.topic(fmt.Sprintf("t%d", i), partitions/topics, nil)
			r.publish(t, 0, 1)
		}
		for _, c := range []struct {
			name string
			opt  metrics.Options
		}{{"topics", metrics.Options{}}, {"partitions", metrics.Options{MaxPartitions: partitions}}} {
			b.Run(fmt.Sprintf("topics=%d/by=%s", topics, c.name), func(b *testing.B) {
				collector := metrics.NewCollector(r.engine, c.opt)
				for range scrape(collector) { // the first one has to make a catalog of the topics
				}
				series := 0
				b.ReportAllocs()
				for b.Loop() {
					series = 0
					for range scrape(collector) {
						series++
					}
				}
				b.ReportMetric(float64(series), "series")
			})
		}
	}
}

// scrape is what a scrape sends.
func scrape(c prometheus.Collector) <-chan prometheus.Metric {
	all := make(chan prometheus.Metric, 1000)
	go func() {
		c.Collect(all)
		close(all)
	}()
	return all
}
