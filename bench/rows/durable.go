package rows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/peers"
	"github.com/varvelog/varve/bench/report"
)

// durablePublishers publish single records, each waiting until its own is durable.
const durablePublishers = 64

// durableContender spreads the publishers over the partitions of a topic that is in dir,
// where it is made: of more partitions than publishers, each goes round its share. Every
// run has an engine of its own, so that none has to take to the disk what another left.
func (e *Env) durableContender(dir string, partitions int) (measure.Contender, error) {
	c := measure.Contender{Name: varveOver(partitions), Run: func(string) (f measure.Figures, err error) {
		err = reopened(dir, func(all []*varve.Partition) error {
			rec := recordsOf(values(1, recordBytes))[0]
			if err := touch(all, rec); err != nil {
				return err
			}
			f, err = together(e.span(), durablePublishers, func(w, call int) error {
				_, err := all[(w+call*durablePublishers)%partitions].Publish(context.Background(), rec)
				return err
			})
			return err
		})
		return f, err
	}}
	return c, withTopic(dir, quiet(), varve.TopicConfig{Partitions: partitions}, func(*varve.Topic) error { return nil })
}

// touch publishes to every partition, so that what is opened late is open.
func touch(all []*varve.Partition, rec varve.Record) error {
	pub := all[0].Topic().Publisher(varve.PublisherOptions{ByPartition: true})
	for _, p := range all {
		rec.Partition = p.Index()
		if err := pub.PublishAsync(context.Background(), rec, nil); err != nil {
			return err
		}
	}
	return pub.Flush(context.Background())
}

// reopened opens an engine that stopped cleanly, and calls f with all partitions of the topic.
func reopened(dir string, f func([]*varve.Partition) error) error {
	eng, err := varve.Open(dir, quiet())
	if err != nil {
		return err
	}
	t, err := eng.Topic("bench")
	if err != nil {
		return errors.Join(err, eng.Close())
	}
	all := make([]*varve.Partition, t.Partitions())
	for i := range all {
		if all[i], err = t.Partition(i); err != nil {
			return errors.Join(err, eng.Close())
		}
	}
	return errors.Join(f(all), eng.Close())
}

func varveOver(partitions int) string { return fmt.Sprintf("varve, %d partitions", partitions) }

var partitionCounts = []int{1, 16, 64, 1024}

// durableSharedRow holds durable publishes over many partitions against one file that is
// synced for all publishers.
func durableSharedRow(e *Env) (*report.Table, error) {
	batch := values(1, recordBytes)[0]
	all := []measure.Contender{{Name: "floor", Run: func(dir string) (measure.Figures, error) {
		send, end, err := served(dir, durablePublishers)
		if err != nil {
			return nil, err
		}
		f, err := together(e.span(), durablePublishers, func(int, int) error { return send(batch) })
		if err == nil {
			err = end()
		}
		return f, err
	}}}
	dir, err := os.MkdirTemp(e.Dir, "durable")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, n := range partitionCounts {
		c, err := e.durableContender(filepath.Join(dir, strconv.Itoa(n)), n)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "durable-shared", Title: "Durable, 64 callers over 1 to 1,024 partitions",
		Text: "64 goroutines publish single records of 100 bytes, each waiting until its own is on stable storage. The floor has one file, preallocated and written before, and one fdatasync for all who wait."}
	t.Add(s, "rec/s", "k records/s", 1e-3, namesOf(all)...)
	for _, n := range partitionCounts {
		t.AtLeast(fmt.Sprintf("/floor, %d partitions", n), "of the floor", s.Ratio(varveOver(n), "floor", "rec/s"), 0.8)
	}
	t.AtMost("/growth", "times the cost over 1,024 as over 1", s.Ratio(varveOver(1), varveOver(1024), "rec/s"), 1.5)
	return t, nil
}

// durablePeersRow gives each peer a log a partition, 64 of them.
func durablePeersRow(e *Env) (*report.Table, error) {
	const logs = 64
	batch := values(1, recordBytes)
	dir, err := os.MkdirTemp(e.Dir, "durable")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	own, err := e.durableContender(filepath.Join(dir, "varve"), logs)
	if err != nil {
		return nil, err
	}
	all := []measure.Contender{own}
	for _, p := range peers.All {
		all = append(all, measure.Contender{Name: p.Name, Run: func(dir string) (measure.Figures, error) {
			s, err := p.Open(dir, peers.Options{Logs: logs, Durable: true, Publishers: durablePublishers})
			if err != nil {
				return nil, err
			}
			defer s.Close()
			return together(e.span(), durablePublishers, func(w, _ int) error { return s.Append(w%logs, batch) })
		}})
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "durable-peers", Title: "Durable, 64 callers, 64 logs of a peer",
		Text: "The work of the row above over 64 partitions; every peer has a log for each."}
	t.Add(s, "rec/s", "k records/s", 1e-3, namesOf(all)...)
	for _, p := range peers.All {
		t.AtLeast("/"+p.Name, "times the peer", s.Ratio(varveOver(logs), p.Name, "rec/s"), 8)
	}
	return t, nil
}

// durableBatchRow is batches of one caller who waits until each is durable.
func durableBatchRow(e *Env) (*report.Table, error) {
	all := []measure.Contender{
		{Name: "floor", Run: func(dir string) (measure.Figures, error) {
			l, err := openFloor(dir, floorBytes)
			if err != nil {
				return nil, err
			}
			defer l.File.Close()
			next := turns(each(batches(), joined))
			return rate(e.span(), batchRecords, func() error { return l.Append(next()) })
		}},
		{Name: "varve", Run: func(dir string) (f measure.Figures, err error) {
			err = withPartition(dir, varve.Fsync, func(p *varve.Partition) error {
				next := turns(each(batches(), recordsOf))
				f, err = rate(e.span(), batchRecords, func() error {
					_, err := p.Publish(context.Background(), next()...)
					return err
				})
				return err
			})
			return f, err
		}},
	}
	for _, p := range peers.All {
		all = append(all, e.peerContender(p, true))
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "durable-batch", Title: "Durable, batches of 100, one caller",
		Text: "Records of 100 bytes in batches of 100, one partition, one caller who waits until each batch is on stable storage."}
	t.Add(s, "rec/s", "k records/s", 1e-3, namesOf(all)...)
	for _, p := range peers.All {
		t.AtLeast("/"+p.Name, "times the peer", s.Ratio("varve", p.Name, "rec/s"), 1)
	}
	return t, nil
}
