package vfs

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestGuardLetsOtherPanicsThrough(t *testing.T) {
	type point struct{ x int }
	var (
		nilMap   map[string]int
		nilPoint *point
		empty    []int
		boom     = errors.New("boom")
	)
	tests := []struct {
		name string
		do   func()
		want string
	}{
		{"value", func() { panic(boom) }, "boom"},
		{"nil map", func() { nilMap["a"] = 1 }, "nil map"},
		{"nil pointer", func() { nilPoint.x = 1 }, "nil pointer"},
		{"index", func() { empty[len(nilMap)]++ }, "out of range"},
		{"looks like a fault", func() { panic(addressed{boom}) }, "boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				p := recover()
				err, ok := p.(error)
				if !ok || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("recovered %v, want %q", p, tt.want)
				}
				if debug.SetPanicOnFault(false) {
					t.Error("panic on fault is still on")
				}
			}()
			err := Guard(tt.do)
			t.Errorf("Guard returned %v", err)
		})
	}
}

// addressed is an error with an address that no runtime made.
type addressed struct{ error }

func (addressed) Addr() uintptr { return 1 << 20 }

func TestGuardLetsGoexitThrough(t *testing.T) {
	done := make(chan bool)
	go func() {
		returned := false
		defer func() { done <- returned }()
		Guard(runtime.Goexit)
		returned = true
	}()
	if <-done {
		t.Error("Guard stopped Goexit")
	}
}

func TestGuardRestoresWhatWasSet(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	check(t, Guard(func() { check(t, Guard(func() {})) }))
	if !debug.SetPanicOnFault(true) {
		t.Error("Guard turned off what its caller had on")
	}
}

func TestGuardDoesNotAllocate(t *testing.T) {
	data, sum := []byte("abc"), 0
	if n := testing.AllocsPerRun(100, func() {
		Guard(func() {
			for _, b := range data {
				sum += int(b)
			}
		})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGuard(b *testing.B) {
	data, sum := []byte("abc"), 0
	for b.Loop() {
		Guard(func() { sum += int(data[1]) })
	}
}
