package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/bench/measure"
	"github.com/varvelog/varve/bench/peers"
	"github.com/varvelog/varve/bench/report"
)

// readRow is a read of everything that a log holds, from the page cache: every batch
// checked, every record decoded.
func readRow(e *Env) (*report.Table, error) {
	n := e.size(2_000_000, 100_000)
	dir, err := os.MkdirTemp(e.Dir, "read")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var t *report.Table
	err = withPartition(filepath.Join(dir, "varve"), varve.OS, func(p *varve.Partition) error {
		if err := fill(p, n); err != nil {
			return err
		}
		t, err = e.readAll(dir, p, n)
		return err
	})
	return t, err
}

func (e *Env) readAll(dir string, p *varve.Partition, n int) (*report.Table, error) {
	floorRead, closeFloor, err := floorReader(dir, n)
	if err != nil {
		return nil, err
	}
	defer closeFloor()
	all := []measure.Contender{
		floorRead,
		reading("varve", n, func() (int, error) { return readRecords(p) }),
		reading("varve, Poll", n, func() (int, error) { return readPoll(p) }),
		reading("varve, lent", n, func() (int, error) { return readLent(p) }),
		reading("varve, batches", n, func() (int, error) { return readBatches(p) }),
	}
	for _, peer := range peers.All {
		if e.Quick && peer.Name != peers.JetStream.Name {
			continue
		}
		held := n
		if peer.Name == peers.JetStream.Name {
			held = n / 10 // what it takes to fill it
		}
		s, err := filledPeer(filepath.Join(dir, "peer-"+strconv.Itoa(len(all))), peer, held)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", peer.Name, err)
		}
		defer s.Close()
		all = append(all, reading(peer.Name, held, func() (int, error) {
			read := 0
			err := s.Read(0, func([]byte) { read++ })
			return read, err
		}))
	}
	s, err := e.rounds(all...)
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "read", Title: "Sequential read, warm cache",
		Text: "A log of records of 100 bytes in batches of 100, read from its start to its end by one reader, every batch checked and every record decoded: by Records, by a Reader's Poll, by that of a Reader that lends its records (Reader.Lend), and by PollBatch and the iterator over each batch. Records that are not lent are the caller's to keep, in fresh memory. The floor reads and checks, and decodes nothing. Peers read as their libraries do, JetStream a tenth of the records; tidwall/wal and bbolt have no checksums, and check nothing."}
	t.Add(s, "rec/s", "M records/s", 1e-6, namesOf(all)...)
	for _, name := range []string{"varve", "varve, lent"} {
		rates := s.Of(name, "rec/s")
		suffix := strings.TrimPrefix(name, "varve")
		t.AtLeast("/rate"+suffix, "M records/s", measure.Spread{Median: rates.Median / 1e6, Min: rates.Min / 1e6, Max: rates.Max / 1e6, Runs: rates.Runs}, 20)
		t.AtLeast("/floor"+suffix, "of the floor", s.Ratio(name, "floor", "rec/s"), 0.5)
	}
	t.AtLeast("/"+peers.JetStream.Name, "times the peer", s.Ratio("varve", peers.JetStream.Name, "rec/s"), 5)
	return t, nil
}

// reading is a contender that reads n records, all that there are.
func reading(name string, n int, read func() (int, error)) measure.Contender {
	return measure.Contender{Name: name, Run: func(string) (measure.Figures, error) {
		begin := time.Now()
		got, err := read()
		took := time.Since(begin)
		if err == nil && got != n {
			err = fmt.Errorf("read %d of %d records", got, n)
		}
		return measure.Figures{"rec/s": float64(got) / took.Seconds()}, err
	}}
}

func readRecords(p *varve.Partition) (n int, err error) {
	for _, err := range p.Records(context.Background(), varve.Earliest()) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func readPoll(p *varve.Partition) (int, error) { return polled(p, false) }
func readLent(p *varve.Partition) (int, error) { return polled(p, true) }

func polled(p *varve.Partition, lent bool) (n int, err error) {
	r, err := p.Reader(varve.Earliest())
	if err == nil && lent {
		r.Lend()
	}
	for err == nil {
		var ok bool
		if _, ok, err = r.Poll(); !ok {
			break
		}
		n++
	}
	return n, err
}

// maxPayload is more than the records of any batch here take.
const maxPayload = 4 << 20

func readBatches(p *varve.Partition) (n int, err error) {
	r, err := p.Reader(varve.Earliest())
	if err != nil {
		return 0, err
	}
	var payload []byte
	for {
		b, ok, err := r.PollBatch()
		if !ok || err != nil {
			return n, err
		}
		if payload, err = b.Payload(payload[:0], maxPayload); err != nil {
			return n, err
		}
		it := b.Records(payload)
		for rec := (varve.Record{}); it.Next(&rec); {
			n++
		}
		if err := it.Err(); err != nil {
			return n, err
		}
	}
}

// floorReader fills a floor and reads it.
func floorReader(dir string, n int) (c measure.Contender, end func() error, err error) {
	l, err := openFloor(dir, 0)
	if err != nil {
		return c, nil, err
	}
	next := turns(each(batches(), joined))
	for done := 0; done < n; done += batchRecords {
		if err := l.Append(next()); err != nil {
			return c, nil, errors.Join(err, l.File.Close())
		}
	}
	buf := make([]byte, 256<<10)
	return reading("floor", n, func() (int, error) {
		bytes, err := l.Read(buf)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return int(bytes) / (8 + batchRecords*recordBytes) * batchRecords, err
	}), l.File.Close, nil
}

// filledPeer is a peer with n records.
func filledPeer(dir string, p peers.Peer, n int) (peers.Store, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	s, err := p.Open(dir, peers.Options{Logs: 1, Durable: !p.Weak, Publishers: 1})
	if err != nil {
		return nil, err
	}
	next := turns(batches())
	for done := 0; done < n; done += batchRecords {
		if err := s.Append(0, next()); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// readSharedRow is zstd batches read by ten groups, of a log twenty times the cache.
func readSharedRow(e *Env) (*report.Table, error) {
	const groups = 10
	n := e.size(2_000_000, 100_000)
	o := quiet()
	o.CacheBytes = int64(n) * recordBytes / 20
	config := atLevel(varve.OS)
	config["compression.type"] = "zstd"
	dir, err := os.MkdirTemp(e.Dir, "zstd")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var s measure.Samples
	all := func(p *varve.Partition) []measure.Contender {
		return []measure.Contender{
			costOf("one group", func() error { return readGroups(p, 1, n) }),
			costOf("ten groups", func() error { return readGroups(p, groups, n) }),
		}
	}
	err = withTopic(dir, o, varve.TopicConfig{Config: config}, func(t *varve.Topic) error {
		p, err := t.Partition(0)
		if err != nil {
			return err
		}
		if err := fill(p, n); err != nil {
			return err
		}
		s, err = e.rounds(all(p)...)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &report.Table{Name: "read-zstd", Title: "zstd batches read by ten groups",
		Text: fmt.Sprintf("%d records of 100 bytes in zstd batches of 100, a log of 20 times the cache (CacheBytes set to %d), read to its end by one reader and by ten at once. Cost is processor time of all cores, in user and kernel mode; ten groups decode ten times as many records, and the time of it is in their cost.", n, o.CacheBytes)}
	t.Add(s, "cpu", "s of processor time", 1, "one group", "ten groups")
	t.Add(s, "wall", "s elapsed", 1, "one group", "ten groups")
	t.AtMost("/processor", "times the cost of one group", s.Ratio("ten groups", "one group", "cpu"), 2)
	t.AtMost("/elapsed", "times the time of one group", s.Ratio("ten groups", "one group", "wall"), 2)
	return t, nil
}

// readGroups reads a partition to its end, by so many readers at once.
func readGroups(p *varve.Partition, groups, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, groups)
	for i := range groups {
		wg.Go(func() {
			got, err := readPoll(p)
			if err == nil && got < n {
				err = fmt.Errorf("read %d of %d records", got, n)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// costOf measures the time that work takes, elapsed and of the processors.
func costOf(name string, work func() error) measure.Contender {
	return measure.Contender{Name: name, Run: func(string) (measure.Figures, error) {
		cpu, begin := processorTime(), time.Now()
		err := work()
		return measure.Figures{"cpu": (processorTime() - cpu).Seconds(), "wall": time.Since(begin).Seconds()}, err
	}}
}
