package main

import (
	"errors"
	"fmt"
)

// world is all states, and what can be done to them.
type world struct {
	states []*state
	strata []stratum
}

// newWorld makes the directory; on a machine that is too slow at first, several times.
func newWorld() (*world, error) {
	const tries = 20
	for n := 1; ; n++ {
		w, err := tryWorld()
		if err == nil || n == tries || !errors.Is(err, errSlow) {
			return w, err
		}
	}
}

// agreedWorld makes the directory until it came out the same twice. A busy machine may now
// and then write a round more, or less.
func agreedWorld() (*world, error) {
	const tries = 10
	seen := map[string]bool{}
	for range tries {
		w, err := newWorld()
		if err != nil || seen[w.digest()] {
			return w, err
		}
		seen[w.digest()] = true
	}
	return nil, fmt.Errorf("the directory came out differently %d times", tries)
}

func tryWorld() (*world, error) {
	l, err := live()
	if err != nil {
		return nil, fmt.Errorf("make the directory: %w", err)
	}
	w := &world{}
	for _, name := range []string{"stopped", "killed", "cut", "unmarked"} {
		st, err := newState(name, l)
		if err != nil {
			return nil, err
		}
		w.states = append(w.states, st)
		w.strata = append(w.strata, enumerate(st)...)
	}
	return w, nil
}

func (w *world) state(name string) (*state, error) {
	for _, st := range w.states {
		if st.name == name {
			return st, nil
		}
	}
	return nil, fmt.Errorf("there is no state %q", name)
}

func (w *world) total() (n int) {
	for _, s := range w.strata {
		n += len(s.list)
	}
	return n
}

// digest tells the directory of one version of the engine from that of another.
func (w *world) digest() (d string) {
	for _, st := range w.states {
		d += digest(st.disk)[:3]
	}
	return d
}

// run does one mutation.
func (w *world) run(m *mutation) (outcome, error) {
	st, err := w.state(m.state)
	if err != nil {
		return 0, err
	}
	o, err := m.run(st)
	if err == nil {
		return o, nil
	}
	if name := excuseFor(m, st, err); name != "" {
		return excused, &excusedError{name, err}
	}
	return o, err
}
