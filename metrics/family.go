package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/varvelog/varve"
)

// Family is a metric with all its labels.
type Family struct {
	Name   string
	Type   string // counter, gauge, histogram
	Labels []string
	Help   string
}

// none is the value of what cannot be said: such a figure is left out.
const none = -1

// figure is a family whose values are numbers of an F.
type figure[F any] struct {
	Family
	of   func(*F) float64
	kind prometheus.ValueType
	desc *prometheus.Desc
}

func counter[F any](name, help string, of func(*F) float64) figure[F] {
	return figure[F]{Family: Family{Name: name, Type: "counter", Help: help}, of: of, kind: prometheus.CounterValue}
}

func gauge[F any](name, help string, of func(*F) float64) figure[F] {
	return figure[F]{Family: Family{Name: name, Type: "gauge", Help: help}, of: of, kind: prometheus.GaugeValue}
}

// figures are families with the same labels.
type figures[F any] []figure[F]

func labelled[F any](labels []string, list ...figure[F]) figures[F] {
	for i := range list {
		f := &list[i]
		f.Labels = labels
		f.desc = f.Family.desc()
	}
	return list
}

func (f *Family) desc() *prometheus.Desc { return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil) }

// send reports what an F says under values of the labels.
func (list figures[F]) send(ch chan<- prometheus.Metric, of *F, values ...string) {
	for i := range list {
		f := &list[i]
		if v := f.of(of); v != none {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, v, values...)
		}
	}
}

func (list figures[F]) describe(ch chan<- *prometheus.Desc) {
	for i := range list {
		ch <- list[i].desc
	}
}

func (list figures[F]) families() (all []Family) {
	for i := range list {
		all = append(all, list[i].Family)
	}
	return all
}

// histogram is a family whose values are durations, in seconds.
type histogram struct {
	Family
	desc *prometheus.Desc
}

func newHistogram(name, help string, labels ...string) *histogram {
	h := &histogram{Family: Family{Name: name, Type: "histogram", Help: help, Labels: labels}}
	h.desc = h.Family.desc()
	return h
}

func (h *histogram) send(ch chan<- prometheus.Metric, d *varve.Durations, values ...string) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	below := uint64(0)
	for i, bound := range d.Bounds {
		below += uint64(d.Counts[i])
		buckets[bound.Seconds()] = below
	}
	ch <- prometheus.MustNewConstHistogram(h.desc, uint64(d.Count()), d.Sum.Seconds(), buckets, values...)
}
