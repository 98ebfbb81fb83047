package main

import (
	"bytes"
	"testing"
)

func TestFanout(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	want := `audit has seen 4 changes, search map[Erlangen:[emmy] London:[ada] New York:[grace] Wilmslow:[alan]]
audit is 4 changes behind
search is 0 changes behind
audit has seen 8 changes, search map[Bryn Mawr:[emmy] London:[ada] New York:[grace] Princeton:[kurt]]
`
	if out.String() != want {
		t.Errorf("it printed\n%s\nwant\n%s", out.String(), want)
	}
}
