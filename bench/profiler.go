package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// profiler writes a processor and a blocking profile of every run: files
// row-contender-round.cpu and .block. `go tool pprof` takes the .cpu of all rounds at once.
// The runtime sums up what blocks since the process began, so that a .block is that of one
// contender where it was alone: the last round of one row.
type profiler struct {
	dir string // "": none
	row string
	err error
}

func (p *profiler) watch(contender string, round int) func() {
	if p.dir == "" {
		return func() {}
	}
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(contender)
	path := filepath.Join(p.dir, fmt.Sprintf("%s-%s-%d", p.row, name, round))
	cpu, err := os.Create(path + ".cpu")
	if err == nil {
		err = pprof.StartCPUProfile(cpu)
	}
	p.err = errors.Join(p.err, err)
	runtime.SetBlockProfileRate(10_000) // a sample each 10 µs blocked
	return func() {
		pprof.StopCPUProfile()
		runtime.SetBlockProfileRate(0)
		p.err = errors.Join(p.err, cpu.Close(), writeBlocking(path+".block"))
	}
}

// writeBlocking writes what was blocked since the process began.
func writeBlocking(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("block").WriteTo(f, 0), f.Close())
}
