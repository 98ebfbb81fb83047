package peers

import (
	"log/slog"

	"github.com/prometheus/prometheus/tsdb/wlog"
	"github.com/prometheus/prometheus/util/compression"
)

// Wlog is Prometheus's write-ahead log, uncompressed: Log takes a batch of records and
// writes it with its last page ("we always write at page granularity"); Sync is the
// caller's.
var Wlog = Peer{Name: "prometheus wlog", Module: "github.com/prometheus/prometheus", Weak: true,
	Open: func(dir string, o Options) (Store, error) { return openMany(dir, o, openWlog) }}

// prometheus has a lock of its own.
type prometheus struct {
	log     *wlog.WL
	durable bool
}

func openWlog(dir string, o Options) (single, error) {
	w, err := wlog.New(slog.New(slog.DiscardHandler), nil, dir, compression.None)
	return &prometheus{log: w, durable: o.Durable}, err
}

func (p *prometheus) append(batch [][]byte) error {
	err := p.log.Log(batch...)
	if err == nil && p.durable {
		err = p.log.Sync()
	}
	return err
}

func (p *prometheus) read(visit func([]byte)) error {
	segments, err := wlog.NewSegmentsReader(p.log.Dir())
	if err != nil {
		return err
	}
	defer segments.Close()
	r := wlog.NewReader(segments)
	for r.Next() {
		visit(r.Record())
	}
	return r.Err()
}

func (p *prometheus) close() error { return p.log.Close() }
