package vfs

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// FaultError says that memory which should have been there was not: the bytes of
// a mapping that a disk error, or a file cut short behind our back, took away.
type FaultError struct {
	Addr uintptr // where the access went wrong
	Text string  // what the runtime said
}

func (e *FaultError) Error() string {
	return fmt.Sprintf("memory fault at %#x: %s", e.Addr, e.Text)
}

// fault is what the runtime panics with when SetPanicOnFault is on and an access
// faults. It promises the method, not a type. A nil dereference, which is our
// own bug, does not have it.
type fault interface {
	runtime.Error
	Addr() uintptr
}

// Guard runs f and turns a memory fault inside it into a *FaultError. Any other
// panic goes on as it was. Only accesses by the calling goroutine are covered;
// what f stored before the fault stays stored.
//
// It costs some 10 ns and no allocation, so each lookup can afford its own.
func Guard(f func()) (err error) {
	before := debug.SetPanicOnFault(true)
	returned := false
	defer func() {
		debug.SetPanicOnFault(before)
		if returned {
			return // recover is most of the cost
		}
		if p := recover(); p != nil {
			err = asFault(p)
		}
	}()
	f()
	returned = true
	return nil
}

// asFault panics again with what is no fault; the runtime still prints where
// the first panic came from.
func asFault(p any) error {
	if e, ok := p.(fault); ok {
		return &FaultError{Addr: e.Addr(), Text: e.Error()}
	}
	panic(p)
}
