package crash

import (
	"fmt"
	"slices"
	"time"
)

const (
	shortenTime  = 3 * time.Minute
	shortenTries = 3 // of a shorter program, each with other crashes
)

// shorten looks for a shorter program that fails as well: steps are left out, many at
// a time and then single ones, and what is left is made smaller. What goroutines do
// beside each other is not the same each time, so every attempt is made with a few
// seeds; what fails once counts.
func (c *Campaign) shorten(f *Failure) *Failure {
	fmt.Fprintf(c.Out, "failed, looking for a shorter program:\n%s", f)
	end := time.Now().Add(shortenTime)
	try := func(p Program) bool {
		for i := range uint64(shortenTries) {
			if time.Now().After(end) {
				return false
			}
			if g := c.try(p, mix(f.Seed, i), 1); g != nil {
				f = g
				return true
			}
		}
		return false
	}
	for before := len(f.Program) + 1; len(f.Program) < before; {
		before = len(f.Program)
		for size := len(f.Program) / 2; size > 0; size /= 2 {
			for at := 0; at+size <= len(f.Program); {
				if !try(slices.Delete(slices.Clone(f.Program), at, at+size)) {
					at += size
				}
			}
		}
		for i := range f.Program {
			for _, s := range smaller(f.Program[i]) {
				p := slices.Clone(f.Program)
				p[i] = s
				if try(p) {
					break
				}
			}
		}
	}
	return f
}

// smaller are simpler steps than s, the simplest first.
func smaller(s Step) (all []Step) {
	for n := 1; n < s.N; n *= 2 {
		t := s
		t.N = n
		all = append(all, t)
	}
	if s.Part > 0 {
		t := s
		t.Part = 0
		all = append(all, t)
	}
	if s.Verb != "fail" {
		for i := range s.Words {
			t := s
			t.Words = slices.Delete(slices.Clone(s.Words), i, i+1)
			all = append(all, t)
		}
	}
	return all
}
