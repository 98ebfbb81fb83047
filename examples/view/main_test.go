package main

import (
	"bytes"
	"testing"
)

// A second run goes on where the first has ended.
func TestView(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{
		`6 new visits, in all map[/:3 /blog:1 /docs:2]
6 new visits, in all map[/:6 /blog:2 /docs:4]
made anew of 12 visits: map[/:6 /blog:2 /docs:4]
`,
		`6 new visits, in all map[/:9 /blog:3 /docs:6]
6 new visits, in all map[/:12 /blog:4 /docs:8]
made anew of 24 visits: map[/:12 /blog:4 /docs:8]
`,
	} {
		var out bytes.Buffer
		if err := run(t.Context(), &out, dir); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
		}
	}
}
