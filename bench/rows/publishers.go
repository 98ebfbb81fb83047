package rows

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/varvelog/varve/bench/measure"
)

// together lets publishers call do over and over for a time, each waiting for its call to
// return; do gets the number of the publisher and of its call. It returns calls a second.
func together(span time.Duration, publishers int, do func(publisher, call int) error) (measure.Figures, error) {
	var (
		wg     sync.WaitGroup
		ready  sync.WaitGroup
		begin  = make(chan struct{})
		stop   atomic.Bool
		total  atomic.Int64
		mu     sync.Mutex
		failed error
	)
	ready.Add(publishers)
	for w := range publishers {
		wg.Go(func() {
			err := do(w, 0) // opens what is opened late
			ready.Done()
			<-begin
			calls := 1
			for ; err == nil && !stop.Load(); calls++ {
				err = do(w, calls)
			}
			total.Add(int64(calls - 1))
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
			}
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	time.Sleep(span)
	stop.Store(true)
	wg.Wait()
	return measure.Figures{"rec/s": float64(total.Load()) / time.Since(start).Seconds()}, failed
}
