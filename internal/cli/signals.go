package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal ended.
type signalError struct{ sig syscall.Signal }

func (e *signalError) Error() string { return "stopped by " + e.sig.String() }

// exitCode follows the shells: 128 and the number of the signal.
func (e *signalError) exitCode() int { return 128 + int(e.sig) }

// untilSignal returns a context that the first SIGINT or SIGTERM cancels. From
// then on signals act as they do by default, so that a second one ends a
// process whose disk does not answer.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-ch:
			signal.Stop(ch)
			sig, _ := s.(syscall.Signal)
			cancel(&signalError{sig: sig})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(ch); cancel(nil) }
}
