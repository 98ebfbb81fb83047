package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// atWorkEnv names the file in which the program that works says what at.
const atWorkEnv = "VARVE_CORRUPT_AT_WORK"

// supervise runs the program a second time and waits for it: a panic in a goroutine of
// the engine ends that one, which cannot say any more at which mutation it was. This one
// can.
func supervise() int {
	name, err := runWorker()
	if name != "" {
		defer os.Remove(name)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return 1
	}
	fmt.Fprintln(os.Stderr, "corrupt:", err)
	text, _ := os.ReadFile(name)
	for line := range strings.Lines(string(text)) {
		if m, err := parseMutation(line); err == nil {
			fmt.Fprintln(os.Stderr, "it was at:", m.command())
		}
	}
	return 2
}

func runWorker() (atWork string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "corrupt")
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return f.Name(), err
	}
	worker := exec.Command(self, os.Args[1:]...)
	worker.Env = append(os.Environ(), atWorkEnv+"="+f.Name())
	worker.Stdout, worker.Stderr = os.Stdout, os.Stderr
	return f.Name(), worker.Run()
}

// atWork says in a file what each worker does, for who has to know after a panic, and
// ends the program when one takes too long. A nil one says nothing.
//
//	field  guarded by    written by
//	file   (immutable)   openAtWork
//	slots  mu            work, rest
type atWork struct {
	file  *os.File
	mu    sync.Mutex
	slots []slot
}

type slot struct {
	what  *mutation // nil: nothing
	since time.Time
}

const (
	slotBytes = 512
	// patience is what a mutation may take, which else takes some milliseconds.
	patience = 30 * time.Second
)

func openAtWork(workers int) (*atWork, error) {
	f, err := os.OpenFile(os.Getenv(atWorkEnv), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	a := &atWork{file: f, slots: make([]slot, workers)}
	go a.watch()
	return a, nil
}

func (a *atWork) work(worker int, m *mutation) {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.slots[worker] = slot{m, time.Now()}
	a.mu.Unlock()
	line := append(bytes.Repeat([]byte{' '}, slotBytes-1), '\n')
	copy(line, m.String())
	a.file.WriteAt(line, int64(worker)*slotBytes) // without it a panic is harder to find, that is all
}

func (a *atWork) rest(worker int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.slots[worker] = slot{}
}

func (a *atWork) watch() {
	for range time.Tick(time.Second) {
		a.mu.Lock()
		for _, s := range a.slots {
			if s.what != nil && time.Since(s.since) > patience {
				stacks := make([]byte, 1<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				fmt.Fprintf(os.Stderr, "%s\n\nthis hangs: %s\n", stacks, s.what.command())
				os.Exit(2)
			}
		}
		a.mu.Unlock()
	}
}
