package varve_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/varvelog/varve"
)

// One group of one subscription, eight partitions, a handler that does nothing.
func BenchmarkConsume(b *testing.B) {
	for _, byKey := range []bool{false, true} {
		b.Run(fmt.Sprintf("byKey=%t", byKey), func(b *testing.B) {
			const parts = 8
			engine, err := varve.Open(b.TempDir(), varve.Options{Logger: silent()})
			if err != nil {
				b.Fatal(err)
			}
			defer engine.Close()
			topic, err := engine.CreateTopic("bench", varve.TopicConfig{Partitions: parts, Config: config("durability=os")})
			if err != nil {
				b.Fatal(err)
			}
			each := b.N/parts + 1
			recs := make([]varve.Record, 1000)
			for i := range recs {
				recs[i] = varve.Record{Key: fmt.Append(nil, i%100), Value: make([]byte, 100)}
			}
			for i := range parts {
				p, _ := topic.Partition(i)
				for left := each; left > 0; left -= len(recs) {
					if _, err := p.Publish(context.Background(), recs[:min(left, len(recs))]...); err != nil {
						b.Fatal(err)
					}
				}
			}
			var left atomic.Int64
			left.Store(int64(each * parts))
			all := make(chan struct{})
			b.ReportAllocs()
			b.ResetTimer()
			s, err := engine.Consume(context.Background(), "g", []string{"bench"}, func(context.Context, varve.Delivery) error {
				if left.Add(-1) == 0 {
					close(all)
				}
				return nil
			}, varve.ConsumeOptions{ByKey: byKey})
			if err != nil {
				b.Fatal(err)
			}
			<-all
			b.StopTimer()
			b.ReportMetric(float64(each*parts)/b.Elapsed().Seconds(), "records/s")
			if err := s.Stop(context.Background()); err != nil {
				b.Error(err)
			}
		})
	}
}
