package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Figures are what one run came to, by name: "rec/s", "p99 µs".
type Figures map[string]float64

// Contender does some work.
type Contender struct {
	Name string
	// Run does it once, below an empty directory that is removed afterwards.
	Run func(dir string) (Figures, error)
}

// Samples are the figures of every round: contender, figure, round.
type Samples map[string]map[string][]float64

// Watch is told of each run and what it did, and returns what to call at its end.
type Watch func(contender string, round int) (end func())

// Rounds lets every contender run once a round. Each round begins with another one, so
// that none is always the one after a certain other.
func Rounds(dir string, rounds int, all []Contender, watch Watch) (Samples, error) {
	out := Samples{}
	for round := range rounds {
		for i := range all {
			c := all[(round+i)%len(all)]
			figures, err := once(dir, c, round, watch)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", c.Name, round+1, err)
			}
			out.add(c.Name, figures)
		}
	}
	return out, nil
}

func once(dir string, c Contender, round int, watch Watch) (Figures, error) {
	sub, err := os.MkdirTemp(dir, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(sub)
	runtime.GC() // what the one before left is not this one's to clear away
	if watch != nil {
		defer watch(c.Name, round)()
	}
	return c.Run(filepath.Clean(sub))
}

func (s Samples) add(name string, figures Figures) {
	if s[name] == nil {
		s[name] = map[string][]float64{}
	}
	for figure, v := range figures {
		s[name][figure] = append(s[name][figure], v)
	}
}

// Of sums up a figure of a contender.
func (s Samples) Of(contender, figure string) Spread { return Of(s[contender][figure]) }

// Ratio sums up a figure of one contender as a multiple of another's.
func (s Samples) Ratio(a, b, figure string) Spread {
	return Ratio(s[a][figure], s[b][figure])
}

// Rate runs f, which does n things, and returns how many it did a second.
func Rate(n int, f func() error) (float64, error) {
	begin := time.Now()
	err := f()
	return float64(n) / time.Since(begin).Seconds(), err
}
