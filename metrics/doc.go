// Package metrics shows an engine to Prometheus. [NewCollector] makes a collector of one
// engine, which is registered like any other:
//
//	prometheus.MustRegister(metrics.NewCollector(engine, metrics.Options{}))
//
// Two engines of one process are told apart by a label:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"engine": "b"}, registry)
//
// [Families] lists what is reported. A [Family] with the label partition is left out where
// there would be too many of it, and topics and groups become one where they are too many:
// see [Options].
//
// A collector has no state of its own but a count of failures, and any number of goroutines
// may use it. A scrape takes no lock that a publish, a poll, a commit or a sync waits for, and
// answers while the disk does not. It allocates in proportion to what it reports. When the
// engine is closed it reports that, and no more.
//
// It deliberately does not measure rates, which Prometheus computes, nor what a program
// does with records, which the program knows better. It is a package of its own so that
// a program without Prometheus links nothing of it.
package metrics
