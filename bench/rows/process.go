package rows

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what this process has used so far, on all cores.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is how many bytes of memory the process holds that are not a file's, after
// what is garbage was given back.
func resident() (int64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "RssAnon:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("/proc/self/status tells no RssAnon")
}

// reads is how many read system calls the process has made.
func reads() (int64, error) {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "syscr: "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("/proc/self/io tells no syscr")
}

// children are what this program does in a process of its own when it is started with
// the name and arguments of one. What they print, a number a line, is their answer.
var children = map[string]func(args []string, out io.Writer) error{
	"fill-and-die": fillAndDie,
	"hold-memory":  holdMemory,
}

// Child runs what a row has asked for, if these are the arguments of a child.
func Child(args []string) (isChild bool, err error) {
	if len(args) < 2 || args[0] != "child" {
		return false, nil
	}
	child, ok := children[args[1]]
	if !ok {
		return true, fmt.Errorf("there is no child %q", args[1])
	}
	return true, child(args[2:], os.Stdout)
}

// inChild runs a child and returns the numbers that it printed. One that kills itself has
// printed a last line "dying".
func inChild(name string, args ...string) (numbers []float64, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.Command(self, append([]string{"child", name}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	dying := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if dying = lines.Text() == "dying"; dying {
			break
		}
		v, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			return nil, errors.Join(err, c.Wait())
		}
		numbers = append(numbers, v)
	}
	if err := c.Wait(); err != nil && !dying {
		return nil, fmt.Errorf("child %s: %w", name, err)
	}
	return numbers, nil
}
