package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// campaign is a run over many mutations, several at a time.
//
//	field            guarded by   written by
//	world, at, progress, until   (immutable)   main
//	counts, excuses, sorts, failed   mu    count
type campaign struct {
	world    *world
	at       *atWork
	progress bool
	until    time.Time // no mutation begins after it; zero: no limit

	mu      sync.Mutex
	counts  map[kind]*row
	excuses map[string]int
	sorts   map[string]int // failures, by state, operation and kind
	failed  int
}

// row is what came of the mutations of one kind of file.
type row struct {
	all, failed int
	of          [outcomes]int
}

// mostFailures bounds how many are printed whole, of each sort.
const mostFailures = 2

func (c *campaign) run(list []mutation, workers int) {
	c.counts, c.excuses, c.sorts = map[kind]*row{}, map[string]int{}, map[string]int{}
	var next atomic.Int64
	var wait sync.WaitGroup
	for worker := range workers {
		wait.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(list) || !c.until.IsZero() && time.Now().After(c.until) {
					c.at.rest(worker)
					return
				}
				m := &list[i]
				c.at.work(worker, m)
				o, err := c.world.run(m)
				c.count(m, o, err)
			}
		})
	}
	if c.progress {
		done := make(chan struct{})
		defer close(done)
		go report(&next, len(list), done)
	}
	wait.Wait()
}

// report says now and then how far it is.
func report(next *atomic.Int64, of int, done chan struct{}) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(os.Stderr, "%d of %d\n", next.Load(), of)
		case <-done:
			return
		}
	}
}

func (c *campaign) count(m *mutation, o outcome, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := kindOf(m.file)
	if c.counts[k] == nil {
		c.counts[k] = new(row)
	}
	r := c.counts[k]
	r.all++
	var known *excusedError
	switch {
	case err == nil:
		r.of[o]++
	case errors.As(err, &known):
		r.of[excused]++
		c.excuses[known.name]++
		if c.progress {
			return
		}
		fmt.Printf("\n%s\nexcused, %s\n", m, indent(err))
	default:
		r.failed++
		c.failed++
		sort := fmt.Sprint(m.state, m.op, k)
		if c.sorts[sort]++; c.sorts[sort] <= mostFailures {
			fmt.Printf("\nFAIL, %s: %s\n%s\nrepeat: %s\n", k, m, indent(err), m.command())
		}
	}
}

// done is how many mutations were done.
func (c *campaign) done() (n int) {
	for _, r := range c.counts {
		n += r.all
	}
	return n
}

func indent(err error) string { return "    " + strings.ReplaceAll(err.Error(), "\n", "\n    ") }

// command is what does this mutation alone.
func (m *mutation) command() string { return fmt.Sprintf("go run ./fuzz/corrupt '%s'", m) }

// print prints what came of it, by kind of file.
func (c *campaign) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\nfile\tmutations\t")
	for o := range outcomes {
		fmt.Fprintf(table, "%s\t", o)
	}
	fmt.Fprintln(table, "failed\t")
	sum := new(row)
	for _, k := range kinds {
		if r := c.counts[k]; r != nil {
			r.print(table, string(k))
			sum.add(r)
		}
	}
	sum.print(table, "all")
	table.Flush()
	for _, e := range excuses {
		if n := c.excuses[e.name]; n > 0 {
			fmt.Fprintf(w, "excused, %d times: %s\n", n, e.name)
		}
	}
}

func (r *row) add(s *row) {
	r.all += s.all
	r.failed += s.failed
	for o := range s.of {
		r.of[o] += s.of[o]
	}
}

func (r *row) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\t%d\t", name, r.all)
	for _, n := range r.of {
		fmt.Fprintf(w, "%d\t", n)
	}
	fmt.Fprintf(w, "%d\t\n", r.failed)
}
