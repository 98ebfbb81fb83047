package varve_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/varvelog/varve"
)

// benchTopic opens an engine in a directory of its own and makes a topic.
func benchTopic(b *testing.B, partitions int, config map[string]string) *varve.Topic {
	b.Helper()
	e, err := varve.Open(b.TempDir(), varve.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	t, err := e.CreateTopic("bench", varve.TopicConfig{Partitions: partitions, Config: config})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

func benchPartition(b *testing.B, config map[string]string) *varve.Partition {
	p, err := benchTopic(b, 1, config).Partition(0)
	if err != nil {
		b.Fatal(err)
	}
	return p
}

// benchRecords are n records of 100 bytes.
func benchRecords(n int) []varve.Record {
	recs := make([]varve.Record, n)
	for i := range recs {
		recs[i] = varve.Record{Key: fmt.Appendf(nil, "key-%06d", i), Value: make([]byte, 90)}
	}
	return recs
}

var osLevel = map[string]string{"durability": "os"}

// One caller appends batches of 100 records of 100 bytes and waits for each.
func BenchmarkAppendBatch(b *testing.B) {
	p := benchPartition(b, osLevel)
	recs := benchRecords(100)
	ctx := context.Background()
	b.ReportAllocs()
	b.SetBytes(100 * 100)
	for b.Loop() {
		if _, err := p.Publish(ctx, recs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

// Many callers append single records and wait for each.
func BenchmarkAppendSingle(b *testing.B) {
	for _, publishers := range []int{1, 16} {
		b.Run(fmt.Sprintf("publishers=%d", publishers), func(b *testing.B) {
			t := benchTopic(b, 1, osLevel)
			publishSingles(b, t, publishers)
		})
	}
}

// Many callers append single records and wait until each is on stable storage.
func BenchmarkAppendDurable(b *testing.B) {
	for _, partitions := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("partitions=%d", partitions), func(b *testing.B) {
			publishSingles(b, benchTopic(b, partitions, nil), 64)
		})
	}
}

func publishSingles(b *testing.B, t *varve.Topic, publishers int) {
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range publishers {
		p, err := t.Partition(w % t.Partitions())
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			rec := benchRecords(1)[0]
			for range b.N/publishers + 1 {
				if _, err := p.Publish(ctx, rec); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

// One caller hands over single records without waiting.
func BenchmarkAppendAsync(b *testing.B) {
	t := benchTopic(b, 1, osLevel)
	pub := t.Publisher(varve.PublisherOptions{})
	rec := benchRecords(1)[0]
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if err := pub.PublishAsync(ctx, rec, nil); err != nil {
			b.Fatal(err)
		}
	}
	if err := pub.Flush(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

// Everything is read from the start, each batch checked, each record decoded.
func BenchmarkReadSequential(b *testing.B) {
	for _, codec := range []string{"none", "zstd"} {
		b.Run("codec="+codec, func(b *testing.B) {
			const batches = 10_000
			p := benchPartition(b, map[string]string{"durability": "os", "compression.type": map[string]string{"none": "producer", "zstd": "zstd"}[codec]})
			recs := benchRecords(100)
			for range batches {
				if _, err := p.Publish(context.Background(), recs...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range p.Records(context.Background(), varve.Earliest()) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

// One record at a random place.
func BenchmarkReadRandom(b *testing.B) {
	p := benchPartition(b, map[string]string{"durability": "os", "segment.bytes": "1048576"})
	recs := benchRecords(10)
	for range 20_000 {
		if _, err := p.Publish(context.Background(), recs...); err != nil {
			b.Fatal(err)
		}
	}
	end := uint64(p.End())
	b.ReportAllocs()
	x := uint64(1)
	for b.Loop() {
		x = x*6364136223846793005 + 1442695040888963407
		r, err := p.Reader(varve.At(varve.Offset(x >> 33 % end)))
		if err != nil {
			b.Fatal(err)
		}
		if _, ok, err := r.Poll(); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

// A publish, and the wake-up of a reader that waits for it.
func BenchmarkTailLatency(b *testing.B) {
	p := benchPartition(b, osLevel)
	ctx := context.Background()
	r, err := p.Reader(varve.Latest())
	if err != nil {
		b.Fatal(err)
	}
	rec := benchRecords(1)[0]
	got := make(chan struct{})
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			if _, err := r.Next(stop); err != nil {
				return
			}
			got <- struct{}{}
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Publish(ctx, rec); err != nil {
			b.Fatal(err)
		}
		<-got
	}
}

// Many readers at once over the same segments: no lock is on their path, as
// -mutexprofile shows.
func BenchmarkReadParallel(b *testing.B) {
	p := benchPartition(b, map[string]string{"durability": "os", "segment.bytes": "1048576"})
	recs := benchRecords(100)
	for range 1000 {
		if _, err := p.Publish(context.Background(), recs...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			for _, err := range p.Records(context.Background(), varve.Earliest()) {
				if err != nil {
					b.Error(err)
					return
				}
			}
		}
	})
}
