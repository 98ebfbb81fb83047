package rows

import (
	"context"
	"strings"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/peers"
	"github.com/varvelog/varve/bench/report"
	"github.com/varvelog/varve/record"
)

// encoded is a batch in varve's own format, as PublishBatch takes it.
func encoded(batch [][]byte) []byte {
	var b record.Builder
	b.Reset(nil, 0, record.BatchOptions{})
	for _, v := range batch {
		b.Add(1, nil, v, nil)
	}
	return b.Finish()
}

// appendRow is the append of batches at level os, one caller who waits for each.
func appendRow(e *Env) (*report.Table, error) {
	ctx := context.Background()
	recs, raw := turns(each(batches(), recordsOf)), turns(each(batches(), encoded))
	all := []measure.Contender{
		e.floorContender(),
		e.partitionContender("varve", func(p *varve.Partition) error {
			_, err := p.Publish(ctx, recs()...)
			return err
		}),
		e.partitionContender("varve, finished batches", func(p *varve.Partition) error {
			_, err := p.PublishBatch(ctx, raw())
			return err
		}),
	}
	for _, p := range e.weakPeers() {
		all = append(all, e.peerContender(p, false))
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "append", Title: "Append, level os, one caller",
		Text: "Records of 100 bytes in batches of 100, one partition, one caller who waits for each batch. varve encodes records that it is given one by one; \"finished batches\" come encoded, as those of the floor do, and are checked record by record."}
	t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
	t.AtLeast("/floor", "of the floor", s.Ratio("varve", "floor", "rec/s"), 0.8)
	t.AtLeast("/floor, finished batches", "of the floor", s.Ratio("varve, finished batches", "floor", "rec/s"), 0.8)
	for _, p := range e.weakPeers() {
		t.AtLeast("/"+p.Name, "times the peer", s.Ratio("varve", p.Name, "rec/s"), leastTimes(p))
	}
	return t, nil
}

// leastTimes is how many times the peer varve has to be, at level os.
func leastTimes(p peers.Peer) float64 {
	switch p.Name {
	case peers.Etcd.Name, peers.Pebble.Name, peers.Tidwall.Name:
		return 8
	case peers.JetStream.Name:
		return 50
	}
	return 1
}

// partitionContender calls do, which publishes a batch, over and over at level os.
func (e *Env) partitionContender(name string, do func(*varve.Partition) error) measure.Contender {
	return measure.Contender{Name: name, Run: func(dir string) (f measure.Figures, err error) {
		err = withPartition(dir, varve.OS, func(p *varve.Partition) (err error) {
			f, err = rate(e.span(), batchRecords, func() error { return do(p) })
			return err
		})
		return f, err
	}}
}

// peerContender appends batches to one log of a peer.
func (e *Env) peerContender(p peers.Peer, durable bool) measure.Contender {
	return measure.Contender{Name: p.Name, Run: func(dir string) (measure.Figures, error) {
		s, err := p.Open(dir, peers.Options{Logs: 1, Durable: durable, Publishers: 1})
		if err != nil {
			return nil, err
		}
		defer s.Close()
		next := turns(batches())
		return rate(e.span(), batchRecords, func() error { return s.Append(0, next()) })
	}}
}

// weakPeers are those with a promise like level os; a quick run has the fastest.
func (e *Env) weakPeers() (weak []peers.Peer) {
	for _, p := range peers.All {
		if p.Weak && (!e.Quick || p.Name == peers.Wlog.Name) {
			weak = append(weak, p)
		}
	}
	return weak
}

func namesOf(all []measure.Contender) (names []string) {
	for _, c := range all {
		names = append(names, c.Name)
	}
	return names
}

// appendAsyncRow is the same without waiting: PublishAsync takes single records. Beside
// it, as another way to several batches in one write, eight callers who wait for theirs.
func appendAsyncRow(e *Env) (*report.Table, error) {
	recs, raw := each(batches(), recordsOf), each(batches(), encoded)
	ctx := context.Background()
	async := measure.Contender{Name: "varve, PublishAsync", Run: func(dir string) (f measure.Figures, err error) {
		err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
			pub, next := p.Topic().Publisher(varve.PublisherOptions{}), turns(recs)
			f, err = rateUntil(e.span(), batchRecords, func() error {
				for _, r := range next() {
					if err := pub.PublishAsync(ctx, r, nil); err != nil {
						return err
					}
				}
				return nil
			}, func() error { return pub.Flush(ctx) })
			return err
		})
		return f, err
	}}
	const callers = 8
	parallel := func(name string, do func(p *varve.Partition, call int) error) measure.Contender {
		return measure.Contender{Name: name, Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
				f, err = together(e.span(), callers, func(w, call int) error { return do(p, w+call) })
				return err
			})
			if err == nil {
				f["rec/s"] *= batchRecords
			}
			return f, err
		}}
	}
	all := []measure.Contender{
		e.floorContender(),
		async,
		parallel("varve, 8 callers of batches", func(p *varve.Partition, call int) error {
			_, err := p.Publish(ctx, recs[call%len(recs)]...)
			return err
		}),
		parallel("varve, 8 callers of finished batches", func(p *varve.Partition, call int) error {
			_, err := p.PublishBatch(ctx, raw[call%len(raw)])
			return err
		}),
	}
	if e.Quick {
		all = all[:3]
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "append-async", Title: "Append, level os, asynchronous",
		Text: "The records of the row above, handed over without waiting (PublishAsync, at most 32 MiB in flight, the default), or by eight callers who wait, so that several batches share a write."}
	t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
	for _, c := range all[1:] {
		name := strings.TrimPrefix(c.Name, "varve, ")
		t.AtLeast("/"+name, "times the floor", s.Ratio(c.Name, "floor", "rec/s"), 1.2)
	}
	return t, nil
}

// appendSingleRow is single records of 16 callers, who wait for each.
func appendSingleRow(e *Env) (*report.Table, error) {
	const publishers = 16
	batch := values(1, recordBytes)
	ctx := context.Background()
	all := []measure.Contender{{Name: "varve", Run: func(dir string) (f measure.Figures, err error) {
		err = withPartition(dir, varve.OS, func(p *varve.Partition) error {
			rec := recordsOf(batch)[0]
			f, err = together(e.span(), publishers, func(int, int) error {
				_, err := p.Publish(ctx, rec)
				return err
			})
			return err
		})
		return f, err
	}}}
	for _, p := range e.weakPeers() {
		all = append(all, measure.Contender{Name: p.Name, Run: func(dir string) (measure.Figures, error) {
			s, err := p.Open(dir, peers.Options{Logs: 1, Publishers: publishers})
			if err != nil {
				return nil, err
			}
			defer s.Close()
			return together(e.span(), publishers, func(int, int) error { return s.Append(0, batch) })
		}})
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "append-single", Title: "Append of single records, level os, 16 callers",
		Text: "Records of 100 bytes, one by one, from 16 goroutines to one partition, each waiting for its own. The target is 1.5 million records/s or three times the best peer, whichever is less."}
	t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
	var share []float64
	for round, v := range s["varve"]["rec/s"] {
		best := 0.0
		for _, p := range e.weakPeers() {
			best = max(best, s[p.Name]["rec/s"][round])
		}
		share = append(share, v/min(1.5e6, 3*best))
	}
	t.AtLeast("", "of the lesser of 1.5 M records/s and 3 times the best peer", measure.Of(share), 1)
	return t, nil
}
