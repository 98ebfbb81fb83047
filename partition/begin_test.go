package partition

import (
	"runtime"
	"sync"
	"testing"
)

// The appender that comes upon a pack of which a record is being taken back waits, for no
// longer than that takes, and begins with it unless nothing is left: a pack that it passed
// over would be told to nobody.
func TestAppenderWaitsForAWithdrawal(t *testing.T) {
	for next, want := range map[int32]bool{stateQueued: true, stateCancelled: false} {
		for range 100 {
			a := new(Append)
			a.state.Store(stateChanging)
			began := make(chan bool, 1)
			go func() { began <- a.begin(stateEncoding) }()
			for range 100 {
				runtime.Gosched()
			}
			if len(began) > 0 {
				t.Fatalf("it does not wait: %t", <-began)
			}
			a.state.Store(next)
			if got := <-began; got != want {
				t.Fatalf("of a pack that is in state %d then it begins: %t", next, got)
			}
		}
	}
}

// A withdrawal that leaves a pack queued may end at any time: the appender begins with it.
func TestWithdrawalEndsAnyTime(t *testing.T) {
	a := new(Append)
	var withdrawals sync.WaitGroup
	stop := make(chan struct{})
	withdrawals.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if a.state.CompareAndSwap(stateQueued, stateChanging) {
				a.state.Store(stateQueued)
			}
		}
	})
	for n := range 100_000 {
		if !a.begin(stateEncoding) {
			t.Errorf("try %d: it is taken for cancelled", n)
			break
		}
		a.state.Store(stateQueued)
	}
	close(stop)
	withdrawals.Wait()
}
