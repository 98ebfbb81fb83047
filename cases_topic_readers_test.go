package varve_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/varvelog/varve"
)

// A reader of a topic reads all its partitions, each in order, and keeps a place
// in each; starts are meant per partition.
func TestReaderOfATopic(t *testing.T) {
	for name, c := range map[string]struct {
		from varve.Start
		want [4]varve.Offset
	}{
		"earliest": {varve.Earliest(), [4]varve.Offset{0, 0, 0, 0}}, "latest": {varve.Latest(), [4]varve.Offset{40, 30, 20, 0}},
		"the last five": {varve.Last(5), [4]varve.Offset{35, 25, 15, 0}}, "a time": {varve.AtTime(time.UnixMilli(1025)), [4]varve.Offset{25, 15, 5, 0}},
		"the first": {varve.At(0), [4]varve.Offset{0, 0, 0, 0}},
	} {
		r := newRig(t, background)
		topic := r.topic("t", 4, "segment.bytes=500", "retention.ms=-1", "durability=os")
		for i := range 40 {
			for k := range 3 { // the last partition stays empty
				if i >= 10*k {
					r.publish(r.part("t", k), dated(int64(1000+i), "%d", i))
				}
			}
		}
		rd, err := topic.Reader(c.from)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for k := range 4 {
			if got := rd.Offset(int32(k)); got != c.want[k] {
				t.Errorf("%s: partition %d begins at %d, want %d", name, k, got, c.want[k])
			}
		}
		if got := rd.Offset(4); got != -1 {
			t.Errorf("%s: a partition that is not read is at %d", name, got)
		}
		next := c.want
		for {
			rec, ok, err := rd.Poll()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if rec.Offset != next[rec.Partition] {
				t.Fatalf("%s: partition %d: offset %d, want %d", name, rec.Partition, rec.Offset, next[rec.Partition])
			}
			next[rec.Partition]++
		}
		if next != [4]varve.Offset{40, 30, 20, 0} {
			t.Errorf("%s: read up to %v", name, next)
		}
		got := make(chan varve.Record)
		go func() { // parked on all four
			rec, err := rd.Next(context.Background())
			if err != nil {
				t.Error(err)
			}
			got <- rec
		}()
		give()
		r.publish(r.part("t", 3), text("%s", name))
		if rec := <-got; rec.Partition != 3 || string(rec.Value) != name {
			t.Errorf("%s: %s", name, recordText(rec))
		}
		rd.Close()
		if _, _, err := rd.Poll(); !errors.Is(err, varve.ErrClosed) {
			t.Errorf("%s: after close: %v", name, err)
		}
		if _, err := rd.NextBatch(context.Background()); !errors.Is(err, varve.ErrClosed) {
			t.Errorf("%s: after close: %v", name, err)
		}
	}
}

// A partition that is published to faster than it is read does not keep the
// others from being read.
func TestReaderOfATopicIsFair(t *testing.T) {
	r := newRig(t, background)
	topic := r.topic("t", 3, "retention.ms=-1", "durability=os")
	for i := range 100 {
		r.publish(r.part("t", 0), varve.Record{Value: noise(i, 1000)})
	}
	for k := 1; k < 3; k++ {
		r.publish(r.part("t", k), text("alone"))
	}
	rd, err := topic.Reader(varve.Earliest())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for i := 0; len(seen) < 3; i++ {
		if i > 5000 {
			t.Fatalf("after %d records only partitions %v were read", i, seen)
		}
		r.publish(r.part("t", 0), varve.Record{Value: noise(i, 1000)}) // as fast as it is read
		rec, err := rd.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		seen[rec.Partition] = true
	}
}
