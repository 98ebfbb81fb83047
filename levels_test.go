package varve_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/varvelog/varve"
	"github.com/varvelog/varve/internal/vfs"
)

// What an acknowledgement costs on each level, on the disk of this machine: how long one
// publisher waits for it, and 64, for records of 100 bytes one by one.
func BenchmarkLatencyOfEachLevel(b *testing.B) {
	for _, level := range allLevels {
		for _, publishers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/publishers=%d", level, publishers), func(b *testing.B) {
				p := benchPartition(b, map[string]string{"durability": level})
				b.ResetTimer()
				all := latencies(b, p, publishers)
				b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "records/s")
				b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, "p50-µs")
				b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-µs")
			})
		}
	}
}

// latencies publishes b.N records and returns how long each took, sorted.
func latencies(b *testing.B, p *varve.Partition, publishers int) (all []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	rec := benchRecords(1)[0]
	for range publishers {
		wg.Go(func() {
			mine := make([]time.Duration, 0, b.N/publishers+1)
			for range b.N/publishers + 1 {
				began := time.Now()
				if _, err := p.Publish(context.Background(), rec); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all
}

// What each level can lose, at a thousand records a second, at any moment of 40 seconds:
// a kill of the process takes nothing on any; a power cut that takes everything which was
// not synced takes nothing of level fsync, at most flush.ms of level interval, and at most
// what came since the last checkpoint of level os.
func TestLossOfEachLevel(t *testing.T) {
	for level, most := range map[string]time.Duration{"fsync": 0, "interval": 1200 * time.Millisecond, "os": 31 * time.Second} {
		t.Run(level, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { loseOf(t, level, most) })
		})
	}
}

func loseOf(t *testing.T, level string, most time.Duration) {
	disk := vfs.NewMem()
	e, _ := openOn(t, disk)
	defer mustClose(t, e)
	topic, err := e.CreateTopic("t", varve.TopicConfig{Config: config("durability="+level, "retention.ms=-1")})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	var told []time.Time // of each acknowledgement
	var lost []int
	var oldest time.Duration
	next := 1000 + rng.IntN(1000)
	for range 40_000 {
		if _, err := topic.Publish(context.Background(), benchRecords(1)[0]); err != nil {
			t.Fatal(err)
		}
		told = append(told, time.Now())
		if time.Sleep(time.Millisecond); len(told) < next {
			continue
		}
		next += (200 + rng.IntN(1000)) * stride(4)
		if n := len(told) - endOf(t, disk.Clone()); n != 0 {
			t.Errorf("a kill took %d records", n)
		}
		n := len(told) - endOf(t, disk.Crash(vfs.CrashOptions{Names: vfs.NamesJournaled, Seed: rng.Uint64()}))
		if lost = append(lost, n); n > 0 {
			oldest = max(oldest, time.Since(told[len(told)-n]))
		}
	}
	slices.Sort(lost)
	t.Logf("%d power cuts: at most %d records lost, acknowledged up to %v before; %d in the median", len(lost), lost[len(lost)-1], oldest, lost[len(lost)/2])
	if oldest > most {
		t.Errorf("a record was lost that was acknowledged %v before the power cut, at most %v is right", oldest, most)
	}
}

// endOf opens what is left of a disk and says how many records there are.
func endOf(t *testing.T, left *vfs.Mem) int {
	e, _ := openOn(t, left)
	defer mustClose(t, e)
	topic, err := e.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	return int(partOf(t, topic, 0).End())
}
